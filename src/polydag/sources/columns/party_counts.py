"""Counts of labels over parties: a contingency table is known once it has been asked for and summed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import DataError
from polydag.sources.columns.party_cells import not_stored
from polydag.stats import DiscreteCounts, Regimes
from polydag.stats.discrete import levels_of_all

Columns = tuple[int, ...]
Targets = frozenset[str]
Counts = DiscreteCounts | Regimes[DiscreteCounts]
Asked = Callable[[Sequence[Columns], Mapping[str, DiscreteCounts]], list[Array]]
AskedByRegime = Callable[[Sequence[Columns], Mapping[str, Counts]], Mapping[Targets, list[Array]]]


@dataclass(frozen=True, eq=False)
class PartyCounts:
    """The counts of all parties' rows, as a source of tables (`CountTables`).

    Parameters
    ----------
    names, levels
        The variables, and the labels of each over all parties.
    n : float
        The number of rows of all parties.
    tables : callable
        The contingency table of each set of columns, one axis per column; one question to all parties.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Hashable, ...], ...]
    n: float
    tables: Callable[[Sequence[Columns]], list[Array]]

    @classmethod
    def of(cls, own: Mapping[str, DiscreteCounts], asked: Asked, n: float | None = None) -> Self:
        """Of the parties' counts, over the same levels; `n` where these do not tell the number of rows."""
        first, *_ = own.values()
        rows = sum(part.n for part in own.values()) if n is None else n
        return cls(first.names, first.levels, rows, lambda sets: asked(sets, own))

    def __reduce__(self) -> tuple[Any, ...]:
        """A stored copy knows names, levels and rows; the parties' counts are not in it."""
        return type(self), (self.names, self.levels, self.n, not_stored)

    @property
    def arities(self) -> Index:
        """The number of levels of each variable."""
        return np.array([len(own) for own in self.levels], dtype=np.int64)

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    def with_levels(self, levels: Mapping[str, Sequence[Hashable]]) -> PartyCounts:
        """The same counts with other (larger) sets of levels."""
        larger = tuple(
            tuple(levels.get(name, own)) for name, own in zip(self.names, self.levels, strict=True)
        )
        for name, own, new in zip(self.names, self.levels, larger, strict=True):
            if lost := [level for level in own if level not in new]:
                raise DataError(f"Column {name} has the level {lost[0]!r}, which is not among those given.")
        places = [[new.index(level) for level in own] for own, new in zip(self.levels, larger, strict=True)]

        def tables(sets: Sequence[Columns]) -> list[Array]:
            found = []
            for columns, table in zip(sets, self.tables(sets), strict=True):
                padded = np.zeros([len(larger[column]) for column in columns])
                padded[np.ix_(*(places[column] for column in columns))] = table
                found.append(padded)
            return found

        return replace(self, levels=larger, tables=tables)


def counts_by_regime(own: Mapping[str, Counts], asked: AskedByRegime) -> Regimes[Any]:
    """Counts over parties per set of variables that were set by intervention, over the same levels.

    A table is asked for in all regimes at once, whichever needs it first.
    """
    parts = [part for counts in own.values() for part in _parts(counts).items()]
    rows: dict[Targets, float] = {}
    for targets, part in parts:
        rows[targets] = rows.get(targets, 0.0) + part.n
    known: dict[Columns, dict[Targets, Array]] = {}

    def tables(sets: Sequence[Columns], targets: Targets) -> list[Array]:
        if new := [columns for columns in dict.fromkeys(sets) if columns not in known]:
            found = asked(new, own)
            for k, columns in enumerate(new):
                known[columns] = {regime: found[regime][k] for regime in rows}
        return [known[columns][targets] for columns in sets]

    names, levels = parts[0][1].names, parts[0][1].levels
    return Regimes(
        {
            targets: PartyCounts(names, levels, n, partial(tables, targets=targets))
            for targets, n in rows.items()
        }
    )


def with_common_levels(own: Mapping[str, Counts], names: tuple[str, ...]) -> dict[str, Counts]:
    """The parties' counts with the variables in a given order, over the levels of all of them."""
    ordered = {party: _each(counts, lambda part: part.select(names)) for party, counts in own.items()}
    levels = levels_of_all(part for counts in ordered.values() for part in _parts(counts).values())
    return {party: _each(counts, lambda part: part.with_levels(levels)) for party, counts in ordered.items()}


def levels_of_counts(counts: Counts) -> dict[str, tuple[Hashable, ...]]:
    """The levels of each variable, whatever was set."""
    return levels_of_all(_parts(counts).values())


def _each(counts: Counts, change: Callable[[DiscreteCounts], DiscreteCounts]) -> Counts:
    if isinstance(counts, Regimes):
        return Regimes({targets: change(part) for targets, part in counts})
    return change(counts)


def _parts(counts: Counts) -> Mapping[Targets, DiscreteCounts]:
    return counts.parts if isinstance(counts, Regimes) else {frozenset(): counts}
