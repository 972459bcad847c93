"""How the noise of a study is divided over its releases, and the first questions of a private study.

First bounds, if none are given, then the whitening of the data, in several steps: each resolves directions a
few hundred times narrower than the one before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polydag.arrays import Array
from polydag.federated.methods.private.party import BOUNDS, GRADIENT, MOMENTS, WHITENING
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, Shapes, State, Total
from polydag.privacy.dp import clipping
from polydag.privacy.dp.accounting import Budget, split_budget
from polydag.privacy.dp.whitening import Whitening, moment_sensitivity
from polydag.privacy.settings import Privacy

SHARES = {BOUNDS: 0.1, WHITENING: 0.4, MOMENTS: 0.5, GRADIENT: 0.5}  # of the budget
WHITENING_STEPS = 3
GRADIENT_ROUNDS = 30


@dataclass(frozen=True)
class NoisePlan:
    """The noise of a study: multipliers and numbers of releases by kind, and bounds where they are given."""

    multipliers: Mapping[str, float]
    counts: Mapping[str, int]
    bounds: tuple[tuple[float, float], ...] | None

    def ask(self, task: str, arrays: Arrays, meta: Mapping[str, Any]) -> Ask:
        """A question with the noise that its answer must have, and all releases of the study."""
        releases = [[self.multipliers[name], self.counts[name]] for name in self.multipliers]
        d = len(meta["columns"])
        returns: Shapes = {
            BOUNDS: {"counts": (d, len(clipping.EDGES) - 1)},
            GRADIENT: {"gradient": (d, d)},
        }.get(task, {"moments": (1 + d + d * (d + 1) // 2,)})
        about = {**meta, "multiplier": self.multipliers[task], "plan": releases}
        return Ask(task, arrays, about, returns=returns)


def moment_plan(privacy: Privacy, names: tuple[str, ...]) -> NoisePlan:
    """The plan of a study that releases moments once."""
    return _plan(privacy, names, {MOMENTS: 1})


def gradient_plan(privacy: Privacy, names: tuple[str, ...]) -> NoisePlan:
    """The plan of a study that releases a gradient in every round."""
    return _plan(privacy, names, {GRADIENT: GRADIENT_ROUNDS})


def _plan(privacy: Privacy, names: tuple[str, ...], last: Mapping[str, int]) -> NoisePlan:
    assert privacy.epsilon is not None
    counts = {**({BOUNDS: 1} if privacy.bounds is None else {}), WHITENING: WHITENING_STEPS, **last}
    budget = Budget(privacy.epsilon, privacy.delta)
    multipliers = split_budget(budget, {name: (SHARES[name], count) for name, count in counts.items()})
    return NoisePlan(multipliers, counts, privacy.bounds_of(names))


@dataclass(frozen=True, eq=False)
class WhiteningSearch:
    """The first questions of a private study."""

    names: tuple[str, ...]
    plan: NoisePlan

    def begin(self) -> tuple[State, Ask]:
        """Ask for bounds, or begin with the whitening if they are given."""
        if self.plan.bounds is None:
            return {"phase": np.array(BOUNDS)}, self.plan.ask(BOUNDS, {}, {"columns": list(self.names)})
        return self._within(np.array(self.plan.bounds, dtype=float))

    def _within(self, bounds: Array) -> tuple[State, Ask]:
        return self.ask(
            {"left": np.array(self.plan.counts[WHITENING])}, WHITENING, Whitening.from_bounds(bounds)
        )

    def ask(
        self,
        state: State,
        task: str,
        whitening: Whitening,
        meta: Mapping[str, Any] | None = None,
        **more: Array,
    ) -> tuple[State, Ask]:
        """A question about the whitened rows, and the state that waits for its answer."""
        radius = np.array(whitening.radius)
        arrays = {"centre": whitening.centre, "transform": whitening.transform}
        about = {"columns": list(self.names), "radius": whitening.radius, **(meta or {})}
        ask = self.plan.ask(task, {**arrays, **more}, about)
        return {**state, "phase": np.array(task), **arrays, "radius": radius}, ask

    def whitening(self, state: State) -> Whitening:
        """The whitening of the current question."""
        return Whitening(state["centre"], state["transform"], float(state["radius"]))

    def advance(self, state: State, total: Total) -> tuple[State, Ask] | tuple[Whitening, float]:
        """The next question of the search; at its end the whitening and the number of rows."""
        if str(state["phase"]) == BOUNDS:
            spread = self.deviation(BOUNDS, total.n_sites, clipping.histogram_sensitivity(len(self.names)))
            return self._within(clipping.bounds_from(total.arrays["counts"], spread, self.names))
        whitening = self.whitening(state)
        deviation = self.moment_deviation(WHITENING, total.n_sites, whitening)
        found = whitening.moments_from(total.arrays["moments"], deviation)
        left = int(state["left"]) - 1
        if left:
            return self.ask({**state, "left": np.array(left)}, WHITENING, whitening.narrowed(found))
        return whitening.narrowed(found), found.n

    def moment_deviation(self, task: str, n_parties: int, whitening: Whitening) -> float:
        """The standard deviation of the noise in summed moments."""
        return self.deviation(task, n_parties, moment_sensitivity(whitening.radius))

    def deviation(self, task: str, n_parties: int, sensitivity: float) -> float:
        """The standard deviation of the noise in a whole sum, where every party has added its share."""
        honest = n_parties - (n_parties - 1) // 2
        return self.plan.multipliers[task] * sensitivity * float(np.sqrt(n_parties / honest))
