"""Cells of labels over parties: counts of all cells, and moments of those with enough rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import UsageError
from polydag.stats.cells import LEAST_ROWS, Cells, Columns

Counted = Callable[[Columns], Array]
Summed = Callable[[Columns, Columns, Index], tuple[Array, Array]]


class _Known(NamedTuple):
    counts: Array
    sizes: Array
    scatter: Array


class PartyCells:
    """Answers as `CellRows`; each set of label columns takes two rounds, once, for all numbers.

    Parameters
    ----------
    counted : callable
        The summed contingency table of some label columns.
    summed : callable
        The summed rows and scatter of some numbers in given cells of some label columns.
    numbers : tuple of int
        All columns of numbers.

    Notes
    -----
    Moments of cells with fewer than `LEAST_ROWS` rows of all parties are never asked for.
    """

    def __init__(self, counted: Counted, summed: Summed, numbers: Columns) -> None:
        self._counted, self._summed, self._numbers = counted, summed, numbers
        self._place = {column: k for k, column in enumerate(numbers)}
        self._known: dict[Columns, _Known] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """A stored copy has what was asked for; the parties are not in it."""
        return type(self), (not_stored, not_stored, self._numbers), {"_known": self._known}

    def __call__(self, labels: Columns, numbers: Columns, least: int) -> Cells:
        """The cells of some labels, with the scatter of some numbers."""
        if labels not in self._known:
            self._known[labels] = self._asked(labels)
        counts, sizes, scatter = self._known[labels]
        enough = sizes >= max(least, LEAST_ROWS)
        where = [self._place[column] for column in numbers]
        return Cells(counts, sizes[enough], scatter[enough][:, where][:, :, where])

    def _asked(self, labels: Columns) -> _Known:
        table = np.asarray(self._counted(labels)).ravel()
        cells = np.flatnonzero(table >= LEAST_ROWS)
        if not len(cells) or not self._numbers:
            k = len(self._numbers)
            return _Known(table[table > 0], table[cells], np.zeros((len(cells), k, k)))
        sizes, scatter = self._summed(labels, self._numbers, cells)
        return _Known(table[table > 0], sizes, scatter)


def not_stored(*asked: object) -> NoReturn:
    """Refused: what parties would answer is not stored with a result."""
    raise UsageError("The parties' counts are not stored with a result. Fit again to ask for more of them.")
