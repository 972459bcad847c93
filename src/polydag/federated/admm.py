"""Algorithm 1, the coordinator's side: it is told `Σ_k (B_k + β_k/ρ2)` and nothing else of the parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polydag.federated.iterative import Array, Iterative
from polydag.federated.programs import Ask, State, Total
from polydag.federated.schedules import Default, Pressure, Schedule, Seen
from polydag.progress import report


@dataclass(frozen=True, eq=False)
class Admm(Iterative):
    """Consensus ADMM over sites that all answer every round."""

    schedule: Schedule = field(default_factory=Default)

    def scale(self, pooled: Array) -> Array:
        """The paper exchanges weights as they are."""
        return pooled if self.schedule.scaled else np.ones_like(pooled)

    def unit(self, pooled: Array) -> float:
        """The paper's constants have the data's units."""
        return super().unit(pooled) if self.schedule.scaled else 1.0

    def start(self, state: State) -> tuple[State, Ask]:
        """W = 0 in every lane."""
        first = self.schedule.first(self.d / max(float(state["rank"][0]), 1.0), self._coverage(state))
        lanes = len(state["lambdas"])
        state = {
            **state,
            "pressure": np.tile(np.array(first), (lanes, 1)),
            "settled": np.zeros(lanes, dtype=np.int64),
        }
        told = {name: state[name] for name in ("rows", "scale", "pooled_scale")}
        return state, self._ask(state, told)

    def _coverage(self, state: State) -> float:
        return min(float(state["rank"][0]) / (float(state["sites"]) * self.d), 1.0)

    def _ask(self, state: State, told: State) -> Ask:
        W = state["W"] * state["scale"][:, None]
        arrays = {"W": W, "rho": state["pressure"][:, 2].copy(), **told}
        return Ask("consensus", arrays, {"relax": self.schedule.relax})

    def iterate(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """Eq. (3) in every lane, then the penalties."""
        K, scale = total.n_sites, state["scale"][:, None]
        mean = total.arrays["parameters"] / K
        unit = float(state["unit"])
        coverage = self._coverage(state)
        limit = self.schedule.max_rounds(coverage)
        number = len(state["history"]) // len(state["lambdas"]) + 1
        W, h = state["W"].copy(), state["h"].copy()
        pressure, settled = state["pressure"].copy(), state["settled"].copy()
        rows = []
        for lane, lambda_ in enumerate(state["lambdas"]):
            now = Pressure(*(float(value) for value in pressure[lane]))
            point = self.server_step(
                mean[lane] / scale,
                K * now.rho * state["scale"] ** 2,
                float(lambda_),
                (now.linear * unit, now.quadratic * unit),
                W[lane],
                tolerance=self.schedule.inner_tolerance,
                max_iter=self.schedule.max_inner,
            )
            size = max(float(np.linalg.norm(point.W * scale)), 1e-300)
            moved = float(np.linalg.norm((point.W - W[lane]) * scale))
            spread = float(np.sqrt(total.arrays["spread"][lane] / K))
            seen = Seen(number, spread / size, moved / size, point.h, coverage)
            W[lane], h[lane] = point.W, point.h
            pressure[lane] = self.schedule.then(now, seen)
            settled[lane] = self.schedule.settled(now, seen)
            found = np.count_nonzero(point.W)
            rows.append((number, lambda_, now.linear, now.rho, seen.primal, seen.dual, point.h, found))
        history = np.vstack([state["history"], np.array(rows, dtype=float)])
        state = {**state, "W": W, "h": h, "pressure": pressure, "settled": settled, "history": history}
        report(self.label, number, limit, f"sites differ by {max(row[4] for row in rows):.1%}")
        if settled.all() or number >= limit:
            return state, None
        return state, self._ask(state, {})
