"""Differential privacy for parties: what sites answer under noise, and the programs that live on it.

A site holds rows here, not statistics: what one row can do is bounded row by row (`privacy.clipping`), and
noise is added before masking (`privacy.noise`). `PrivateMoments` is one release of clipped moments, then any
learner. `PrivateRounds` is ADMM with the sites' step linearised (Huang et al. 2019), which leaves of `B_k +
β_k/ρ` only `W − ∇_k(W)/ρ`: a sum of gradients of rows, so that no state of a site grows more sensitive from
round to round. With a growing ρ it is federated averaging of single steps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.federated.ledger import Noise
from polydag.federated.linear import column_difference
from polydag.federated.linear_model import LinearModel
from polydag.federated.messages import Arrays
from polydag.federated.moments import Moments
from polydag.federated.programs import Answer, Ask, State, Total
from polydag.orientation import weakest_cycle_edges
from polydag.privacy import clipping
from polydag.privacy.noise import Shared, with_share
from polydag.progress import report

Array = NDArray[np.float64]
BOUNDS, MOMENTS, GRADIENT = "private bounds", "private moments", "private gradient"
BOUNDS_SHARE, SCALE_SHARE = 0.1, 0.15  # of the budget
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
        sensitivity, size = {
            BOUNDS: (clipping.histogram_sensitivity(d), d * (len(clipping.EDGES) - 1)),
            MOMENTS: (clipping.moments_sensitivity(d), 1 + d + d * (d + 1) // 2),
            GRADIENT: (float(ask.meta.get("largest", 0.0)), d * d),
        }.get(ask.task, (0.0, 0))
        if not size:
            raise DataError(f"Under differential privacy this site does not answer {ask.task!r}.")
        return Shared(float(ask.meta["multiplier"]), sensitivity, int(ask.meta["honest"])), size

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """A clipped sum over rows, with this site's share of the noise."""
        if "columns" in ask.meta and list(ask.meta["columns"]) != list(self.names):
            raise DataError(column_difference(tuple(ask.meta["columns"]), self.names))
        shared, _ = self._shared(ask)
        if ask.task == BOUNDS:
            return state, {"counts": with_share(clipping.histogram(self.rows), shared)}
        rows = clipping.within(self.rows, ask.arrays["bounds"])
        if ask.task == MOMENTS:
            return state, {"moments": with_share(clipping.moments(rows), shared)}
        centred = rows - ask.arrays["centre"]
        found = clipping.gradient(centred, ask.arrays["W"], shared.sensitivity)
        return state, {"gradient": with_share(found, shared)}


@dataclass(frozen=True)
class Plan:
    """The noise of a study: multipliers by kind of release, how many of each, and given bounds if any."""

    multipliers: Mapping[str, float]
    counts: Mapping[str, int]
    bounds: tuple[tuple[float, float], ...] | None

    def ask(self, task: str, arrays: Arrays, meta: Mapping[str, Any]) -> Ask:
        """A question with the noise that its answer must have, and all that will be asked for."""
        releases = [[self.multipliers[name], self.counts[name]] for name in self.multipliers]
        return Ask(task, arrays, {**meta, "multiplier": self.multipliers[task], "plan": releases})


@dataclass(frozen=True, eq=False)
class _Clipped:
    """The first questions of both programs: bounds, if none are given, and the moments within them."""

    names: tuple[str, ...]
    plan: Plan

    def begin(self) -> tuple[State, Ask]:
        if self.plan.bounds is None:
            return {"phase": np.array(BOUNDS)}, self.plan.ask(BOUNDS, {}, {"columns": list(self.names)})
        return self.moments(np.array(self.plan.bounds, dtype=float))

    def bounded(self, total: Total, deviation: float) -> tuple[State, Ask]:
        return self.moments(clipping.bounds_from(total.arrays["counts"], deviation, self.names))

    def moments(self, bounds: Array) -> tuple[State, Ask]:
        state = {"phase": np.array(MOMENTS), "bounds": bounds}
        return state, self.plan.ask(MOMENTS, {"bounds": bounds}, {"columns": list(self.names)})

    def deviation(self, task: str, n_sites: int, sensitivity: float) -> float:
        """The standard deviation of a whole sum's noise, where every site has added its share."""
        honest = n_sites - (n_sites - 1) // 2
        return self.plan.multipliers[task] * sensitivity * float(np.sqrt(n_sites / honest))

    def read(self, state: State, total: Total) -> tuple[float, Array, Array, float]:
        """Rows, mean and covariance in units of the bounds, and the noise of a covariance."""
        d = len(self.names)
        found = total.arrays["moments"]
        n = max(float(found[0]), 2.0)
        mean = np.clip(found[1 : 1 + d] / n, -1.0, 1.0)
        second = np.zeros((d, d))
        second[np.triu_indices(d)] = found[1 + d :] / n
        second += np.triu(second, 1).T
        noise = self.deviation(MOMENTS, total.n_sites, clipping.moments_sensitivity(d)) / n
        values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
        # A covariance matrix again: directions that noise has turned negative are as narrow as it may be.
        floor = max(noise, 1e-9)
        return n, mean, (vectors * np.maximum(values, floor)) @ vectors.T, noise


