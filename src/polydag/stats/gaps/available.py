"""Contingency tables of rows with missing labels, each from the rows that have its columns (test-wise)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index
from polydag.stats.count_tables import CountTables


@dataclass(frozen=True, eq=False)
class AvailableTables:
    """Tables without what is missing, all scaled to the same number of rows so that scores can be compared.

    Attributes
    ----------
    source : CountTables
        Counts in which the last level of every variable stands for a missing value.
    n : float
        The number of rows that each table is scaled to.
    """

    source: CountTables
    n: float

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.source.names

    @property
    def levels(self) -> tuple[tuple[Hashable, ...], ...]:
        """Each variable's labels."""
        return tuple(own[:-1] for own in self.source.levels)

    @property
    def arities(self) -> Index:
        """The number of levels of each variable."""
        return np.array([len(own) for own in self.levels], dtype=np.int64)

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    def tables(self, sets: Sequence[tuple[int, ...]]) -> list[Array]:
        """The table of each set of columns, one axis per column in the order given."""
        found = []
        for table in self.source.tables(sets):
            there = table[(slice(None, -1),) * table.ndim]
            found.append(there * (self.n / max(there.sum(), 1.0)))
        return found
