"""Algorithm 1, the coordinator's side: it is told `Σ_k (B_k + β_k/ρ2)` and nothing else of the parameters."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polydag.federated.methods.iterative import Iterative
from polydag.federated.methods.schedules import Default, Paper, Pressure, Schedule, Seen
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, State, Total
from polydag.progress import report


@dataclass(frozen=True, eq=False)
class Admm(Iterative):
    """Consensus ADMM over sites that all answer every round."""

    schedule: Schedule = field(default_factory=Default)

    def start(self, state: State) -> tuple[State, Ask]:
        """The model's own start in every lane."""
        first = self.schedule.first(*self.model.sizes(state))
        state = {**state, "pressure": np.tile(np.array(first), (len(state["lambdas"]), 1))}
        return state, self._ask(state, self.model.told(state))

    def _ask(self, state: State, told: Arrays) -> Ask:
        arrays = {"W": state["theta"], "rho": state["pressure"][:, 2].copy(), **told}
        # Parameters of a known size need fewer bits in masked sums; the paper exchanges them as they are.
        powers = self.model.powers(state)
        sized = {"parameters": powers, "spread": [2 * max(powers)]}
        narrow = {} if isinstance(self.schedule, Paper) else sized
        returns = {"parameters": state["theta"].shape, "spread": state["lambdas"].shape}
        return Ask("consensus", arrays, {"relax": self.schedule.relax, "narrow": narrow}, returns=returns)

    def iterate(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """Eq. (3) in every lane, then the penalties."""
        K, unit = total.n_sites, float(state["unit"])
        mean = total.arrays["parameters"] / K
        coverage = self.model.sizes(state).coverage
        limit = self.schedule.max_rounds(coverage)
        number = len(state["history"]) // len(state["lambdas"]) + 1
        theta, h = state["theta"].copy(), state["h"].copy()
        pressure, settled = state["pressure"].copy(), state["settled"].copy()
        rows = []
        for lane, lambda_ in enumerate(state["lambdas"]):
            now = Pressure(*(float(value) for value in pressure[lane]))
            step = self.model.server_step(
                state,
                lane,
                mean[lane],
                K * now.rho,
                (now.linear * unit, now.quadratic * unit),
                tolerance=self.schedule.inner_tolerance,
                max_iter=self.schedule.max_inner,
            )
            size = max(float(np.linalg.norm(step.theta)), 1e-300)
            moved = float(np.linalg.norm(step.theta - theta[lane]))
            spread = float(np.sqrt(total.arrays["spread"][lane] / K))
            seen = Seen(number, spread / size, moved / size, step.h, coverage)
            theta[lane], h[lane] = step.theta, step.h
            pressure[lane] = self.schedule.then(now, seen)
            settled[lane] = self.schedule.settled(now, seen)
            rows.append(
                (number, lambda_, now.linear, now.rho, seen.primal, seen.dual, step.h, step.n_nonzero)
            )
        history = np.vstack([state["history"], np.array(rows, dtype=float)])
        state = {
            **state,
            "theta": theta,
            "h": h,
            "pressure": pressure,
            "settled": settled,
            "history": history,
        }
        report(self.label, number, limit, f"sites differ by {max(row[4] for row in rows):.1%}")
        if settled.all() or number >= limit:
            return state, None
        return state, self._ask(state, {})
