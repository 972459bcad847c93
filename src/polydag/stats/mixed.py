"""Moments of tables with numbers and labels: each label column becomes a block of indicator columns.

A label column with levels `a, b, c` becomes the indicators of `b` and `c`; a column of numbers stays as it
is. The moments of these columns are moments like any others: they merge with `+`, are summed over parties and
computed from a stream or from decorrelated rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.stats.gaussian import GaussianStats
from polydag.stats.rows import MISSING_ADVICE, Array, difference

if TYPE_CHECKING:
    import pandas as pd

Index = NDArray[np.int64]
Levels = Mapping[str, tuple[Hashable, ...]]
_ABSENT = 1e-12  # directions of a block with a smaller share of its largest variance do not occur


class Blocks(NamedTuple):
    """Correlations between blocks whose own columns are uncorrelated with variance one.

    `matrix` (k, k) holds them; block `j` has the columns `start[j]` to `start[j + 1]`. `log_volume[j]` is the
    log-determinant of the block's covariance before that, `labels` (k,) says which columns belong to labels.
    """

    matrix: Array
    start: Index
    log_volume: Array
    labels: NDArray[np.bool_]

    @property
    def sizes(self) -> Index:
        """The number of columns of each block."""
        return np.diff(self.start)


@dataclass(frozen=True, eq=False)
class MixedStats:
    """Moments of numbers and of indicators of labels; merged with `+`.

    Attributes
    ----------
    names : tuple of str
        The variables.
    levels : mapping of name to tuple
        The labels of each label column; a variable without is a number.
    moments : GaussianStats
        Of the numbers and indicators, in the order of the variables.
    """

    names: tuple[str, ...]
    levels: Levels
    moments: GaussianStats

    @classmethod
    def from_data(cls, frame: pd.DataFrame, levels: Levels) -> Self:
        """The statistics of a table; `levels` says which of its columns are labels."""
        names = tuple(str(name) for name in frame.columns)
        return cls(names, levels, GaussianStats.from_data(with_indicators(frame, levels)))

    def __post_init__(self) -> None:
        expected = indicator_names(self.names, self.levels)
        if self.moments.names != expected:
            raise DataError(
                f"These are not moments of numbers and indicators: {difference(expected, self.moments.names)}"
            )

    @property
    def n(self) -> float:
        """The number of rows, or the sum of their weights."""
        return self.moments.n

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    def __add__(self, other: Self) -> Self:
        if self.names != other.names or self.levels != other.levels:
            raise DataError("Cannot merge statistics of different variables or levels.")
        return type(self)(self.names, self.levels, self.moments + other.moments)

    def for_node(self, node: object) -> Self:
        """The statistics that score `node`: these, since nothing was intervened on."""
        return self

    def select(self, names: Sequence[object]) -> Self:
        """The statistics of some of the variables, in the order given."""
        chosen = tuple(str(name) for name in names)
        if lost := [name for name in chosen if name not in self.names]:
            raise DataError(f"No such variable: {', '.join(lost)}.")
        levels = {name: own for name, own in self.levels.items() if name in chosen}
        return type(self)(chosen, levels, self.moments.select(indicator_names(chosen, levels)))

    @property
    def numbers(self) -> GaussianStats:
        """The moments of the columns of numbers."""
        return self.moments.select([name for name in self.names if name not in self.levels])

    @cached_property
    def blocks(self) -> Blocks:
        """Correlations between the variables, each as a block of uncorrelated columns with variance one.

        Which level of a label has no indicator then makes no difference. Levels that do not occur take no
        column.
        """
        covariance = self.moments.covariance
        sizes = [len(own) for own in _columns(self.names, self.levels)]
        ends = np.cumsum([0, *sizes])
        parts, widths, volumes = [], [], []
        for first, last in pairwise(ends):
            variance, direction = np.linalg.eigh(covariance[first:last, first:last])
            there = variance > _ABSENT * max(float(variance.max(initial=0.0)), 1e-300)
            parts.append(direction[:, there] / np.sqrt(variance[there]))
            widths.append(int(there.sum()))
            volumes.append(float(np.log(variance[there]).sum()))
        start = np.cumsum([0, *widths]).astype(np.int64)
        whitening = np.zeros((len(covariance), start[-1]))
        for k, part in enumerate(parts):
            whitening[ends[k] : ends[k + 1], start[k] : start[k + 1]] = part
        matrix = whitening.T @ covariance @ whitening
        for a, b in pairwise(start):
            matrix[a:b, a:b] = np.eye(b - a)
        labels = np.repeat([name in self.levels for name in self.names], widths)
        return Blocks(np.ascontiguousarray((matrix + matrix.T) / 2), start, np.array(volumes), labels)


def indicator_names(names: Sequence[str], levels: Levels) -> tuple[str, ...]:
    """The names of the columns of numbers and indicators: `sex=male` is the indicator of a level."""
    return tuple(column for own in _columns(names, levels) for column in own)


def with_indicators(frame: pd.DataFrame, levels: Levels, *, keep_missing: bool = False) -> pd.DataFrame:
    """The table with indicators in place of labels, one for each level but the first.

    A missing label is an error, or, on request, missing in all of its indicators.
    """
    import pandas as pd

    columns: dict[str, Any] = {}
    for position, label in enumerate(frame.columns):
        name, column = str(label), frame.iloc[:, position]
        if name not in levels:
            if getattr(column.dtype, "kind", "O") not in "iufb":
                raise DataError(f"Column {name} is {column.dtype}, not numeric, and not among the labels.")
            columns[name] = column.to_numpy(dtype=float, na_value=np.nan)
            continue
        own = levels[name]
        codes = pd.Index(list(own)).get_indexer(pd.Index(column))
        absent = column.isna().to_numpy()
        if len(unknown := np.flatnonzero((codes < 0) & ~absent)):
            raise DataError(
                f"Column {name}, row {unknown[0] + 1}: {column.iloc[unknown[0]]!r} is not among its levels."
            )
        if absent.any() and not keep_missing:
            raise DataError(
                f"Column {name}, row {np.argmax(absent) + 1}: the value is missing. {MISSING_ADVICE}"
            )
        for k, column_name in enumerate(_indicators(name, own), start=1):
            columns[column_name] = np.where(absent, np.nan, codes == k)
    return pd.DataFrame(columns, index=frame.index)


def _columns(names: Sequence[str], levels: Levels) -> list[tuple[str, ...]]:
    return [_indicators(name, levels[name]) if name in levels else (name,) for name in names]


def _indicators(name: str, levels: Sequence[Hashable]) -> tuple[str, ...]:
    return tuple(f"{name}={level}" for level in levels[1:])
