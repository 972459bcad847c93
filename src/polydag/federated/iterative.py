"""What the methods that exchange parameters have in common, on the coordinator's side.

A common centre and scale first (two sums); then rounds, several penalties λ side by side in *lanes* so that a
path of them costs no more rounds than one; then the choice among them. With `threshold="ebic"` the choice is
the pooled learner's: sites add up the residual sums of squares, edges too weak for the criterion whatever the
rest of their family (a coefficient of `w` can lower a sum of squares by `w² Σx²` at most) are dropped, and
for what is left the sum of the sites' losses as functions of a family's coefficients decides: the covariances
of pairs within one candidate family. With a number, only the residual sums of squares are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polydag.acyclicity import ACYCLICITY
from polydag.federated.messages import Arrays
from polydag.federated.programs import Answer, Ask, State, Total
from polydag.federated.proximity import Proximity
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.progress import report
from polydag.regression import extended_bic_penalty
from polydag.solvers.notears import lasso_rates
from polydag.solvers.penalised import Penalty, Point, descend
from polydag.solvers.pruning import prune

Array = NDArray[np.float64]

LANES = 5
_SCREEN = 0.3  # of the least weight that could pass; penalised weights are shrunken
HISTORY = ("round", "lambda_", "cycle_cost", "rho", "primal", "dual", "h", "n_nonzero")
REASONS = ("threshold", "cycle", "ebic")


@dataclass(frozen=True, eq=False)
class Iterative:
    """The coordinator's side up to the method's own rounds.

    Parameters
    ----------
    names : tuple of str
        The columns.
    group : int array of shape (d,)
        Which variables are scored by the same rows.
    lambda_ : float or "bic"
        One penalty, or the best of a path.
    """

    names: tuple[str, ...]
    masks: Masks
    group: NDArray[np.int64]
    lambda_: float | Literal["bic"]
    threshold: float | Literal["ebic"]
    acyclicity: str

    @property
    def tolerates_absence(self) -> bool:
        """Whether a round may end without some of the sites."""
        return False

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    def begin(self) -> tuple[State, Ask]:
        """Ask for numbers of rows and sums."""
        ask = Ask("centre", {"group": self.group}, {"columns": list(self.names)})
        return {"phase": np.array("centre")}, ask

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The next question of the phase under way."""
        phase = str(state["phase"])
        if phase == "centre":
            return self._centred(state, total)
        if phase == "scale":
            return self._scaled(state, total)
        if phase == "losses":
            return self._screened(state, total)
        if phase == "families":
            return self._chosen(state, total)
        state, more = self.iterate(state, total)
        return self._settled(state) if more is None else (state, more)

    def start(self, state: State) -> tuple[State, Ask]:
        """The method's first question."""
        raise NotImplementedError

    def iterate(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """One round of the method; None where it has settled."""
        raise NotImplementedError

    def scale(self, pooled: Array) -> Array:
        """The scale in which parameters are exchanged, given the pooled standard deviations."""
        return pooled

    def unit(self, pooled: Array) -> float:
        """What the cost of cycles is measured in: the geometric mean of the variances, as the loss is."""
        return float(np.exp(2 * np.log(pooled).mean()))

    def _centred(self, state: State, total: Total) -> tuple[State, Ask]:
        rows = total.arrays["rows"]
        centre = total.arrays["sums"] / np.maximum(rows, 1.0)[:, None]
        # Of all sites together: the sum of ranks, by which eigenvalues are sized.
        state = {**state, "rows": rows, "centre": centre, "rank": total.arrays["rank"]}
        state |= {"sites": np.array(total.n_sites)}
        return {**state, "phase": np.array("scale")}, Ask("scale", {"centre": centre})

    def _scaled(self, state: State, total: Total) -> tuple[State, Ask]:
        variance = total.arrays["squares"] / np.maximum(state["rows"], 1.0)[:, None]
        pooled = np.sqrt(variance.max(axis=0))
        pooled = np.where(pooled > 0, pooled, 1.0)
        lambdas = self._lambdas(pooled, float(state["rows"].max()))
        return self.start(
            {
                **state,
                "pooled_scale": pooled,
                "scale": self.scale(pooled),
                "unit": np.array(self.unit(pooled)),
                "lambdas": lambdas,
                "W": np.zeros((len(lambdas), self.d, self.d)),
                "h": np.zeros(len(lambdas)),
                "history": np.zeros((0, len(HISTORY))),
                "phase": np.array("rounds"),
            }
        )

    def _lambdas(self, scale: Array, n: float) -> Array:
        """One penalty; or a path from the size of chance correlations between two columns, halving."""
        if self.lambda_ != "bic":
            return np.array([float(self.lambda_)])
        typical = float(np.exp(2 * np.log(scale).mean()))
        first = typical * float(np.sqrt(np.log(max(self.d, 2)) / n))
        return np.array([first / 2**k for k in range(LANES)])

    def server_step(
        self,
        centre: Array,
        weight: Array,
        lambda_: float,
        cost: tuple[float, float],
        start: Array,
        **limits: Any,
    ) -> Point:
        """`min λ‖W‖₁ + a h + b/2 h² + ½ Σ g_i (C_ij − W_ij)²`, from `start`."""
        a, b = cost
        penalty = Penalty(lambda h: a * h + 0.5 * b * h * h, lambda h: a + b * h)
        lasso = lasso_rates(lambda_, self.masks)
        measure = ACYCLICITY[self.acyclicity]()
        return descend(Proximity(centre, weight), lasso, measure, penalty, start, **limits)

    def _settled(self, state: State) -> tuple[State, Ask | Answer]:
        """Turn to the choice among lanes; nothing is asked where there is nothing to choose."""
        raw = state["W"]
        if self.threshold == "ebic":
            candidates = raw
        else:
            pruned = [self._by_number(W) for W in raw]
            candidates = np.array(pruned)
            if len(raw) == 1:
                return state, self._answer(state, 0, candidates[0], np.nan)
        state = {**state, "phase": np.array("losses"), "candidates": candidates}
        return state, Ask("losses", {"weights": candidates, **self.everything(state)})

    def everything(self, state: State) -> Arrays:
        """What a site that was not there before has to know; nothing where all sites were."""
        return {}

    def _by_number(self, W: Array) -> Array:
        from polydag.orientation import weakest_cycle_edges

        assert self.threshold != "ebic"
        kept = (np.abs(W) >= self.threshold) & (W != 0) | self.masks.required
        for i, j in weakest_cycle_edges(kept, np.abs(W), self.masks.required):
            kept[i, j] = False
        return np.where(kept, W, 0.0)

    def _screened(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        n = state["rows"][self.group]
        variance = np.maximum(total.arrays["squares"], 1e-300) / n
        candidates = state["candidates"]
        price = extended_bic_penalty(float(n.max()), self.d)
        if self.threshold != "ebic":
            edges = (candidates != 0).sum(axis=(1, 2))
            criterion = (n * np.log(variance)).sum(axis=1) + price * edges
            best = int(np.argmin(criterion))
            return state, self._answer(state, best, candidates[best], float(criterion[best]))
        least = np.sqrt(np.expm1(price / n) * variance)  # what a scaled weight has to be, at least
        strong = np.abs(candidates) * state["pooled_scale"][:, None] >= _SCREEN * least[:, None, :]
        candidates = np.where(strong | self.masks.required, candidates, 0.0)
        pairs = self._pairs((candidates != 0) | self.masks.required)
        state = {**state, "phase": np.array("families"), "candidates": candidates, "pairs": pairs}
        return state, Ask("families", {"pairs": pairs, **self.everything(state)})

    def _pairs(self, edges: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Per group: the pairs that stand together in a family of any lane; each pair once."""
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
        rows = state["rows"]
        loss = LeastSquares(grams / rows[:, None, None], self.group, rows[self.group], self.names)
        results = [prune(loss, W, self.masks, "ebic") for W in state["candidates"]]
        # Equivalent graphs have the same criterion; least squares, the method's own loss, tells them apart.
        rank = [(round(each.criterion, 6), loss.value(each.weights)) for each in results]
        best = min(range(len(rank)), key=rank.__getitem__)
        return state, self._answer(state, best, results[best].weights, results[best].criterion)

    def _answer(self, state: State, best: int, weights: Array, criterion: float) -> Answer:
        report(self.label, 1, 1, f"λ={state['lambdas'][best]:.3g}")
        return Answer(
            {
                "weights": weights,
                "raw_weights": state["W"][best],
                "lambda_": state["lambdas"][best],
                "criterion": np.array(criterion),
                "h": state["h"][best],
                "settled": state["settled"],
                "history": state["history"],
                "rows": state["rows"],
                "pooled_scale": state["pooled_scale"],
            }
        )

    @property
    def label(self) -> str:
        """The method's name in progress reports."""
        return type(self).__name__.lower()
