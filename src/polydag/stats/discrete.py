"""Counts of discrete rows: any family's contingency table, and merging of parts with different levels."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydag.arrays import Array, Index
from polydag.errors import DataError
from polydag.graph import node_names
from polydag.stats.rows import MISSING_ADVICE, column_names, difference, row_weights

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class DiscreteCounts:
    """How often each combination of levels occurs: the distinct rows with their counts; merged with `+`.

    Attributes
    ----------
    names : tuple of str
        The variables.
    levels : tuple of tuples
        Each variable's labels; a row holds positions in these.
    rows : int array of shape (m, d)
        The distinct combinations that occur, sorted.
    counts : array of shape (m,)
        How often each occurs (row weights add up).
    """

    names: tuple[str, ...]
    levels: tuple[tuple[Hashable, ...], ...]
    rows: NDArray[np.int32]
    counts: Array

    @classmethod
    def from_data(
        cls,
        data: Any,
        *,
        levels: Mapping[str, Sequence[Hashable]] | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """The counts of a DataFrame, an Arrow table or batch, or an integer array.

        Levels are those that occur unless given; a categorical column brings its own.
        """
        if hasattr(data, "schema"):
            data = data.to_pandas()
        names = column_names(data)
        if names is None:
            array = np.asarray(data)
            if array.ndim != 2:
                raise DataError(
                    f"The data must have rows and columns; this array has the shape {array.shape}."
                )
            columns = list(array.T)
        else:
            columns = [data.iloc[:, i] for i in range(len(names))]
        labels = node_names(names, len(columns))
        if not labels:
            raise DataError("The data has no columns.")
        codes, all_levels = [], []
        for name, column in zip(labels, columns, strict=True):
            own = None if levels is None else levels.get(name)
            code, level = _encode(name, column, own)
            codes.append(code)
            all_levels.append(level)
        rows = np.array(codes, dtype=np.int32).T.reshape(-1, len(labels))
        return cls(labels, tuple(all_levels), *_distinct(rows, row_weights(weights, len(rows))))

    @classmethod
    def without_rows(cls, names: tuple[str, ...], levels: tuple[tuple[Hashable, ...], ...]) -> Self:
        """Counts of no rows: names and levels alone, which merging unites."""
        return cls(names, levels, np.empty((0, len(names)), dtype=np.int32), np.empty(0))

    @property
    def n(self) -> float:
        """The number of rows, or the sum of their weights."""
        return float(self.counts.sum())

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    @property
    def arities(self) -> Index:
        """The number of levels of each variable."""
        return np.array([len(level) for level in self.levels], dtype=np.int64)

    def table(self, names: Sequence[object]) -> Array:
        """The contingency table of some variables, one axis each, in the order given."""
        if missing := [str(name) for name in names if str(name) not in self.names]:
            raise DataError(f"No such variable: {', '.join(missing)}.")
        return self._table(tuple(self.names.index(str(name)) for name in names))

    def tables(self, sets: Sequence[tuple[int, ...]]) -> list[Array]:
        """The contingency table of each set of columns, one axis per column in the order given."""
        return [self._table(columns) for columns in sets]

    def _table(self, columns: tuple[int, ...]) -> Array:
        shape = tuple(len(self.levels[i]) for i in columns)
        flat = np.zeros(len(self.rows), dtype=np.intp)
        if columns:
            flat = np.ravel_multi_index(tuple(self.rows[:, i] for i in columns), shape)
        return np.bincount(flat, weights=self.counts, minlength=math.prod(shape)).reshape(shape).astype(float)

    def select(self, names: Sequence[str]) -> Self:
        """The counts with the variables in another order."""
        where = [self.names.index(name) for name in names]
        levels = tuple(self.levels[i] for i in where)
        return type(self)(tuple(names), levels, *_distinct(self.rows[:, where], self.counts))

    def with_levels(self, levels: Mapping[str, Sequence[Hashable]]) -> Self:
        """The same counts with other (larger) sets of levels."""
        rows = np.empty_like(self.rows)
        result = []
        for j, (name, old) in enumerate(zip(self.names, self.levels, strict=True)):
            new = tuple(levels.get(name, old))
            position = {level: i for i, level in enumerate(new)}
            if lost := [level for level in old if level not in position]:
                raise DataError(f"Column {name} has the level {lost[0]!r}, which is not among those given.")
            rows[:, j] = np.array([position[level] for level in old], dtype=np.int32)[self.rows[:, j]]
            result.append(new)
        return type(self)(self.names, tuple(result), *_distinct(rows, self.counts))

    def __add__(self, other: Self) -> Self:
        if self.names != other.names:
            raise DataError(
                f"Cannot merge counts of different variables: {difference(self.names, other.names)}"
            )
        if self.levels != other.levels:
            united = {
                name: a if a == b else sorted_levels({*a, *b})
                for name, a, b in zip(self.names, self.levels, other.levels, strict=True)
            }
            return self.with_levels(united) + other.with_levels(united)
        rows = np.concatenate([self.rows, other.rows])
        counts = np.concatenate([self.counts, other.counts])
        return type(self)(self.names, self.levels, *_distinct(rows, counts))

    def for_node(self, node: object) -> Self:
        """The counts that score `node`: these, since nothing was intervened on."""
        return self


def _encode(
    name: str, column: Any, levels: Sequence[Hashable] | None
) -> tuple[NDArray[np.int32], tuple[Hashable, ...]]:
    """Positions of a column's values in its levels; categories keep their own order."""
    import pandas as pd

    series = pd.Series(column)
    levels = levels_of(series) if levels is None else levels
    if len(set(levels)) != len(levels):
        raise DataError(f"Column {name}: a level is given twice in {list(levels)}.")
    codes = pd.Index(list(levels)).get_indexer(pd.Index(series))
    if len(bad := np.flatnonzero(codes < 0)):
        value = series.iloc[bad[0]]
        if pd.isna(value):
            raise DataError(f"Column {name}, row {bad[0] + 1}: the value is missing. {MISSING_ADVICE}")
        raise DataError(f"Column {name}, row {bad[0] + 1}: {value!r} is not among the column's levels.")
    return codes.astype(np.int32), tuple(levels)


