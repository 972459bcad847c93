"""How the penalties of ADMM change from round to round, and when it has converged.

The cost of cycles is `a h + b/2 h²` in every schedule. `Paper` is that of Algorithm 1: α and ρ1 determine the
cost, and both penalties grow geometrically. `Default` follows a central path (`h/μ` with decreasing μ), as
the pooled solver does; ρ2 starts at the size of the parties' own eigenvalues and is adapted to balance the
primal and dual residuals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np


class Costs(NamedTuple):
    """The cost `a h + b/2 h²` of cycles and the penalty ρ2 on disagreement, at one value of λ."""

    linear: float
    quadratic: float
    rho: float


class RoundSummary(NamedTuple):
    """The state after a round: its number, relative residuals, h; `coverage` as in `Sizes`.

    `dual` is the change of the weights. `force` is that change times ρ2 over the curvature of a party's loss:
    by how much the weights would move if ρ2 did not hold them.
    """

    round: int
    primal: float
    dual: float
    force: float
    h: float
    coverage: float


class Schedule(Protocol):
    """What an ADMM program needs of a schedule."""

    @property
    def relax(self) -> float:
        """Over-relaxation of the parties' steps; 1 for none."""
        ...

    def max_rounds(self, coverage: float) -> int:
        """The largest number of rounds."""
        ...

    @property
    def max_inner(self) -> int:
        """The number of steps of the coordinator's own descent in a round."""
        ...

    @property
    def inner_tolerance(self) -> float:
        """The relative improvement of the objective that such a step must bring."""
        ...

    def first(self, typical: float, coverage: float) -> Costs:
        """The first costs; `typical` is the size of a party's eigenvalues."""
        ...

    def next_costs(self, now: Costs, seen: RoundSummary) -> Costs:
        """The next costs."""
        ...

    def settled(self, now: Costs, seen: RoundSummary) -> bool:
        """Whether the rounds at one value of λ have converged."""
        ...

    def ended(self, now: Costs, seen: RoundSummary) -> bool:
        """Whether more rounds at one value of λ would change nothing."""
        ...


@dataclass(frozen=True)
class Paper:
    """Algorithm 1 with the paper's constants."""

    rho1: float = 1e-3
    rho2: float = 1e-3
    gamma1: float = 1.75
    gamma2: float = 1.25
    largest: float = 1e16
    relax: float = 1.0
    rounds: int = 200
    max_inner: int = 1000
    inner_tolerance: float = 1e-7
    tolerance: float = 0.03
    frozen: float = 1e-8

    def first(self, typical: float, coverage: float) -> Costs:
        """α = 0, ρ1 and ρ2 as given."""
        return Costs(0.0, self.rho1, self.rho2)

    def next_costs(self, now: Costs, seen: RoundSummary) -> Costs:
        """Eqs. (5)–(7)."""
        return Costs(
            min(now.linear + now.quadratic * seen.h, self.largest),
            min(now.quadratic * self.gamma1, self.largest),
            min(now.rho * self.gamma2, self.largest),
        )

    def settled(self, now: Costs, seen: RoundSummary) -> bool:
        """When parties agree and weights would stay where they are without ρ2, too."""
        return max(seen.primal, seen.dual, seen.force) < self.tolerance

    def ended(self, now: Costs, seen: RoundSummary) -> bool:
        """When ρ2 has grown so large that nothing can change any more."""
        return max(seen.primal, seen.dual) < self.frozen

    def max_rounds(self, coverage: float) -> int:
        """The paper's 200."""
        return self.rounds


@dataclass(frozen=True)
class Default:
    """A central path over `pace` rounds, up to twice as long where parties know little by themselves."""

    pace: int = 44
    mu_first: float = 1.0
    mu_last: float = 1e-2
    hurry: float = 4.0
    acyclic: float = 1e-5
    share: float = 0.3
    share_least: float = 0.15
    ample: float = 0.2
    tolerance: float = 0.03
    imbalance: float = 5.0
    nudge: float = 1.1
    relax: float = 1.6
    patience: int = 40
    max_inner: int = 3
    inner_tolerance: float = 1e-6

    def first(self, typical: float, coverage: float) -> Costs:
        """ρ2 is a share of a typical eigenvalue, a smaller one where parties span few directions."""
        share = max(self.share_least, self.share * float(np.sqrt(coverage)))
        return Costs(1 / self.mu_first, 0.0, share * typical)

    def next_costs(self, now: Costs, seen: RoundSummary) -> Costs:
        """μ decreases, beyond the end of the path until cycles have vanished; ρ2 balances the residuals."""
        factor = (self.mu_first / self.mu_last) ** (1 / self._length(seen.coverage))
        rho = now.rho
        if seen.primal > self.imbalance * seen.dual:
            rho *= self.nudge
        elif seen.dual > self.imbalance * seen.primal:
            rho /= self.nudge
        if self._at_end(now):
            factor = self.hurry if seen.h > self.acyclic else 1.0
        return Costs(now.linear * factor, 0.0, rho)

    def settled(self, now: Costs, seen: RoundSummary) -> bool:
        """At the end of the path, when parties agree and weights no longer change."""
        quiet = max(seen.primal, seen.dual) < self.tolerance
        return self._at_end(now) and quiet and seen.h <= self.acyclic

    def ended(self, now: Costs, seen: RoundSummary) -> bool:
        """When they have converged."""
        return self.settled(now, seen)

    def _at_end(self, now: Costs) -> bool:
        return now.linear >= 0.999 / self.mu_last

    def _length(self, coverage: float) -> float:
        return float(self.pace * np.clip(np.sqrt(self.ample / max(coverage, 1e-9)), 1.0, 2.0))

    def max_rounds(self, coverage: float) -> int:
        """The length of the path, and some more rounds at its end."""
        return round(self._length(coverage)) + self.patience
