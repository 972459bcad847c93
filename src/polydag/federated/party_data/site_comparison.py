"""Whether means and spreads differ between parties, tested on sums alone.

Each party adds its mean and squared mean, times its rows, the sum of squares about its own mean, and the
logarithms of its variances. The sums give, for every column, the F test of equal means and Bartlett's test of
equal variances. Where sums of several functions of a party's rows are needed, these are rounded coarsely
first. A party's *overall spread* is the geometric mean of its columns' standard deviations. Its
logarithm has a variance of at most `1/(2ν)` with ν degrees of freedom, whatever the correlations of the
columns, so the test of equal overall spreads keeps its level and is on the safe side.

With a mean F statistic `F̄`, `(F̄ − 1)/n₀` estimates the ratio of the variance between parties to that within
them, from which the correlation of two rows of a party follows (the analysis of variance of a random
intercept; `n₀` is a typical number of rows). Where the covariance within parties is known, the mean is over
its principal directions. Over columns it is not: a column that sums up its causes varies much within parties,
and a shift between parties that is large beside its own error looks small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.federated.party_data.coarse import coarse
from polydag.federated.party_data.site_effects import COLUMNS, OVERALL, UNCHANGED, Adjustment
from polydag.federated.party_data.unit_checks import without_rounding
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, State, Total
from polydag.stats import GaussianStats

LEVEL = 0.05
COSTLY = 0.1  # the share of the rows from which on the cost of centring is worth another choice
_LARGEST = 0.98  # the correlation of two rows of a party
_DETERMINED = 1e-9  # the variance of a direction, of the largest, below which it is a rounding error
_LOST = 1e10  # the squared mean over the variance
_SHOWN = 5
_MOST_PARTIES = 1e9  # more is no count but noise
COMPARE, QUESTION, ADJUSTMENT = "compare", "question", "adjustment"


def comparison_shapes(d: int) -> dict[str, tuple[int, ...]]:
    """The arrays that each party adds."""
    return {"masses": (4,), "means": (3, d), "variances": (4, d), "overall": (3,)}


def compare_question(names: Sequence[str], reference: Array) -> Ask:
    """Ask for what the comparison of the parties takes; means are relative to `reference`."""
    arrays, meta = {"reference": reference}, {"columns": list(names)}
    return Ask(COMPARE, arrays, meta, returns=comparison_shapes(len(names)))


def contribution(stats: GaussianStats | None, deviations: Array, reference: Array) -> dict[str, Array]:
    """What a party adds; None where it has no rows without intervention."""
    d = len(reference)
    sent = {name: np.zeros(shape) for name, shape in comparison_shapes(d).items()}
    if stats is None or not stats.n > 0:
        return sent
    nu, off = max(stats.n - 1, 0.0), stats.mean - reference
    sent["masses"] = np.array([1.0, stats.mass, coarse(stats.mass) ** 2, nu])
    sent["means"] = np.array([stats.mass * off, stats.mass * off**2, stats.scatter.diagonal()])
    # What varies under intervention may be constant without it.
    own = without_rounding(np.sqrt(stats.scatter.diagonal() / max(stats.n, 1.0)), stats.mean)
    varies = (deviations > 0) & (own > 0) & (nu > 0)
    if varies.any():
        logs = np.log(np.where(varies, stats.scatter.diagonal() / max(nu, 1e-300), 1.0))
        sent["variances"] = np.array([nu * varies, nu * logs, varies / coarse(nu), varies], dtype=float)
        overall = float(logs[varies].mean()) / 2
        sent["overall"] = np.array([nu, nu * overall, nu * overall**2])
    return sent


def begin_comparison(names: Sequence[str]) -> tuple[State, Ask]:
    """The first question of a program that compares the parties before it adjusts their rows."""
    reference = np.zeros(len(names))
    return {QUESTION: np.array(COMPARE), "reference": reference}, compare_question(names, reference)


def end_comparison(
    names: tuple[str, ...], state: State, total: Total, effects: str
) -> tuple[State, Ask | None]:
    """The state with the adjustment; or the question again, about the means, where digits were lost."""
    compared = Comparison.of(names, total.arrays)
    if not state["reference"].any() and compared.lost_digits:
        return {**state, "reference": compared.mean}, compare_question(names, compared.mean)
    return {**state, ADJUSTMENT: compared.adjustment(effects).array, **compared.arrays}, None


def adjustment_of(state: State) -> dict[str, Array]:
    """What a question says about the adjustment of rows; nothing where these are taken as they are."""
    return {ADJUSTMENT: np.asarray(state[ADJUSTMENT])} if ADJUSTMENT in state else {}


@dataclass(frozen=True, eq=False)
class Comparison:
    """The sums over the parties, and what they say."""

    names: tuple[str, ...]
    masses: Array
    means: Array
    variances: Array
    overall: Array

    @classmethod
    def of(cls, names: tuple[str, ...], arrays: Arrays) -> Self:
        """From summed arrays."""
        found = cls(names, *(np.asarray(arrays[name]) for name in comparison_shapes(len(names))))
        nothing = found.parties == found.masses[1] == 0  # rows under intervention alone
        if not (nothing or (1 <= found.parties < _MOST_PARTIES and found.masses[1] > 0)):
            raise DataError(
                f"The sums over the parties count {found.parties:g} parties with {found.masses[1]:g} rows: a "
                "contribution was damaged on its way. Run the study again."
            )
        return found

    @property
    def arrays(self) -> dict[str, Array]:
        """As summed."""
        return {name: getattr(self, name) for name in comparison_shapes(len(self.names))}

    @property
    def parties(self) -> float:
        """How many parties were compared."""
        return float(self.masses[0])

    @property
    def mean(self) -> Array:
        """The mean of all rows, relative to the reference."""
        return np.asarray(self.means[0] / max(float(self.masses[1]), 1e-300))

    @property
    def lost_digits(self) -> bool:
        """Whether means are so far from the reference that their differences are inaccurate."""
        return bool((self.mean**2 > _LOST * np.maximum(self.within, 1e-300)).any())

    @property
    def within(self) -> Array:
        """The variance within parties."""
        return np.asarray(self.means[2] / max(float(self.masses[3]), 1.0))

    @property
    def f_statistics(self) -> Array:
        """Variance between parties over that within, one where nothing can be said."""
        between = self.means[1] - self.means[0] ** 2 / max(float(self.masses[1]), 1e-300)
        known = (self.within > 0) & (self.parties > 1)
        ratio = np.maximum(between, 0.0) / np.where(known, self.within * max(self.parties - 1, 1.0), 1.0)
        return np.where(known, ratio, 1.0)

    @property
    def mean_p_values(self) -> Array:
        """Of the F tests of equal means."""
        from scipy.stats import f

        if self.parties < 2 or self.masses[3] < 1:
            return np.ones(len(self.names))
        return np.asarray(f.sf(self.f_statistics, self.parties - 1, self.masses[3]))

    @property
    def spread_p_values(self) -> Array:
        """Of Bartlett's tests of equal variances."""
        from scipy.stats import chi2

        nu, logs, inverse, count = self.variances
        known = (count > 1) & (nu > 0) & (self.means[2] > 0)
        safe, groups = np.where(known, nu, 1.0), np.where(known, count, 2.0)
        pooled = np.log(np.where(known, self.means[2], 1.0) / safe)
        correction = 1 + (inverse - 1 / safe) / (3 * (groups - 1))
        statistic = np.where(known, (safe * pooled - logs) / correction, 0.0)
        return np.asarray(np.where(known, chi2.sf(np.maximum(statistic, 0.0), groups - 1), 1.0))

    @property
    def overall_p_value(self) -> float:
        """Of the test of equal overall spreads."""
        from scipy.stats import chi2

        nu, logs, squares = map(float, self.overall)
        if nu <= 0 or self.parties < 2:
            return 1.0
        return float(chi2.sf(2 * max(squares - logs**2 / nu, 0.0), self.parties - 1))

    @property
    def log_scale(self) -> Array:
        """The logarithm of a typical standard deviation of each column."""
        nu, logs, *_ = self.variances
        return np.asarray(0.5 * logs / np.where(nu > 0, nu, 1.0))

    @property
    def weighted(self) -> bool:
        """Whether overall spreads differ so that each party's rows are divided by its own."""
        return self.overall_p_value < LEVEL

    @property
    def correlation(self) -> float:
        """Of two rows of a party, by a random intercept with one ratio of variances for all columns."""
        return self._correlation(float(self.f_statistics.mean()))

    def correlation_within(self, within: GaussianStats, total: GaussianStats) -> float:
        """The same by statistics of rows about their party's mean, and of rows as they are."""
        spread = np.sqrt(within.scatter.diagonal())
        varies = spread > 0
        size = np.outer(spread[varies], spread[varies])
        own, alike = (part.scatter[np.ix_(varies, varies)] / size for part in (within, total))
        values, directions = np.linalg.eigh(own)
        kept = values > _DETERMINED * values.max(initial=0.0)
        freedom, rank = float(self.masses[3]), int(kept.sum())
        if rank == 0 or freedom <= rank + 1:
            return self.correlation
        between = np.einsum("ik,ij,jk->k", directions, alike - own, directions)[kept] / values[kept]
        # The inverse of a covariance that was estimated is too large on average, by this factor.
        mean = float(between.mean()) * (freedom - rank - 1) / max(self.parties - 1, 1.0)
        return self._correlation(mean)

    def _correlation(self, mean_f: float) -> float:
        count, mass, squares, _ = map(float, self.masses)
        if count < 2:
            return 0.0
        # Squares were rounded: they are those of parties of the same size at least, and leave a row each.
        typical = max((mass - max(squares / mass, mass / count)) / (count - 1), 1.0)
        ratio = max(mean_f - 1, 0.0) / typical
        return min(ratio / (1 + ratio), _LARGEST)

    def adjustment(self, effects: str) -> Adjustment:
        """What the parties do with their rows."""
        if effects == "random":
            return Adjustment(self.correlation, UNCHANGED, self.log_scale)
        if effects == "means and scales":
            return Adjustment(1.0, COLUMNS, self.log_scale)
        if effects == "means":
            return Adjustment(1.0, OVERALL if self.weighted else UNCHANGED, self.log_scale)
        return Adjustment(0.0, UNCHANGED, self.log_scale)

    def notes(self, effects: str, correlation: float | None = None) -> list[str]:
        """The results of the tests in words, and what was done; with the correlation that was used."""
        if self.parties < 2:
            return []
        used = self.correlation if correlation is None else correlation
        return [f"{self._of_means(effects, used)}{self._cost(effects)}", *self._of_spreads(effects)]

    def _of_means(self, effects: str, correlation: float) -> str:
        different = self._different(self.mean_p_values)
        done = {
            "none": "They were not subtracted (site_effects='none')"
            + (", which can cause false edges: site_effects='means' centres rows." if different else "."),
            "random": "Each party has a random intercept, which makes two of its rows correlated by "
            f"{correlation:.2f}.",
        }.get(effects, "Rows were centred within each party.")
        if different:
            return f"Means differ between the {self.parties:.0f} parties {different}. {done}"
        return f"The means of the {self.parties:.0f} parties do not differ noticeably. {done}"

    def _cost(self, effects: str) -> str:
        if not effects.startswith("means"):
            return ""
        lost, rows = self.parties - 1, float(self.masses[3]) + self.parties
        cost = f" This costs {lost:.0f} of {rows:.0f} rows."
        if lost < COSTLY * rows or self._different(self.mean_p_values):
            return cost
        return (
            f"{cost} With so few rows a party, site_effects='none' keeps them where the parties' means are "
            "known to be the same, and 'random' keeps as much of them as the parties' means allow."
        )

    def _of_spreads(self, effects: str) -> list[str]:
        different = self._different(self.spread_p_values)
        found = []
        if effects == "means" and self.weighted:
            found.append(
                "Overall spreads differ between parties: each party's rows were divided by its own, so that "
                "none outweighs the others."
            )
        if different and effects == "means and scales":
            found.append(f"Spreads differ between parties {different}. Columns were scaled within parties.")
        elif different and not found:
            found.append(
                f"Spreads differ between parties {different}, if errors are normal. That makes no false "
                "edges where the coefficients are the same; where columns may be in other units, use "
                "site_effects='means and scales'."
            )
        return found

    def _different(self, p_values: Array) -> str:
        """Which columns differ, in words; Bonferroni's correction over the columns."""
        d = len(self.names)
        where = np.flatnonzero(p_values * d < LEVEL)
        if not len(where):
            return ""
        order = where[np.argsort(p_values[where], kind="stable")]
        some = ", ".join(self.names[i] for i in order[:_SHOWN]) + (", …" if len(order) > _SHOWN else "")
        return f"in {len(where)} of {d} columns ({some})"
