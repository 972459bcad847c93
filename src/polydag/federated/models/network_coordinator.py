"""The coordinator's side of neural networks.

First the parties are compared, where they take out `site_effects`, and agree on a common centre and unit. In
the rounds, parameters are those of an `MLPShape` or a `MaskedShape`. At the end the parties add up the slopes
of the networks, which measure effects, and residual sums of squares, with which BIC chooses among penalties.
The only second moments that are asked for are the variances of single columns.

Rows are divided by one number for all columns, the size of a typical error, as the pooled learner does. This
number is the mean over the parties of what each finds with its own regressions; where all of them have too
few rows for that, it is a typical standard deviation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polydag.acyclicity import ACYCLICITY
from polydag.arrays import Array, Index
from polydag.federated.models.first_questions import after_comparison, first_question
from polydag.federated.models.interface import Penalty, Sizes, Step
from polydag.federated.models.network_party import Kind, network_shape
from polydag.federated.party_data.regimes import require_spread
from polydag.federated.party_data.site_comparison import (
    COMPARE,
    adjustment_of,
    comparison_shapes,
)
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total
from polydag.knowledge import Masks
from polydag.losses.masked import MaskedShape
from polydag.losses.mlp import MLPShape
from polydag.optimize.network_choice import network_bic, penalty_path
from polydag.optimize.network_steps import augmented, server_step
from polydag.optimize.nonlinear import Penalties, effect_rates
from polydag.optimize.pruning import threshold_graph

_CONSTANTS = ("centre", "rows", "error", "log_scales")
_ERRORS, _EFFECTS = (np.array(word) for word in ("errors", "effects"))


@dataclass(frozen=True, eq=False)
class NetworkCoordinator:
    """The coordinator's side of networks.

    Parameters
    ----------
    names : tuple of str
        The columns.
    kind, hidden
        As for `NetworkParty`.
    lambda_ : float or "bic"
        One penalty, or the best of a path.
    lambda2 : float
        The ℓ2 penalty.
    threshold : float
        The strength from which an effect is an edge.
    standard : bool
        Whether rows are scaled to a common unit and effects are measured by slopes. Otherwise rows keep the
        units of the data and effects are norms of first-layer weights, as in the paper.
    seed : int
        For the starting values and the noise of the mask.
    site_effects : {"none", "means", "means and scales", "random"}
        What each party takes out of its rows first.
    """

    names: tuple[str, ...]
    masks: Masks
    kind: Kind
    hidden: int
    lambda_: Penalty
    lambda2: float
    threshold: float
    acyclicity: str
    standard: bool = True
    seed: int = 0
    site_effects: str = "none"

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    @property
    def shape(self) -> MLPShape | MaskedShape:
        """The parameters."""
        return network_shape(self.kind, self.d, self.hidden)

    @property
    def group(self) -> Index:
        """The same rows score every variable."""
        return np.zeros(self.d, dtype=np.int64)

    def begin(self) -> tuple[State, Ask]:
        """Ask for what it takes to compare the parties, or for numbers of rows and sums."""
        return first_question(self.names, self.group, self.site_effects)

    def prepare(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """The adjustment of the parties' rows, the common centre, then the common unit."""
        if str(state["question"]) == COMPARE:
            return after_comparison(self.names, self.group, self.site_effects, state, total)
        if str(state["question"]) == "centre":
            rows = total.arrays["rows"]
            centre = total.arrays["sums"] / np.maximum(total.arrays["mass"], 1e-300)[:, None]
            sites = np.array(total.n_sites)
            scales = total.arrays["log_scales"]
            state = {**state, "rows": rows, "centre": centre, "sites": sites, "log_scales": scales}
            state |= {"question": _ERRORS}
            returns = {"rows": (1,), "squares": (1, self.d), "log_error": (1,), "weight": (1,)}
            arrays = {"group": self.group, "centre": centre, **adjustment_of(state)}
            return state, Ask("errors", arrays, returns=returns)
        return self._with_unit(state, total), None

    def _with_unit(self, state: State, total: Total) -> State:
        n = float(state["rows"][0])
        pooled = np.sqrt(total.arrays["squares"][0] / max(float(total.arrays["rows"][0]), 1.0))
        require_spread(self.names, pooled, np.abs(state["centre"][0]))
        weight = float(total.arrays["weight"][0])
        size = float(total.arrays["log_error"][0]) / weight if weight > 0 else float(np.log(pooled).mean())
        lambdas = penalty_path(self.d, n) if self.lambda_ == "bic" else [float(self.lambda_)]
        start, _ = self.shape.hold(self.shape.start(np.random.default_rng(self.seed)), self.masks.forbidden)
        return {
            **state,
            "pooled_scale": pooled,
            "error": np.array(np.exp(size) if self.standard else 1.0),
            "unit": np.array(1.0),
            "lambdas": np.array(lambdas),
            "theta": np.tile(start, (len(lambdas), 1)),
            "h": np.zeros(len(lambdas)),
        }

    def constants(self, state: State) -> Arrays:
        """All that the parties' losses depend on: centre, unit, rows, forbidden effects, the mask's seed."""
        forbidden = self.masks.forbidden.astype(np.uint8)
        fixed = {"forbidden": forbidden, "seed": np.array(self.seed)}
        return {**fixed, **{name: state[name] for name in _CONSTANTS}, **adjustment_of(state)}

    @property
    def share_shape(self) -> tuple[int, ...]:
        """One number."""
        return (1,)

    def sizes(self, state: State) -> Sizes:
        """In the common unit the curvature of the pooled loss is about one."""
        return Sizes(1 / float(state["sites"]), 1.0)

    def powers(self, state: State) -> list[int]:
        """Rows are in a common unit, so parameters have none."""
        return [0]

    def server_step(
        self, state: State, lane: int, mean: Array, pull: float, cost: tuple[float, float], **limits: Any
    ) -> Step:
        """Eq. (3)."""
        shape, start = self.shape, state["theta"][lane]
        _, held = shape.hold(start, self.masks.forbidden)
        penalties = Penalties(effect_rates(float(state["lambdas"][lane]), self.masks), self.lambda2)
        measure, price = ACYCLICITY[self.acyclicity](), augmented(*cost)
        point = server_step(shape, mean, pull, penalties, measure, price, start, held, **limits)
        return Step(point.theta, point.h, int(np.count_nonzero(self._present(point.theta))))

    def _present(self, theta: Array) -> Array:
        """The effects: those with a probability above one half behind a mask, otherwise any with weight."""
        shape = self.shape
        if isinstance(shape, MaskedShape):
            return np.asarray(shape.probabilities(theta) > 0.5)
        return shape.influence(theta)

    def finish(self, state: State, total: Total | None, constants: Arrays) -> tuple[State, Ask | Answer]:
        """Ask for slopes and residuals, then choose among penalties."""
        if total is None:
            ask = Ask("effects", {"W": state["theta"], **constants}, returns=self._effects_returned(state))
            return {**state, "question": _EFFECTS}, ask
        share = float(total.arrays["share"][0])  # of the rows, since some parties may be missing
        n = float(state["rows"][0]) * share
        found = {name: array / share for name, array in total.arrays.items()}
        strengths = [self._strength(state, lane, found) for lane in range(len(state["lambdas"]))]
        kept = [threshold_graph(each, self.masks.required, self.threshold)[0] for each in strengths]
        criteria = [
            network_bic(squares, n, int(graph.sum()), self.hidden)
            for squares, graph in zip(found["residuals"], kept, strict=True)
        ]
        best = int(np.argmin(criteria))
        answer = {
            "weights": np.where(kept[best], strengths[best], 0.0),
            "raw_weights": strengths[best],
            "lambda_": state["lambdas"][best],
            "criterion": np.array(criteria[best]),
            **{name: state[name] for name in ("settled", "history", "rows", "pooled_scale")},
            "h": state["h"][best],
            **{name: state[name] for name in comparison_shapes(self.d) if name in state},
        }
        return state, Answer(answer)

    def _effects_returned(self, state: State) -> dict[str, tuple[int, ...]]:
        lanes, d = len(state["lambdas"]), self.d
        slopes = {} if isinstance(self.shape, MaskedShape) else {"slopes": (lanes, d, d)}
        return {"share": (1,), "residuals": (lanes, d), **slopes}

    def _strength(self, state: State, lane: int, arrays: Arrays) -> Array:
        theta, shape = state["theta"][lane], self.shape
        if isinstance(shape, MaskedShape):
            return shape.probabilities(theta)
        squares = arrays["slopes"][lane] if self.standard else shape.influence(theta)
        return np.sqrt(squares)
