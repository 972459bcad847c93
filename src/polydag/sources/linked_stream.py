"""Groups of rows in a file or a query that is larger than memory, as a source: sums of groups are kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial

from polydag.data.checking.quality import require_usable
from polydag.data.reading import streamed
from polydag.data.table import Kind
from polydag.errors import DataError, UsageError
from polydag.parameters import check, number
from polydag.rows.group_sums import GroupSums
from polydag.sources.interface import Contents, Counts, Source
from polydag.sources.stream import Stream
from polydag.stats import GaussianStats


class LinkedStream(Source):
    """Rows in groups that are read batch by batch: `LinkedRows` with the structure "common".

    Rows of a group need not follow each other. One pass keeps the sizes and means of the groups, and the
    scatter within them; from these follow the correlation of the rows of a group and the moments of the
    decorrelated rows, as `LinkedRows(table, groups=…, structure="common")` has them.

    Parameters
    ----------
    stream : Stream
        The file or query; all its columns but `groups` are variables.
    groups : str
        The column with group labels.
    correlation : float, optional
        The correlation of two rows of a group, where it is known: it is not estimated then.
    random_state : int, optional
        The seed of the order in which columns are regressed on each other, as in `LinkedRows`.

    Notes
    -----
    Other structures, columns that differ in their correlation, properties of the group, labels, covariates
    and a bootstrap need rows: read the table, or part of it, and use `LinkedRows`.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        groups: str,
        correlation: float | None = None,
        random_state: int | None = None,
    ) -> None:
        if not isinstance(stream, Stream):
            raise UsageError("LinkedStream needs a Stream; for a table, use LinkedRows.")
        if stream.labels:
            raise UsageError(
                f"A stream of linked rows is of numbers, and {', '.join(stream.labels)} holds labels. Leave "
                "it out (columns=), or read the table and use LinkedRows."
            )
        self.stream, self.groups, self.correlation = stream, groups, correlation
        self.random_state = random_state

    @cached_property
    def _sums(self) -> GroupSums:
        stream = self.stream
        columns = None
        if stream.columns is not None:
            columns = [*(name for name in stream.columns if name != self.groups), self.groups]
        gather = partial(GroupSums.from_batches, group=self.groups)
        found = streamed(stream.address, gather, columns, [self.groups], query=stream.query)
        if len(found.sizes) < 2 or found.sizes.max() < 2:
            raise DataError(
                f"Column {self.groups} has {len(found.sizes)} groups of at most {found.sizes.max():.0f} "
                "rows: several groups are needed, and two rows in some of them."
            )
        if alike := found.alike:
            raise DataError(
                f"Column {', '.join(alike)} is the same in all rows of each {self.groups}. A property of the "
                "group needs rows: leave it out (columns=), or read the table and use LinkedRows."
            )
        if 2 * len(found.names) > found.n - 1:
            raise DataError(
                f"There are {found.n} rows of {len(found.names)} columns, too few for sums of groups to tell "
                "their correlation. Read the table and use LinkedRows."
            )
        return found

    @cached_property
    def correlation_(self) -> float:
        """The correlation of two rows of a group."""
        if self.correlation is not None:
            check("correlation", self.correlation, number(least=self._sums.lowest, most=0.98))
            return self.correlation
        require_usable(self._sums.moments(0.0), independent=True)
        return self._sums.likeliest(self.random_state)

    @property
    def described(self) -> str:
        """A stream of linked rows."""
        return "a stream of linked rows"

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self._sums.names

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Numbers."""
        return dict.fromkeys(self.names, "continuous")

    @property
    def contents(self) -> Contents:
        """Numbers."""
        return "numbers"

    @property
    def n(self) -> float:
        """The number of rows."""
        return float(self._sums.n)

    @property
    def effective_n(self) -> float:
        """`n²/tr(Σ²)`: what the rows are worth for edges where their dependence is ignored."""
        return self._sums.effective_n(self.correlation_)

    @property
    def notes(self) -> tuple[str, ...]:
        """How alike the rows of a group are, and what was not asked."""
        n, known = self._sums.n, self.correlation is not None
        return (
            f"Rows of one {self.groups} have the correlation {self.correlation_:.2f} "
            f"({'given' if known else 'estimated'}, one for all columns). Taken as independent, {n:,} rows "
            f"would be worth about {self.effective_n:,.0f} for edges; decorrelated, about {n - 1:,}. Whether "
            "columns differ in it, or dependence is left, is not tested in a stream: read part of the table "
            "and use LinkedRows.",
        )

    def moments(self) -> GaussianStats:
        """The moments of the decorrelated rows."""
        return self._sums.moments(self.correlation_)

    def counts(self) -> Counts:
        """Refused: what is kept are moments."""
        raise UsageError(
            "A stream of linked rows has moments of numbers only. Use a score or test for numbers."
        )
