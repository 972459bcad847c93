"""What is taken out of the rows of parties that differ in means or spreads, before they are added up.

A party's rows enter a sum through their scatter about their own mean, and through the distance of that mean
from the common centre, which counts as `mass` rows. With `correlation` ρ between two rows of a party (a
random intercept) the mass is `1/(1/m + ρ/(1 − ρ))` instead of `m`: ρ = 0 leaves the rows as they are, ρ = 1
centres them within the party. A party that is centred loses one row; the common mean gives one back.

Under intervention the means of a party's regimes hold information: they are taken relative to the mean of the
party's own rows without intervention. Where it has none, each regime is centred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from polydag.arrays import Array
from polydag.errors import UsageError
from polydag.stats import GaussianStats, Regimes

SiteEffects = Literal["means", "none", "means and scales", "random"]
SITE_EFFECTS: tuple[str, ...] = ("means", "none", "means and scales", "random")
UNCHANGED, OVERALL, COLUMNS = 0, 1, 2  # what a party's rows are divided by
RANDOM_UNDER_INTERVENTION = "site_effects='random' cannot be combined with interventions: use 'means' or "
"'none'."
NOT_UNDER_NOISE = (
    "Under differential privacy rows were pooled about their common mean: parties whose means differ can "
    "make false edges. Let each party subtract its own means first, if these are public."
)
NOT_FOR_LABELS = (
    "Labels were counted as they are: parties in which labels differ in frequency can make false edges. To "
    "adjust for that, add a column that names the party and forbid edges into it."
)
Statistics = GaussianStats | Regimes[GaussianStats]


@dataclass(frozen=True, eq=False)
class Adjustment:
    """What every party does with its rows.

    Attributes
    ----------
    correlation : float
        Of two rows of a party, from 0 (nothing is done) to 1 (rows are centred).
    divisor : {UNCHANGED, OVERALL, COLUMNS}
        Whether rows are divided by one number, the party's overall spread, or each column by its own.
    log_scale : array of shape (d,)
        The logarithms of typical standard deviations, which the columns have after the division.
    """

    correlation: float
    divisor: int
    log_scale: Array

    @classmethod
    def before_comparison(cls, effects: str, d: int) -> Self:
        """What can be done before the parties have been compared: spreads become one."""
        correlation = 1.0 if effects.startswith("means") else 0.0
        return cls(correlation, COLUMNS if effects == "means and scales" else UNCHANGED, np.zeros(d))

    @classmethod
    def of(cls, array: Array) -> Self:
        """From an array, as it is sent."""
        return cls(float(array[0]), int(array[1]), array[2:])

    @property
    def array(self) -> Array:
        """As an array of length d + 2."""
        return np.concatenate([[self.correlation, float(self.divisor)], self.log_scale])

    @property
    def centres(self) -> bool:
        """Whether rows are centred within parties."""
        return self.correlation >= 1

    def factor(self, deviations: Array) -> Array:
        """What each column of a party is divided by; constant columns count as typical."""
        away = np.where(deviations > 0, np.log(np.where(deviations > 0, deviations, 1.0)) - self.log_scale, 0)
        if self.divisor == COLUMNS:
            return np.exp(away)
        varies = max(int((deviations > 0).sum()), 1)
        return np.full(len(away), np.exp(away.sum() / varies) if self.divisor == OVERALL else 1.0)

    def applied(self, stats: Statistics, deviations: Array) -> Statistics:
        """A party's statistics, adjusted; `deviations` are the standard deviations of its columns."""
        if self.correlation <= 0:
            return stats
        scaled = self._scaled(stats, deviations)
        if isinstance(scaled, GaussianStats):
            if self.centres:
                return _replaced(scaled, np.zeros(scaled.d), scaled.n - 1, scaled.mass)
            odds = self.correlation / (1 - self.correlation)
            return _replaced(scaled, scaled.mean, scaled.n, 1 / (1 / scaled.mass + odds))
        if not self.centres:
            raise UsageError(RANDOM_UNDER_INTERVENTION)
        return Regimes(_relative_to_baseline(scaled))

    def rows(self, values: Array, stats: GaussianStats, centre: Array, deviations: Array) -> Array:
        """A party's rows, adjusted and about the common centre; `stats` are theirs."""
        if self.correlation <= 0:
            return np.asarray(values - centre)
        own = self.applied(stats, deviations)
        kept = 0.0 if self.centres else np.sqrt(own.mass / stats.mass)  # type: ignore[union-attr]
        about = values - stats.mean + kept * (stats.mean - centre)
        return np.asarray(about / self.factor(deviations))

    def _scaled(self, stats: Statistics, deviations: Array) -> Statistics:
        if self.divisor == UNCHANGED:
            return stats
        factor, zero = self.factor(deviations), np.zeros(len(deviations))
        if isinstance(stats, GaussianStats):
            return stats.rescaled(zero, factor)
        return Regimes({targets: part.rescaled(zero, factor) for targets, part in stats.parts.items()})


def _relative_to_baseline(stats: Regimes[GaussianStats]) -> dict[frozenset[str], GaussianStats]:
    """Regimes with means relative to that of the rows without intervention, or of no weight."""
    baseline = stats.parts.get(frozenset())
    if baseline is None:
        return {
            targets: _replaced(part, np.zeros(part.d), part.n - 1, 0.0)
            for targets, part in stats.parts.items()
        }
    return {
        targets: _replaced(part, part.mean - baseline.mean, part.n - (not targets), part.mass)
        for targets, part in stats.parts.items()
    }


def _replaced(stats: GaussianStats, mean: Array, n: float, mass: float) -> GaussianStats:
    return GaussianStats(n, mean, stats.scatter, stats.names, mass)
