"""How ADMM's penalties move from round to round, and when it has settled.

The cost of cycles is `a h + b/2 h²` in every schedule. `Paper` is Algorithm 1's: α and ρ1 make it, both
penalties grow geometrically. `Default` follows a central path (`h/μ`, μ falling) as the pooled solver does,
with ρ2 sized by the sites' own eigenvalues and moved to keep primal and dual residuals in balance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Pressure(NamedTuple):
    """The penalties of one lane: `a h + b/2 h²` on cycles, ρ2 on disagreement."""

    linear: float
    quadratic: float
    rho: float


class Seen(NamedTuple):
    """What a round showed: its number, residuals relative to the parameters, h; `coverage` as in `Sizes`."""

    round: int
    primal: float
    dual: float
    h: float
    coverage: float


class Schedule(Protocol):
    """What an ADMM program needs of a schedule."""

    @property
    def relax(self) -> float:
        """Over-relaxation of the sites' steps; 1 for none."""
        ...

    def max_rounds(self, coverage: float) -> int:
        """When to stop at the latest."""
        ...

    @property
    def max_inner(self) -> int:
        """Steps of the coordinator's own descent in a round."""
        ...

    @property
    def inner_tolerance(self) -> float:
        """What such a step has to gain, relative to the objective."""
        ...

    def first(self, typical: float, coverage: float) -> Pressure:
        """The first penalties; `typical` is the size of a site's eigenvalues."""
        ...

    def then(self, now: Pressure, seen: Seen) -> Pressure:
        """The next ones."""
        ...

    def settled(self, now: Pressure, seen: Seen) -> bool:
        """Whether a lane can stop."""
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

    def first(self, typical: float, coverage: float) -> Pressure:
        """α = 0, ρ1 and ρ2 as given."""
        return Pressure(0.0, self.rho1, self.rho2)

    def then(self, now: Pressure, seen: Seen) -> Pressure:
        """Eqs. (5)–(7)."""
        return Pressure(
            min(now.linear + now.quadratic * seen.h, self.largest),
            min(now.quadratic * self.gamma1, self.largest),
            min(now.rho * self.gamma2, self.largest),
        )

    def settled(self, now: Pressure, seen: Seen) -> bool:
        """Only when ρ2 has grown so far that nothing can move any more."""
        return max(seen.primal, seen.dual) < 1e-8

    def max_rounds(self, coverage: float) -> int:
        """The paper's 200."""
        return self.rounds


@dataclass(frozen=True)
class Default:
    """A central path over `pace` rounds, up to twice as long where sites know little by themselves."""

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

    def first(self, typical: float, coverage: float) -> Pressure:
        """ρ2 a share of a typical eigenvalue, a smaller one where sites span few directions."""
        share = max(self.share_least, self.share * float(np.sqrt(coverage)))
        return Pressure(1 / self.mu_first, 0.0, share * typical)

    def then(self, now: Pressure, seen: Seen) -> Pressure:
        """μ falls, past the path's end until cycles have vanished; ρ2 moves towards balance."""
        factor = (self.mu_first / self.mu_last) ** (1 / self._length(seen.coverage))
        rho = now.rho
        if seen.primal > self.imbalance * seen.dual:
            rho *= self.nudge
        elif seen.dual > self.imbalance * seen.primal:
            rho /= self.nudge
        if self._at_end(now):
            factor = self.hurry if seen.h > self.acyclic else 1.0
        return Pressure(now.linear * factor, 0.0, rho)

    def settled(self, now: Pressure, seen: Seen) -> bool:
        """At the end of the path, when sites agree and weights stand still."""
        quiet = max(seen.primal, seen.dual) < self.tolerance
        return self._at_end(now) and quiet and seen.h <= self.acyclic

    def _at_end(self, now: Pressure) -> bool:
        return now.linear >= 0.999 / self.mu_last

    def _length(self, coverage: float) -> float:
        return float(self.pace * np.clip(np.sqrt(self.ample / max(coverage, 1e-9)), 1.0, 2.0))

    def max_rounds(self, coverage: float) -> int:
        """The path, and some patience at its end."""
        return round(self._length(coverage)) + self.patience