def counted(
    names: tuple[str, ...],
    levels: tuple[tuple[Hashable, ...], ...],
    rows: Index,
    weights: ArrayLike | None = None,
) -> DiscreteCounts:
    """The counts of rows (n, d) that are positions in levels already."""
    weight = row_weights(weights, len(rows))
    return DiscreteCounts(names, levels, *_distinct(rows.astype(np.int32), weight))


def levels_of(column: pd.Series[Any]) -> tuple[Hashable, ...]:
    """The labels that occur in a column, sorted; a categorical column's own, in their order."""
    if hasattr(column, "cat"):
        return tuple(column.cat.categories.tolist())
    try:
        return sorted_levels(set(column.dropna().unique().tolist()))
    except TypeError:
        raise DataError(
            f"Column {column.name} holds lists or other cells of several values, which are no labels. Make a "
            "column of each value, or leave it out."
        ) from None


def levels_of_all(parts: Iterable[Any]) -> dict[str, tuple[Hashable, ...]]:
    """The levels that each variable has in any of several counts."""
    bare = (DiscreteCounts.without_rows(part.names, part.levels) for part in parts)
    whole = reduce(add, bare)
    return dict(zip(whole.names, whole.levels, strict=True))


def sorted_levels(levels: set[Hashable]) -> tuple[Hashable, ...]:
    """Labels in their order; by their texts where they cannot be compared."""
    try:
        return tuple(sorted(levels))  # type: ignore[type-var]
    except TypeError:
        return tuple(sorted(levels, key=str))


def _distinct(rows: NDArray[np.int32], weights: Array) -> tuple[NDArray[np.int32], Array]:
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    return unique, np.bincount(inverse.ravel(), weights=weights, minlength=len(unique)).astype(float)
