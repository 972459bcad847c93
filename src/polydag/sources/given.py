"""Statistics as given, as a source: sums from elsewhere, or a covariance matrix from a paper."""

from __future__ import annotations

from collections.abc import Mapping

from polydag.data.table import Kind
from polydag.errors import DataError
from polydag.sources.interface import Counts, Moments, Source
from polydag.stats import DiscreteCounts, GaussianStats, Regimes


class Given(Source):
    """Sufficient statistics that are at hand already.

    Parameters
    ----------
    statistics : GaussianStats, DiscreteCounts, or Regimes of either
        What is known of the rows.
    """

    def __init__(self, statistics: Moments | Counts) -> None:
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
        return dict.fromkeys(self.names, "discrete" if self._are_counts else "continuous")

    @property
    def n(self) -> float:
        """The number of rows that the statistics are of."""
        return self.statistics.n

    @property
    def _are_counts(self) -> bool:
        stats = self.statistics
        first = next(iter(stats.parts.values())) if isinstance(stats, Regimes) else stats
        return not isinstance(first, GaussianStats)

    def moments(self) -> Moments:
        """The statistics, where they are moments."""
        if self._are_counts:
            raise DataError("These are counts of labels; this method needs numbers.")
        return self.statistics  # type: ignore[return-value]

    def counts(self) -> Counts:
        """The statistics, where they are counts."""
        if not self._are_counts:
            raise DataError("These are statistics of numbers; this method needs counts of labels.")
        return self.statistics  # type: ignore[return-value]


def is_statistics(X: object) -> bool:
    """Whether an object is sufficient statistics rather than rows."""
    return isinstance(X, (GaussianStats, DiscreteCounts, Regimes))
