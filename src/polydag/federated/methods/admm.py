"""Algorithm 1 of the paper: of the parameters the coordinator learns only `Σ_k (B_k + β_k/ρ2)`."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polydag.computing.progress import report
from polydag.federated.methods.interface import Study
from polydag.federated.methods.iterative import Iterative, ParameterExchange
from polydag.federated.methods.schedules import Costs, Default, Paper, RoundSummary, Schedule
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, Program, State, Total


@dataclass(frozen=True, eq=False)
class Admm(Iterative):
    """Consensus ADMM over parties that all answer in every round."""

    schedule: Schedule = field(default_factory=Default)

    def start(self, state: State) -> tuple[State, Ask]:
        """The starting values of the model for every penalty."""
        first = self.schedule.first(*self.model.sizes(state))
        state = {**state, "costs": np.tile(np.array(first), (len(state["lambdas"]), 1))}
        return state, self._ask(state, self.model.constants(state))

    def _ask(self, state: State, constants: Arrays) -> Ask:
        arrays = {"W": state["theta"], "rho": state["costs"][:, 2].copy(), **constants}
        # Parameters of known size need fewer bits in masked sums; the paper's are in the units of the data.
        powers = self.model.powers(state)
        sized = {"parameters": powers, "spread": [2 * max(powers)]}
        narrow = {} if isinstance(self.schedule, Paper) else sized
        returns = {"parameters": state["theta"].shape, "spread": state["lambdas"].shape}
        return Ask("consensus", arrays, {"relax": self.schedule.relax, "narrow": narrow}, returns=returns)

    def iterate(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """Eq. (3) for every penalty, then the next constants of the schedule."""
        K, unit = total.n_sites, float(state["unit"])
        mean = total.arrays["parameters"] / K
        sizes = self.model.sizes(state)
        limit = self.schedule.max_rounds(sizes.coverage)
        number = len(state["history"]) // len(state["lambdas"]) + 1
        theta, h = state["theta"].copy(), state["h"].copy()
        costs, settled = state["costs"].copy(), state["settled"].copy()
        rows, ended = [], True
        for lane, lambda_ in enumerate(state["lambdas"]):
            now = Costs(*(float(value) for value in costs[lane]))
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
            dual = moved / size
            force = dual * now.rho / sizes.typical
            seen = RoundSummary(number, spread / size, dual, force, step.h, sizes.coverage)
            theta[lane], h[lane] = step.theta, step.h
            costs[lane] = self.schedule.next_costs(now, seen)
            settled[lane] = self.schedule.settled(now, seen)
            ended = ended and self.schedule.ended(now, seen)
            rows.append(
                (number, lambda_, now.linear, now.rho, seen.primal, seen.dual, step.h, step.n_nonzero)
            )
        history = np.vstack([state["history"], np.array(rows, dtype=float)])
        state = {
            **state,
            "theta": theta,
            "h": h,
            "costs": costs,
            "settled": settled,
            "history": history,
        }
        report(self.label, number, limit, f"parties differ by {max(row[4] for row in rows):.1%}")
        if ended or number >= limit:
            return state, None
        return state, self._ask(state, {})


class AdmmMethod(ParameterExchange):
    """ADMM with the paper's schedule or the default one."""

    name: str = "admm"

    def exchange(self, study: Study) -> Program:
        """Consensus ADMM; in the paper's schedule as published, in the units of the data."""
        model, settings = study.model, study.settings
        side = model.coordinator(
            study.names, study.masks, study.group, settings, settings.lambda_, as_published=settings.paper
        )
        constants = model.schedule_constants(paper=settings.paper)
        schedule: Schedule = Paper(**constants) if settings.paper else Default(**constants)  # type: ignore[arg-type]
        return Admm(side, schedule)
