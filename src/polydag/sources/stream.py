"""A file or a SQL query that is larger than memory, as a source: only its statistics are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property

from polydag.data.reading import gaussian_stats, mixed_stats
from polydag.data.table import Kind
from polydag.errors import UsageError
from polydag.sources.given import Given
from polydag.sources.interface import Contents, Counts, Mixed, Moments, Source
from polydag.stats import GaussianStats, MixedStats
from polydag.stats.mixed import Levels


class Stream(Source):
    """Columns of a file or of a SQL query, read batch by batch.

    Parameters
    ----------
    address : path or database address
        A CSV, Parquet or Arrow file; or an address such as `postgresql://user@host/database`.
    columns : sequence of str, optional
        The columns to read; all by default.
    query : str, optional
        The SELECT statement, for a database.
    kinds : mapping of column to "continuous" or "discrete", optional
        Columns are numbers unless this says that they are labels.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        query: str | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        self.address = address
        self.columns = None if columns is None else tuple(columns)
        self.query = query
        self.labels = [name for name, kind in (kinds or {}).items() if kind == "discrete"]

    @cached_property
    def _statistics(self) -> GaussianStats | MixedStats:
        if self.labels:
            return mixed_stats(self.address, self.labels, self.columns, query=self.query)
        return gaussian_stats(self.address, self.columns, query=self.query)

    @property
    def _given(self) -> Given:
        return Given(self._statistics)

    @property
    def described(self) -> str:
        """A stream."""
        return "a stream"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self._statistics.names

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Numbers, unless declared as labels."""
        return self._given.kinds

    @property
    def fixed_kinds(self) -> Mapping[str, Kind]:
        """Those of labels."""
        return self._given.fixed_kinds

    @property
    def contents(self) -> Contents:
        """What the columns hold; labels have moments of indicators only, as mixed columns do."""
        return self._given.contents

    @property
    def n(self) -> float:
        """The number of rows."""
        return self._statistics.n

    def moments(self) -> Moments:
        """Row count, mean and scatter, computed while the rows are read."""
        return self._given.moments()

    def levels(self, labels: Sequence[str]) -> Levels:
        """The labels that occur in each of some columns."""
        return self._given.levels(labels)

    def mixed(self, levels: Levels) -> Mixed:
        """Moments of the numbers and of indicators of the labels."""
        return self._given.mixed(levels)

    def counts(self) -> Counts:
        """Refused: what is kept of labels are moments."""
        raise UsageError(
            "A stream has moments only. Read the table with polydag.data.read to count labels, or use "
            "a score or test for mixed columns (criterion='dg', test='dg')."
        )
