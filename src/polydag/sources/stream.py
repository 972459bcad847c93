"""A file or a SQL query that is larger than memory, as a source: only its statistics are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property

from polydag.data.reading import gaussian_stats
from polydag.data.table import Kind
from polydag.errors import UsageError
from polydag.sources.interface import Counts, Source
from polydag.stats import GaussianStats


class Stream(Source):
    """Numeric columns of a file or of a SQL query, read batch by batch.

    Parameters
    ----------
    address : path or database address
        A CSV, Parquet or Arrow file; or an address such as `postgresql://user@host/database`.
    columns : sequence of str, optional
        The columns to read; all by default.
    query : str, optional
        The SELECT, for a database.
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        query: str | None = None,
    ) -> None:
        self.address = address
        self.columns = None if columns is None else tuple(columns)
        self.query = query

    @cached_property
    def _statistics(self) -> GaussianStats:
        return gaussian_stats(self.address, self.columns, query=self.query)

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
        """Numbers: only these can be streamed."""
        return dict.fromkeys(self.names, "continuous")

    @property
    def n(self) -> float:
        """The number of rows."""
        return self._statistics.n

    def moments(self) -> GaussianStats:
        """Row count, mean and scatter, computed while the rows are read."""
        return self._statistics

    def counts(self) -> Counts:
        """Refused: labels are not streamed."""
        raise UsageError(
            "A stream has moments of numeric columns only. Read the table with polydag.data.read to count "
            "labels."
        )
