"""Differential privacy for parties: what sites answer under noise, and the programs that live on it.

A site holds rows here, not statistics: what one row can do is bounded row by row, and noise is added before
masking (`privacy.noise`). Both programs first look for a frame in which noise does least harm
(`privacy.frames`). `PrivateMoments` is one release of moments in it, then any learner. `PrivateRounds` is
ADMM with the sites' step linearised (Huang et al. 2019), which leaves of `B_k + β_k/ρ` only a step down the
gradient: a sum over rows, so that no state of a site grows more sensitive from round to round. Steps are
measured by the frame's covariance Σ, `W − Σ⁻¹∇(W)/ρ`; with a growing ρ it is federated averaging of single
steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydag.acyclicity import ACYCLICITY
from polydag.errors import DataError
from polydag.federated.methods.moments import Moments
from polydag.federated.models.linear_coordinator import LinearModel
from polydag.federated.models.linear_site import require_columns
from polydag.federated.models.proximal_loss import Proximity
from polydag.federated.protocol.checks import Task, damage
from polydag.federated.protocol.disclosure import Noise
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, Shapes, State, Total
from polydag.optimize.notears import lasso_rates
from polydag.optimize.penalised import Penalty, Point, descend
from polydag.orientation import weakest_cycle_edges
from polydag.privacy.dp import clipping
from polydag.privacy.dp.noise import Shared, with_share
from polydag.privacy.dp.whitening import Frame, moments_sensitivity
from polydag.progress import report

Array = NDArray[np.float64]
BOUNDS, FRAME, MOMENTS, GRADIENT = "private bounds", "private frame", "private moments", "private gradient"
SHARES = {BOUNDS: 0.1, FRAME: 0.4, MOMENTS: 0.5, GRADIENT: 0.5}  # of the budget
FRAMES = 3  # each knows a few hundred times narrower directions than the one before
STANDARD_THRESHOLD = 0.1  # of weights between columns of standard deviation 1


@dataclass(frozen=True, eq=False)
class PrivateLocal:
    """Answers under noise only; `honest` in a question is what its own guard says, not the coordinator."""

    rows: Array
    names: tuple[str, ...]

    @property
    def n_rows(self) -> float:
        """How many rows there are."""
        return float(len(self.rows))

    @property
    def data(self) -> Any:
        """The rows."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(self.names))

    def mark(self) -> bytes:
        """Of the rows."""
        return hashlib.sha256(repr(self.names).encode() + self.rows.tobytes()).digest()

    def told(self, state: State, arrays: Arrays) -> list[str]:
        """Nothing: bounds take the place of units."""
        return []

    def noise(self, ask: Ask) -> Noise:
        """What will be added to the answer."""
        shared, size = self._shared(ask)
        return Noise(shared.deviation(size), shared.multiplier)

    def _shared(self, ask: Ask) -> tuple[Shared, int]:
        d = len(self.names)
        moments = moments_sensitivity(float(ask.meta.get("radius", 0.0)))
        sensitivity, size = {
            BOUNDS: (clipping.histogram_sensitivity(d), d * (len(clipping.EDGES) - 1)),
            FRAME: (moments, 1 + d + d * (d + 1) // 2),
            MOMENTS: (moments, 1 + d + d * (d + 1) // 2),
            GRADIENT: (float(ask.meta.get("largest", 0.0)), d * d),
        }.get(ask.task, (0.0, 0))
        if not size:
            raise _unanswered(ask)
        return Shared(float(ask.meta["multiplier"]), sensitivity, int(ask.meta["honest"])), size

    def objection(self, state: State, ask: Ask) -> str | None:
        """What is missing in a question, or wrong with it; raises where it must not be answered at all."""
        frame, meta = {"centre": "d", "transform": "dd"}, ("multiplier", "columns", "radius")
        tasks = {
            BOUNDS: Task(self.answer, {}, meta[:2]),
            FRAME: Task(self.answer, frame, meta),
            MOMENTS: Task(self.answer, frame, meta),
            GRADIENT: Task(self.answer, {**frame, "residual": "dd"}, (*meta, "largest")),
        }
        if ask.task not in tasks:
            raise _unanswered(ask)
        require_columns(ask, self.names)
        return damage(tasks[ask.task], state, ask, {"d": len(self.names)})

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """A clipped sum over rows, with this site's share of the noise."""
        shared, _ = self._shared(ask)
        if ask.task == BOUNDS:
            return state, {"counts": with_share(clipping.histogram(self.rows), shared)}
        frame = Frame(ask.arrays["centre"], ask.arrays["transform"], float(ask.meta["radius"]))
        if ask.task == GRADIENT:
            found = clipping.gradient(frame.rows(self.rows), ask.arrays["residual"], shared.sensitivity)
            return state, {"gradient": with_share(found, shared)}
        return state, {"moments": with_share(frame.moments(self.rows), shared)}


def _unanswered(ask: Ask) -> DataError:
    return DataError(f"Under differential privacy this site does not answer {ask.task!r}.")


@dataclass(frozen=True)
class Plan:
    """The noise of a study: multipliers by kind of release, how many of each, and given bounds if any."""

    multipliers: Mapping[str, float]
    counts: Mapping[str, int]
    bounds: tuple[tuple[float, float], ...] | None

    def ask(self, task: str, arrays: Arrays, meta: Mapping[str, Any]) -> Ask:
        """A question with the noise that its answer must have, and all that will be asked for."""
        releases = [[self.multipliers[name], self.counts[name]] for name in self.multipliers]
        d = len(meta["columns"])
        returns: Shapes = {
            BOUNDS: {"counts": (d, len(clipping.EDGES) - 1)},
            GRADIENT: {"gradient": (d, d)},
        }.get(task, {"moments": (1 + d + d * (d + 1) // 2,)})
        about = {**meta, "multiplier": self.multipliers[task], "plan": releases}
        return Ask(task, arrays, about, returns=returns)


@dataclass(frozen=True, eq=False)
class _Search:
    """The first questions of both programs: bounds, if none are given, and the data's own frame."""

    names: tuple[str, ...]
    plan: Plan

    def begin(self) -> tuple[State, Ask]:
        if self.plan.bounds is None:
            return {"phase": np.array(BOUNDS)}, self.plan.ask(BOUNDS, {}, {"columns": list(self.names)})
        return self._within(np.array(self.plan.bounds, dtype=float))

    def _within(self, bounds: Array) -> tuple[State, Ask]:
        return self.ask({"left": np.array(self.plan.counts[FRAME])}, FRAME, Frame.of_bounds(bounds))

    def ask(
        self, state: State, task: str, frame: Frame, meta: Mapping[str, Any] | None = None, **more: Array
    ) -> tuple[State, Ask]:
        """A question about the rows in a frame, and the state that waits for its answer."""
        radius = np.array(frame.radius)
        arrays = {"centre": frame.centre, "transform": frame.transform}
        about = {"columns": list(self.names), "radius": frame.radius, **(meta or {})}
        ask = self.plan.ask(task, {**arrays, **more}, about)
        return {**state, "phase": np.array(task), **arrays, "radius": radius}, ask

    def frame(self, state: State) -> Frame:
        """The frame of the question under way."""
        return Frame(state["centre"], state["transform"], float(state["radius"]))

    def advance(self, state: State, total: Total) -> tuple[State, Ask] | tuple[Frame, float]:
        """The next question of the search; in the end the frame, and how many rows there are."""
        if str(state["phase"]) == BOUNDS:
            spread = self.deviation(BOUNDS, total.n_sites, clipping.histogram_sensitivity(len(self.names)))
            return self._within(clipping.bounds_from(total.arrays["counts"], spread, self.names))
        frame = self.frame(state)
        found = frame.read(
            total.arrays["moments"], self.deviation(FRAME, total.n_sites, moments_sensitivity(frame.radius))
        )
        left = int(state["left"]) - 1
        if left:
            return self.ask({**state, "left": np.array(left)}, FRAME, frame.narrowed(found))
        return frame.narrowed(found), found.n

    def moments_deviation(self, task: str, n_sites: int, frame: Frame) -> float:
        """That of moments in a frame."""
        return self.deviation(task, n_sites, moments_sensitivity(frame.radius))

    def deviation(self, task: str, n_sites: int, sensitivity: float) -> float:
        """The standard deviation of a whole sum's noise, where every site has added its share."""
        honest = n_sites - (n_sites - 1) // 2
        return self.plan.multipliers[task] * sensitivity * float(np.sqrt(n_sites / honest))


@dataclass(frozen=True, eq=False)
class PrivateMoments(Moments):
    """Moments under noise; its answer reads like that of exact moments."""

    plan: Plan | None = None

    @property
    def _search(self) -> _Search:
        assert self.plan is not None
        return _Search(self.names, self.plan)

    def begin(self) -> tuple[State, Ask]:
        """Bounds, or at once the frame."""
        return self._search.begin()

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The frame, then the moments in it, as the statistics that they amount to."""
        if str(state["phase"]) != MOMENTS:
            found = self._search.advance(state, total)
            return self._search.ask({}, MOMENTS, found[0]) if isinstance(found[0], Frame) else found
        frame = self._search.frame(state)
        deviation = self._search.moments_deviation(MOMENTS, total.n_sites, frame)
        n, mean, covariance = frame.outside(frame.read(total.arrays["moments"], deviation))
        return state, Answer(
            {
                "pooled_scale": np.sqrt(covariance.diagonal()),
                "rows[]": np.array([n]),
                "mean[]": mean,
                "scatter[]": n * covariance,
            }
        )


@dataclass(frozen=True, eq=False)
class PrivateRounds:
    """Rounds of noisy gradients, then the coordinator's own step for λ and cycles.

    `growth` is by what ρ has grown in the last round: 1 for linearised ADMM.
    """

    model: LinearModel
    plan: Plan
    growth: float = 1.0

    @property
    def tolerates_absence(self) -> bool:
        """Every site's share of the noise is needed."""
        return False

    @property
    def _search(self) -> _Search:
        return _Search(self.model.names, self.plan)

    @property
    def _rounds(self) -> int:
        return self.plan.counts[GRADIENT]

    def begin(self) -> tuple[State, Ask]:
        """Bounds, or at once the frame."""
        return self._search.begin()

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The frame, then rounds."""
        if str(state["phase"]) == GRADIENT:
            return self._iterate(state, total)
        found = self._search.advance(state, total)
        return self._first(found[0], found[1], total.n_sites) if isinstance(found[0], Frame) else found

    def _first(self, frame: Frame, n: float, n_sites: int) -> tuple[State, Ask]:
        d = self.model.d
        largest = frame.radius**2
        # What is left of the noise after all rounds, beside chance, in standard units.
        noise = self._search.deviation(GRADIENT, n_sites, largest) / n / np.sqrt(0.75 * self._rounds)
        state: dict[str, Any] = {
            "rows": np.array(n), "largest": np.array(largest), "error": np.array(np.hypot(n**-0.5, noise)),
            "W": np.zeros((d, d)), "mean_target": np.zeros((d, d)), "history": np.zeros((0, 8)),
        }  # fmt: skip
        return self._ask(state, frame)

    def _ask(self, state: State, frame: Frame) -> tuple[State, Ask]:
        M, deviations = self._residual(state["W"], frame)
        meta = {"largest": float(state["largest"])}
        return self._search.ask(state, GRADIENT, frame, meta, residual=M / deviations)

    def _residual(self, W: Array, frame: Frame) -> tuple[Array, Array]:
        """What brings rows of the frame to residuals, and these residuals' standard deviations."""
        M = np.linalg.inv(frame.transform) @ (np.eye(len(W)) - W)
        return M, np.sqrt((M**2).sum(axis=0))

    def _iterate(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        frame, W = self._search.frame(state), state["W"]
        number = len(state["history"]) + 1
        progress = (number - 1) / max(self._rounds - 1, 1)
        rho = self.growth**progress
        _, deviations = self._residual(W, frame)
        step = frame.transform @ (total.arrays["gradient"] / float(state["rows"])) * deviations
        # The target hardly depends on where the step begins, so noise averages out; later ones count more.
        mean = state["mean_target"] + 2 / (number + 1) * (W + step - state["mean_target"])
        target = mean if self.growth == 1 else W + step / rho
        after = self._solved(state, frame, target, rho, 100.0**progress)
        moved = float(np.linalg.norm(after.W - W)) / max(float(np.linalg.norm(after.W)), 1e-300)
        price = float(self._lambda(state))
        row = (number, price, 100.0**progress, rho, np.nan, moved, after.h, int(np.count_nonzero(after.W)))
        history = np.vstack([state["history"], np.array(row)])
        state = {**state, "W": after.W, "history": history, "mean_target": mean}
        report("noisy rounds", number, self._rounds)
        return self._ask(state, frame) if number < self._rounds else (state, self._answer(state, frame))

    def _lambda(self, state: State) -> float:
        """λ in standard units: what errors of correlations ask for, unless it is given."""
        if self.model.lambda_ == "bic":
            return float(state["error"]) * float(np.sqrt(2 * np.log(max(self.model.d, 2))))
        return float(self.model.lambda_)

    def _solved(self, state: State, frame: Frame, target: Array, rho: float, cost: float) -> Point:
        gram = frame.spread
        near = Proximity(target, rho * gram)
        rates = lasso_rates(self._lambda(state), self.model.masks)
        if self.model.lambda_ == "bic":
            unit = np.sqrt(gram.diagonal())
            _, deviations = self._residual(state["W"], frame)
            rates = np.where(rates < 0, rates, rates * np.outer(unit, deviations))
        typical = float(np.exp(np.log(gram.diagonal()).mean()))
        penalty = Penalty(lambda h: cost * typical * h, lambda h: cost * typical)
        measure = ACYCLICITY[self.model.acyclicity]()
        return descend(near, rates, measure, penalty, state["W"], tolerance=1e-6, max_iter=20)

    def _answer(self, state: State, frame: Frame) -> Answer:
        raw = self._solved(state, frame, state["mean_target"], 1.0, 1e3).W
        unit = np.sqrt(frame.spread.diagonal())  # standard deviations in the data's units
        by_number = self.model.threshold != "ebic"
        sizes = np.abs(raw) if by_number else np.abs(raw) * unit[:, None] / unit[None, :]
        least = float(self.model.threshold) if by_number else STANDARD_THRESHOLD
        required = self.model.masks.required
        kept = (sizes >= least) & (raw != 0) & ~np.eye(len(raw), dtype=bool) | required
        for i, j in weakest_cycle_edges(kept, np.abs(raw), required):
            kept[i, j] = False
        # The rounds are as many as were planned, and cycles are gone: there is nothing left to settle.
        return Answer(
            {
                "weights": np.where(kept, raw, 0.0), "raw_weights": raw, "criterion": np.array(np.nan),
                "lambda_": np.array(self._lambda(state)), "h": np.array(0.0), "settled": np.ones(1, np.int64),
                "history": state["history"], "rows": np.array([float(state["rows"])]), "pooled_scale": unit,
            }
        )  # fmt: skip