@dataclass(frozen=True, eq=False)
class PrivateMoments(Moments):
    """Clipped moments under noise; its answer reads like that of exact moments."""

    plan: Plan | None = None

    @property
    def _clipped(self) -> _Clipped:
        assert self.plan is not None
        return _Clipped(self.names, self.plan)

    def begin(self) -> tuple[State, Ask]:
        """Bounds, or at once the moments."""
        return self._clipped.begin()

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The moments, then the statistics that they amount to."""
        if str(state["phase"]) == BOUNDS:
            d = len(self.names)
            spread = self._clipped.deviation(BOUNDS, total.n_sites, clipping.histogram_sensitivity(d))
            return self._clipped.bounded(total, spread)
        n, mean, covariance, noise = self._clipped.read(state, total)
        # Noise tells like fewer rows: so many that chance, in units of what is left of a variable's variance
        # given all others (the eigenvalues' mean), would be as large as both together.
        typical = float(np.exp(np.log(np.linalg.eigvalsh(covariance)).mean()))
        n = max(n / (1 + n * (noise / typical) ** 2), 2.0)
        middle, half = state["bounds"].mean(axis=1), np.ptp(state["bounds"], axis=1) / 2
        covariance = covariance * np.outer(half, half)
        return state, Answer(
            {
                "pooled_scale": np.sqrt(covariance.diagonal()),
                "rows[]": np.array([n]),
                "mean[]": middle + half * mean,
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
    def _clipped(self) -> _Clipped:
        return _Clipped(self.model.names, self.plan)

    @property
    def _rounds(self) -> int:
        return self.plan.counts[GRADIENT]

    def begin(self) -> tuple[State, Ask]:
        """Bounds, or at once the moments."""
        return self._clipped.begin()

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """Bounds, centre and scale, then rounds."""
        phase = str(state["phase"])
        if phase == BOUNDS:
            spread = self._clipped.deviation(
                BOUNDS, total.n_sites, clipping.histogram_sensitivity(self.model.d)
            )
            return self._clipped.bounded(total, spread)
        if phase == MOMENTS:
            return self._scaled(state, total)
        return self._iterate(state, total)

    def _scaled(self, state: State, total: Total) -> tuple[State, Ask]:
        n, mean, covariance, _ = self._clipped.read(state, total)
        scale = np.sqrt(covariance.diagonal())
        largest = 1.5 * float((scale**2).sum())
        noise = self._clipped.deviation(GRADIENT, total.n_sites, largest) / n
        typical = float(np.exp(2 * np.log(scale).mean()))
        lambda_: float | Literal["bic"] = self.model.lambda_
        if lambda_ == "bic":  # what chance correlations ask for, and the noise that is left after all rounds
            chance = typical * float(np.sqrt(np.log(max(self.model.d, 2)) / n))
            lambda_ = chance + 2 * noise / float(np.sqrt(self._rounds / 2))
        top = float(np.linalg.eigvalsh(covariance / np.outer(scale, scale))[-1])
        fresh: dict[str, Any] = {
            **state, "phase": np.array(GRADIENT), "centre": mean, "scale": scale, "rows": np.array(n),
            "largest": np.array(largest), "rho": np.array(top), "unit": np.array(typical),
            "lambdas": np.array([lambda_]), "theta": np.zeros((1, self.model.d, self.model.d)),
            "h": np.zeros(1), "mean_theta": np.zeros((self.model.d, self.model.d)),
            "history": np.zeros((0, 8)),
        }  # fmt: skip
        return fresh, self._ask(fresh)

    def _ask(self, state: State) -> Ask:
        W = state["theta"][0] / state["scale"][:, None]
        arrays = {"W": W, "centre": state["centre"], "bounds": state["bounds"]}
        return self.plan.ask(GRADIENT, arrays, {"largest": float(state["largest"])})

    def _iterate(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        number = len(state["history"]) + 1
        progress = (number - 1) / max(self._rounds - 1, 1)
        rho = float(state["rho"]) * self.growth**progress
        theta, scale = state["theta"][0], state["scale"][:, None]
        slope = total.arrays["gradient"] / float(state["rows"]) / scale
        cost = float(state["unit"]) * 100.0**progress
        step = self.model.server_step(
            state, 0, theta - slope / rho, rho, (cost, 0.0), tolerance=1e-6, max_iter=5
        )
        moved = float(np.linalg.norm(step.theta - theta)) / max(float(np.linalg.norm(step.theta)), 1e-300)
        row = (number, float(state["lambdas"][0]), cost, rho, np.nan, moved, step.h, step.n_nonzero)
        history = np.vstack([state["history"], np.array(row)])
        late = progress > 0.5  # noise averages out over the second half
        kept = state["mean_theta"] + (step.theta if late else 0.0)
        after = {**state, "theta": step.theta[None], "h": np.array([step.h]), "mean_theta": kept}
        after["history"] = history
        report("noisy rounds", number, self._rounds)
        return (after, self._ask(after)) if number < self._rounds else (after, self._answer(after))

    def _answer(self, state: State) -> Answer:
        late = sum((k / max(self._rounds - 1, 1)) > 0.5 for k in range(self._rounds)) or 1
        theta = state["mean_theta"] / late if self._rounds > 1 else state["theta"][0]
        scale, half = state["scale"], np.ptp(state["bounds"], axis=1) / 2
        unit = half * scale  # standard deviations in the data's units
        raw = theta / scale[:, None] * half[None, :] / half[:, None]
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
                "weights": np.where(kept, raw, 0.0), "raw_weights": raw, "lambda_": state["lambdas"][0],
                "criterion": np.array(np.nan), "h": np.array(0.0), "settled": np.ones(1, dtype=np.int64),
                "history": state["history"], "rows": np.array([float(state["rows"])]), "pooled_scale": unit,
            }
        )  # fmt: skip
