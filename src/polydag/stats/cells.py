"""Counts and moments per cell of label columns: what the conditional Gaussian model needs to know of rows.

A cell is a combination of levels of some label columns. `CellStats` is asked for the cells of a few labels
and the covariance of a few numbers in each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import DataError, UsageError
from polydag.stats.mixed import Levels, MixedStats

if TYPE_CHECKING:
    import pandas as pd

LEAST_ROWS = 6  # of a cell with a covariance of its own
Columns = tuple[int, ...]


class Cells(NamedTuple):
    """The cells of some label columns.

    `counts` (c,) has those that occur, in any order; `sizes` (m,) and `scatter` (m, k, k) are of the cells
    with at least as many rows as were asked for, about their own means, in standard deviations of the whole.
    """

    counts: Array
    sizes: Array
    scatter: Array


Ask = Callable[[Columns, Columns, int], Cells]


@dataclass(frozen=True, eq=False)
class CellStats:
    """Moments of the whole, and those of cells on request.

    Attributes
    ----------
    mixed : MixedStats
        Moments of the numbers and of indicators of the labels.
    ask : callable
        Given label columns and columns of numbers by position, and a number of rows, returns `Cells`.
    """

    mixed: MixedStats
    ask: Ask

    @classmethod
    def from_data(cls, frame: pd.DataFrame, levels: Levels) -> CellStats:
        """The statistics of a table; `levels` says which of its columns are labels."""
        mixed = MixedStats.from_data(frame, levels)
        numbers = mixed.numbers
        if (constant := np.flatnonzero(~(numbers.scatter.diagonal() > 0))).size:
            raise DataError(f"Column {numbers.names[constant[0]]} is constant. Drop it.")
        return cls(mixed, CellRows.of(frame, mixed))

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.mixed.names

    @property
    def n(self) -> float:
        """The number of rows."""
        return self.mixed.n

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    @cached_property
    def arities(self) -> Index:
        """The number of levels of each variable; 0 for numbers."""
        return np.array([len(self.mixed.levels.get(name, ())) for name in self.names], dtype=np.int64)

    def split(self, members: Sequence[int]) -> tuple[Columns, Columns]:
        """The labels and the numbers among some variables, in order."""
        own = sorted(members)
        return tuple(i for i in own if self.arities[i]), tuple(i for i in own if not self.arities[i])

    def select(self, names: Sequence[object]) -> CellStats:
        """The statistics of some of the variables, in the order given."""
        mixed = self.mixed.select(names)
        where = [self.names.index(name) for name in mixed.names]
        if isinstance(self.ask, CellRows):
            return CellStats(mixed, self.ask.select(where))

        def ask(labels: Columns, numbers: Columns, least: int) -> Cells:
            return self.ask(tuple(where[i] for i in labels), tuple(where[i] for i in numbers), least)

        return CellStats(mixed, ask)

    def __add__(self, other: CellStats) -> CellStats:
        """The statistics of all rows, where they are at hand."""
        parts = (self, other)
        if not all(isinstance(part.ask, CellRows) for part in parts):
            raise UsageError(
                "Moments per cell of labels cannot be added without rows. Use the degenerate Gaussian "
                "(criterion='dg')."
            )
        mixed = self.mixed + other.mixed
        return CellStats(mixed, CellRows.together([(part.ask, part.mixed) for part in parts], mixed))  # type: ignore[misc]


@dataclass(frozen=True, eq=False)
class CellRows:
    """Rows at hand: positions of labels in their levels, and standardised numbers; one line a variable."""

    codes: Index
    numbers: Array
    arities: Index

    @classmethod
    def of(cls, frame: pd.DataFrame, mixed: MixedStats) -> CellRows:
        """The rows of a table whose statistics are known."""
        import pandas as pd

        codes = np.zeros((mixed.d, len(frame)), dtype=np.int64)
        numbers = np.zeros((mixed.d, len(frame)))
        centre, scale = standard_units(mixed)
        for k, name in enumerate(mixed.names):
            column = frame.iloc[:, k]
            if name in mixed.levels:
                codes[k] = pd.Index(list(mixed.levels[name])).get_indexer(pd.Index(column))
            else:
                numbers[k] = (column.to_numpy(dtype=float) - centre[k]) / scale[k]
        arities = np.array([len(mixed.levels.get(name, ())) for name in mixed.names], dtype=np.int64)
        return cls(codes, numbers, arities)

    @classmethod
    def together(cls, parts: Sequence[tuple[CellRows, MixedStats]], mixed: MixedStats) -> CellRows:
        """The rows of several tables, in the units of all of them."""
        centre, scale = standard_units(mixed)
        numbers = []
        for rows, own in parts:
            own_centre, own_scale = standard_units(own)
            values = rows.numbers * own_scale[:, None] + own_centre[:, None]
            numbers.append((values - centre[:, None]) / scale[:, None])
        codes = np.hstack([rows.codes for rows, _ in parts])
        return cls(codes, np.hstack(numbers), parts[0][0].arities)

    def select(self, where: Sequence[int]) -> CellRows:
        """The rows of some of the variables, by position."""
        own = list(where)
        return CellRows(self.codes[own], self.numbers[own], self.arities[own])

    def __call__(self, labels: Columns, numbers: Columns, least: int) -> Cells:
        """The cells of some labels, with the scatter of some numbers."""
        from polydag.stats._cells_kernels import cells

        return Cells(
            *cells(
                self.codes, self.numbers, self.arities, np.array(labels, dtype=np.int64),
                np.array(numbers, dtype=np.int64), least,
            )
        )  # fmt: skip


def standard_units(mixed: MixedStats) -> tuple[Array, Array]:
    """The mean and standard deviation of each variable that is a number; 0 and 1 for labels."""
    numbers = mixed.numbers
    own = {name: k for k, name in enumerate(numbers.names)}
    spread = np.sqrt(numbers.scatter.diagonal() / numbers.n) if numbers.d else np.zeros(0)
    centre = [float(numbers.mean[own[name]]) if name in own else 0.0 for name in mixed.names]
    scale = [float(spread[own[name]]) if name in own else 1.0 for name in mixed.names]
    return np.array(centre), np.array(scale)


def possible_cells(stats: CellStats, labels: Columns) -> float:
    """How many combinations of levels some labels have."""
    return math.prod(float(stats.arities[label]) for label in labels)
