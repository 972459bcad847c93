"""Statistics as given, as a source: sums from elsewhere, or a covariance matrix from a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from polydag.data.table import Kind
from polydag.errors import DataError
from polydag.sources.interface import Contents, Counts, Mixed, Moments, Source
from polydag.stats import DiscreteCounts, GaussianStats, MixedStats, Regimes
from polydag.stats.mixed import Levels

_ROUNDING = 1e-6  # of a correlation


class Given(Source):
    """Sufficient statistics that were computed elsewhere.

    Parameters
    ----------
    statistics : GaussianStats, DiscreteCounts, or Regimes of either; MixedStats
        The statistics of the rows.
    """

    def __init__(self, statistics: Moments | Counts | MixedStats) -> None:
        parts = statistics.parts.values() if isinstance(statistics, Regimes) else (statistics,)
        for part in parts:
            moments = part.moments if isinstance(part, MixedStats) else part
            if isinstance(moments, GaussianStats):
                _require_moments(moments)
        self.statistics = statistics

    @property
    def described(self) -> str:
        """Statistics."""
        return "a source of given statistics"

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.statistics.names

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Labels for counts, numbers for moments."""
        if isinstance(self.statistics, MixedStats):
            labels = self.statistics.levels
            return {name: "discrete" if name in labels else "continuous" for name in self.names}
        return dict.fromkeys(self.names, "discrete" if self._are_counts else "continuous")

    @property
    def n(self) -> float:
        """The number of rows that the statistics are of."""
        return self.statistics.n

    @property
    def _are_counts(self) -> bool:
        stats = self.statistics
        first = next(iter(stats.parts.values())) if isinstance(stats, Regimes) else stats
        return not isinstance(first, (GaussianStats, MixedStats))

    @property
    def fixed_kinds(self) -> Mapping[str, Kind]:
        """The labels among numbers."""
        return dict.fromkeys(getattr(self.statistics, "levels", ()), "discrete") if self._are_mixed else {}

    @property
    def contents(self) -> Contents:
        """What the columns hold; indicators of labels are scored as mixed columns are."""
        return "mixed" if self._are_mixed else super().contents

    @property
    def _are_mixed(self) -> bool:
        return isinstance(self.statistics, MixedStats)

    def levels(self, labels: Sequence[str]) -> Levels:
        """The labels of some columns."""
        if not isinstance(self.statistics, MixedStats):
            return super().levels(labels)
        return {name: self.statistics.levels[name] for name in labels}

    def mixed(self, levels: Levels) -> Mixed:
        """The statistics, where they are moments of numbers and indicators."""
        if isinstance(self.statistics, MixedStats):
            return self.statistics.with_levels(levels)
        if isinstance(self.statistics, GaussianStats) and not levels:
            return MixedStats(self.names, {}, self.statistics)
        return super().mixed(levels)

    def moments(self) -> Moments:
        """The statistics, where they are moments."""
        if isinstance(self.statistics, MixedStats):
            return self.statistics.moments
        if self._are_counts:
            raise DataError("These are counts of labels; this method needs numbers.")
        return self.statistics  # type: ignore[return-value]

    def counts(self) -> Counts:
        """The statistics, where they are counts."""
        if not self._are_counts:
            raise DataError("These are statistics of numbers; this method needs counts of labels.")
        return self.statistics  # type: ignore[return-value]


def _require_moments(stats: GaussianStats) -> None:
    """Raise a `DataError` for moments that no rows can have."""
    d = len(stats.names)
    if stats.mean.shape != (d,) or stats.scatter.shape != (d, d):
        raise DataError(
            f"The statistics name {d} variables, but their mean has the shape {stats.mean.shape} and their "
            f"scatter {stats.scatter.shape}."
        )
    if not (0 <= stats.n < np.inf and 0 <= stats.mass < np.inf):
        raise DataError(
            f"The statistics are of {stats.n:g} rows with mass {stats.mass:g}: give their number."
        )
    if not (np.isfinite(stats.mean).all() and np.isfinite(stats.scatter).all()):
        raise DataError("The statistics hold values that are missing or infinite.")
    spread = np.sqrt(np.maximum(stats.scatter.diagonal(), 0.0))
    scale = np.where(spread > 0, spread, 1.0)
    correlation = stats.scatter / scale / scale[:, None]
    if not np.allclose(correlation, correlation.T, rtol=0, atol=_ROUNDING):
        raise DataError("The scatter of the statistics is not symmetric.")
    try:
        np.linalg.cholesky(correlation + _ROUNDING * np.eye(d))
    except np.linalg.LinAlgError:
        raise DataError(
            "The scatter of the statistics has negative eigenvalues, which that of no table has. Where its "
            "entries are from different rows, take those from complete rows."
        ) from None


def is_statistics(X: object) -> bool:
    """Whether an object is sufficient statistics rather than rows."""
    return isinstance(X, (GaussianStats, DiscreteCounts, MixedStats, Regimes))
