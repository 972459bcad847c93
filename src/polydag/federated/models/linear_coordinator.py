"""The coordinator's side of the linear model.

First the parties are compared, where they take out `site_effects`, and agree on a common centre and scale
(three sums). In the rounds, parameters are `s_i W_ij` with
`s` the pooled standard deviations. At the end the coordinator chooses among the penalties. With
`threshold="ebic"` it chooses as the pooled learner does. The parties add up residual sums of squares; edges
that are too weak for the criterion whatever the rest of their family are dropped (a coefficient `w` can lower
a sum of squares by at most `w² Σx²`); for the remaining edges the sum of the parties' losses as functions of
a family's coefficients decides, which takes the covariances of pairs within one candidate family. The end
point of ADMM depends on its path more than that of the pooled learner, so the graph at each penalty is first
improved by hill climbing, as far as these covariances allow. With a number as threshold, only the residual
sums of squares are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polydag.acyclicity import ACYCLICITY
from polydag.arrays import Array, Index, Mask
from polydag.federated.models.first_questions import after_comparison, first_question
from polydag.federated.models.interface import Penalty as Lambda
from polydag.federated.models.interface import Sizes, Step
from polydag.federated.models.proximal_loss import ProximalLoss
from polydag.federated.party_data.regimes import require_rows, require_spread
from polydag.federated.party_data.site_comparison import (
    ADJUSTMENT,
    COMPARE,
    adjustment_of,
    comparison_shapes,
)
from polydag.federated.party_data.site_effects import Adjustment
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.optimize.hill_climbing import climb
from polydag.optimize.notears import lasso_rates
from polydag.optimize.penalised import Penalty, descend
from polydag.optimize.pruning import Pruned, best_of, first_lowest, prune
from polydag.orientation import weakest_cycle_edges
from polydag.regression import extended_bic_penalty

PATH_LENGTH = 5
_SCREEN = 0.6  # of the smallest weight that could pass, since penalised weights are shrunken
_CONSTANTS = ("centre", "rows", "scale", "log_scales")
_SCALE, _LOSSES, _FAMILIES = (np.array(word) for word in ("scale", "losses", "families"))


@dataclass(frozen=True, eq=False)
class LinearCoordinator:
    """The coordinator's side of linear weights.

    Parameters
    ----------
    names : tuple of str
        The columns.
    group : int array of shape (d,)
        Which variables are scored by the same rows.
    lambda_ : float or "bic"
        One penalty, or the best of a path.
    scaled : bool
        Whether weights are exchanged in units of the pooled standard deviations and the cost of cycles is in
        units of the loss; the paper's constants are in the units of the data.
    site_effects : {"none", "means", "means and scales", "random"}
        What each party takes out of its rows first.
    """

    names: tuple[str, ...]
    masks: Masks
    group: Index
    lambda_: Lambda
    threshold: float | Literal["ebic"]
    acyclicity: str
    scaled: bool = True
    site_effects: str = "none"

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    def begin(self) -> tuple[State, Ask]:
        """Ask for what it takes to compare the parties, or for numbers of rows and sums."""
        return first_question(self.names, self.group, self.site_effects)

    def prepare(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """The adjustment of the parties' rows, the common centre, then the common scale."""
        if str(state["question"]) == COMPARE:
            return after_comparison(self.names, self.group, self.site_effects, state, total)
        return (
            self._centred(state, total) if str(state["question"]) == "centre" else self._scaled(state, total)
        )

    def _centred(self, state: State, total: Total) -> tuple[State, Ask]:
        rows, mass = self._rows(state, total), total.arrays["mass"][:, None]
        centre = total.arrays["sums"] / np.where(mass > 0, mass, 1.0)
        # The sum of ranks over all parties determines the size of a party's eigenvalues.
        state = {**state, "rows": rows, "centre": centre, "rank": total.arrays["rank"]}
        state |= {"log_scales": total.arrays["log_scales"]}
        state |= {"sites": np.array(total.n_sites), "question": _SCALE}
        returns = {"rows": rows.shape, "squares": centre.shape}
        arrays = {"group": self.group, "centre": centre, **adjustment_of(state)}
        return state, Ask("scale", arrays, returns=returns)

    def _rows(self, state: State, total: Total) -> Array:
        """The rows per group of the parties that answered: other ones may be missing in every sum.

        A party that is centred counts one row less; the common mean is not lost.
        """
        require_rows(self.names, self.group, total.arrays["rows"])
        given = adjustment_of(state)
        return total.arrays["rows"] + (Adjustment.of(given[ADJUSTMENT]).centres if given else 0)

    def _scaled(self, state: State, total: Total) -> tuple[State, None]:
        variance = total.arrays["squares"] / np.maximum(self._rows(state, total), 1.0)[:, None]
        pooled = np.sqrt(variance.max(axis=0))
        require_spread(self.names, pooled, np.abs(state["centre"]).max(axis=0))
        typical = float(np.exp(2 * np.log(pooled).mean()))
        lambdas = self._lambdas(typical, float(state["rows"].max()))
        lanes = len(lambdas)
        return {
            **state,
            "pooled_scale": pooled,
            "scale": pooled if self.scaled else np.ones_like(pooled),
            "unit": np.array(typical if self.scaled else 1.0),
            "lambdas": lambdas,
            "theta": np.zeros((lanes, self.d, self.d)),
            "h": np.zeros(lanes),
        }, None

    def _lambdas(self, typical: float, n: float) -> Array:
        """One penalty; or a path that starts at the size of chance correlations and halves at each step."""
        if self.lambda_ != "bic":
            return np.array([float(self.lambda_)])
        first = typical * float(np.sqrt(np.log(max(self.d, 2)) / n))
        return np.array([first / 2**k for k in range(PATH_LENGTH)])

    def constants(self, state: State) -> Arrays:
        """Groups, the common centre, total rows, the common scale, and the parties' scales."""
        return {"group": self.group, **{name: state[name] for name in _CONSTANTS}, **adjustment_of(state)}

    @property
    def share_shape(self) -> tuple[int, ...]:
        """One share per variable, since some rows score only some of them."""
        return (self.d,)

    def sizes(self, state: State) -> Sizes:
        """The size of eigenvalues, from the number of directions that the parties' rows span."""
        rank = max(float(state["rank"][0]), 1.0)
        variance = float(np.mean((state["pooled_scale"] / state["scale"]) ** 2))
        return Sizes(self.d / rank * variance, min(rank / (float(state["sites"]) * self.d), 1.0))

    def powers(self, state: State) -> list[int]:
        """Parameters `s_i W_ij` have the units of column j."""
        powers: list[int] = np.rint(np.log2(state["scale"])).astype(int).tolist()
        return powers

    def server_step(
        self, state: State, lane: int, mean: Array, pull: float, cost: tuple[float, float], **limits: Any
    ) -> Step:
        """Eq. (3), with the parties' part as a quadratic in unscaled weights."""
        a, b = cost
        penalty = Penalty(lambda h: a * h + 0.5 * b * h * h, lambda h: a + b * h)
        lasso = lasso_rates(float(state["lambdas"][lane]), self.masks)
        scale = state["scale"][:, None]
        near = ProximalLoss(mean / scale, np.diag(pull * state["scale"] ** 2))
        measure = ACYCLICITY[self.acyclicity]()
        point = descend(near, lasso, measure, penalty, state["theta"][lane] / scale, **limits)
        return Step(point.W * scale, point.h, int(np.count_nonzero(point.W)))

    def finish(self, state: State, total: Total | None, constants: Arrays) -> tuple[State, Ask | Answer]:
        """The choice among penalties; nothing is asked where there is no choice."""
        if total is None:
            return self._settled(state, constants)
        screened = str(state["question"]) == "losses"
        return self._screened(state, total, constants) if screened else self._chosen(state, total)

    def _settled(self, state: State, constants: Arrays) -> tuple[State, Ask | Answer]:
        raw = state["theta"] / state["scale"][:, None]
        if self.threshold == "ebic":
            candidates = raw
        else:
            candidates = np.array([self._by_number(W) for W in raw])
            if len(raw) == 1:
                return state, self._answer(state, 0, candidates[0], np.nan)
        state = {**state, "question": _LOSSES, "candidates": candidates}
        returns = {"rows": state["rows"].shape, "squares": candidates.shape[:2]}
        return state, Ask("losses", {"weights": candidates, **constants}, returns=returns)

    def _by_number(self, W: Array) -> Array:
        assert self.threshold != "ebic"
        kept = (np.abs(W) >= self.threshold) & (W != 0) | self.masks.required
        for i, j in weakest_cycle_edges(kept, np.abs(W), self.masks.required):
            kept[i, j] = False
        return np.where(kept, W, 0.0)

    def _screened(self, state: State, total: Total, constants: Arrays) -> tuple[State, Ask | Answer]:
        n = self._rows(state, total)[self.group]
        variance = np.maximum(total.arrays["squares"], 1e-300) / n
        candidates = state["candidates"]
        price = extended_bic_penalty(float(n.max()), self.d)
        if self.threshold != "ebic":
            edges = (candidates != 0).sum(axis=(1, 2))
            criterion = (n * np.log(variance)).sum(axis=1) + price * edges
            best = first_lowest(criterion)
            return state, self._answer(state, best, candidates[best], float(criterion[best]))
        least = np.sqrt(np.expm1(price / n) * variance)  # the smallest scaled weight that can pass
        strong = np.abs(candidates) * state["pooled_scale"][:, None] >= _SCREEN * least[:, None, :]
        candidates = np.where(strong | self.masks.required, candidates, 0.0)
        pairs = self._pairs((candidates != 0) | self.masks.required)
        state = {**state, "question": _FAMILIES, "candidates": candidates, "pairs": pairs}
        returns = {"rows": state["rows"].shape, "families": (int(pairs.sum()),)}
        return state, Ask("families", {"pairs": pairs, **constants}, returns=returns)

    def _pairs(self, edges: Mask) -> NDArray[np.uint8]:
        """Per group: the pairs that occur in one family at any penalty, each pair once."""
        pairs = np.zeros((int(self.group.max()) + 1, self.d, self.d), dtype=np.uint8)
        for lane in edges:
            for j in range(self.d):
                family = np.append(np.flatnonzero(lane[:, j]), j)
                pairs[self.group[j]][np.ix_(family, family)] = 1
        return np.triu(pairs)

    def _chosen(self, state: State, total: Total) -> tuple[State, Answer]:
        upper = np.zeros(state["pairs"].shape)
        upper[state["pairs"].astype(bool)] = total.arrays["families"]
        grams = upper + np.triu(upper, 1).transpose(0, 2, 1)
        rows = self._rows(state, total)
        loss = LeastSquares(grams / rows[:, None, None], self.group, rows[self.group], self.names)
        known = (state["pairs"] | state["pairs"].transpose(0, 2, 1)).astype(bool)
        results = [self._climbed(loss, W, known) for W in state["candidates"]]
        # Among graphs whose BIC differs by less than the cost of a parameter, least squares decides.
        best = best_of(loss, results, margin=float(np.log(rows.max())))
        return state, self._answer(state, best, results[best].weights, results[best].criterion)

    def _climbed(self, loss: LeastSquares, W: Array, known: Mask) -> Pruned:
        """The graph at one penalty, improved as far as the covariances allow: ADMM depends on its path."""
        first = prune(loss, W, self.masks, "ebic").weights
        better = climb(loss, (first != 0) | self.masks.required, known, self.masks)
        return prune(loss, better.astype(float), self.masks, "ebic")

    def _answer(self, state: State, best: int, weights: Array, criterion: float) -> Answer:
        return Answer(
            {
                "weights": weights,
                "raw_weights": state["theta"][best] / state["scale"][:, None],
                "lambda_": state["lambdas"][best],
                "criterion": np.array(criterion),
                **{name: state[name] for name in ("settled", "history", "rows", "pooled_scale")},
                "h": state["h"][best],
                **{name: state[name] for name in comparison_shapes(self.d) if name in state},
            }
        )
