"""Contingency tables on request: all that discrete scores and tests need to know of the rows.

A source of counts answers questions. A question is a batch of column sets and is answered by one table for
each. Where parties hold the rows, a question is a round of summation, so that callers collect what they need
and ask once (`AnsweredTables`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, combinations
from operator import add
from typing import Any, Protocol, runtime_checkable

from polydag.arrays import Array, Index
from polydag.errors import DataError, UsageError
from polydag.stats.discrete import DiscreteCounts
from polydag.stats.regimes import Regimes

Columns = tuple[int, ...]
MAX_CELLS = 1 << 20
DEFAULT_BOUND = 3


@runtime_checkable
class CountTables(Protocol):
    """A source of contingency tables."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        ...

    @property
    def levels(self) -> tuple[tuple[Hashable, ...], ...]:
        """Each variable's labels."""
        ...

    @property
    def arities(self) -> Index:
        """The number of levels of each variable."""
        ...

    @property
    def n(self) -> float:
        """The number of rows."""
        ...

    def tables(self, sets: Sequence[Columns]) -> list[Array]:
        """The table of each set of columns, one axis per column in the order given; one question a call."""
        ...


class AnsweredTables:
    """Tables that were asked for, so that none is asked for twice.

    A table answers for every subset of its columns, by summation over the others. Of a batch, only the sets
    that no other set contains are asked for.

    Parameters
    ----------
    source : CountTables
        Who answers.
    bound : str
        The parameter that bounds the size of the sets, for the error about too large a question.
    """

    def __init__(self, source: CountTables, bound: str) -> None:
        self.source, self.bound = source, bound
        self._arities = [int(arity) for arity in source.arities]
        self._tables: dict[Columns, Array] = {}
        self._answered_by: dict[Columns, Columns] = {}

    def fetch(self, sets: Iterable[Iterable[int]]) -> None:
        """Ask, in one question, for the tables that are needed for some sets and not known yet."""
        distinct = {tuple(sorted(columns)) for columns in sets}
        covered: dict[Columns, Columns] = {}
        question: list[Columns] = []
        for columns in sorted(distinct, key=lambda own: (-len(own), own)):
            if columns not in self._answered_by and columns not in covered:
                question.append(columns)
                covered.update((subset, columns) for subset in _subsets(columns))
        if not question:
            return
        question.sort()
        self._require_few_cells(question)
        self._tables.update(zip(question, self.source.tables(question), strict=True))
        self._answered_by = covered | self._answered_by

    def table(self, columns: Columns) -> Array:
        """The table of some columns, one axis per column in the order given; asked for if it is not known."""
        key = tuple(sorted(columns))
        if key not in self._tables:
            self.fetch([key])
            owner = self._answered_by[key]
            others = tuple(axis for axis, column in enumerate(owner) if column not in key)
            self._tables[key] = self._tables[owner].sum(axis=others)
        return self._tables[key].transpose([key.index(column) for column in columns])

    def _require_few_cells(self, question: Sequence[Columns]) -> None:
        cells = sum(math.prod(self._arities[column] for column in columns) for columns in question)
        if cells > MAX_CELLS:
            largest = max(len(columns) for columns in question)
            raise UsageError(
                f"{len(question):,} tables of up to {largest} columns have {cells:,} cells; at most "
                f"{MAX_CELLS:,} are asked for at once. Choose a smaller {self.bound}, or merge rare levels."
            )


def keeps_rows(statistics: Any) -> bool:
    """Whether the statistics are a source of counts that gives tables but no rows."""
    parts = statistics.parts.values() if isinstance(statistics, Regimes) else [statistics]
    return any(isinstance(part, CountTables) and not isinstance(part, DiscreteCounts) for part in parts)


def bound_on_tables(name: str, given: int | None, statistics: Any) -> tuple[int | None, tuple[str, ...]]:
    """A parameter that bounds the size of tables, and a note where its value was chosen here."""
    if given is not None or not keeps_rows(statistics):
        return given, ()
    note = f"Counts are asked for table by table: {name} is {DEFAULT_BOUND}."
    return DEFAULT_BOUND, (note,)


def _subsets(columns: Columns) -> Iterable[Columns]:
    return chain.from_iterable(combinations(columns, size) for size in range(len(columns) + 1))


@dataclass(frozen=True, eq=False)
class SelectedTables:
    """Some columns of a source, in another order."""

    source: CountTables
    columns: Columns

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return tuple(self.source.names[column] for column in self.columns)

    @property
    def levels(self) -> tuple[tuple[Hashable, ...], ...]:
        """Each variable's labels."""
        return tuple(self.source.levels[column] for column in self.columns)

    @property
    def arities(self) -> Index:
        """The number of levels of each variable."""
        result: Index = self.source.arities[list(self.columns)]
        return result

    @property
    def n(self) -> float:
        """The number of rows."""
        return self.source.n

    def tables(self, sets: Sequence[Columns]) -> list[Array]:
        """The table of each set of columns."""
        return self.source.tables([tuple(self.columns[own] for own in columns) for columns in sets])


@dataclass(frozen=True, eq=False)
class MergedTables:
    """The rows of several sources with the same variables and levels, each asked once a question."""

    parts: tuple[CountTables, ...]

    def __post_init__(self) -> None:
        first, *others = self.parts
        if any(part.names != first.names or part.levels != first.levels for part in others):
            raise DataError("Counts of different variables or levels cannot be merged.")

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.parts[0].names

    @property
    def levels(self) -> tuple[tuple[Hashable, ...], ...]:
        """Each variable's labels."""
        return self.parts[0].levels

    @property
    def arities(self) -> Index:
        """The number of levels of each variable."""
        return self.parts[0].arities

    @property
    def n(self) -> float:
        """The number of rows."""
        return sum(part.n for part in self.parts)

    def tables(self, sets: Sequence[Columns]) -> list[Array]:
        """The table of each set of columns."""
        answers = [part.tables(sets) for part in self.parts]
        return [reduce(add, own) for own in zip(*answers, strict=True)]
