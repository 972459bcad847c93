"""Moments of tables with numbers and labels: each label column becomes a block of indicator columns.

A label column with levels `a, b, c` becomes the indicators of `b` and `c`; a column of numbers stays as it
is. The moments of these columns are moments like any others: they merge with `+`, are summed over parties and
computed from a stream or from decorrelated rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.errors import DataError
from polydag.stats.discrete import levels_of, sorted_levels
from polydag.stats.gaussian import GaussianStats
from polydag.stats.regimes import Regimes
from polydag.stats.rows import MISSING_ADVICE, difference

if TYPE_CHECKING:
    import pandas as pd

Levels = Mapping[str, tuple[Hashable, ...]]
MAX_LEVELS = 64  # of a label in a stream
_ABSENT = 1e-12  # directions of a block with a smaller share of its largest variance do not occur


class Blocks(NamedTuple):
    """Correlations between blocks whose own columns are uncorrelated with variance one.

    `matrix` (k, k) holds them; block `j` has the columns `start[j]` to `start[j + 1]`. `log_volume[j]` is the
    log-determinant of the block's covariance before that, `labels` (k,) says which columns belong to labels.
    """

    matrix: Array
    start: Index
    log_volume: Array
    labels: Mask

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

    @classmethod
    def from_batches(cls, batches: Iterable[Any], labels: Sequence[str]) -> Self:
        """The statistics of a stream of Arrow batches or DataFrames, some of whose columns are labels."""
        total: Self | None = None
        for batch in batches:
            frame = batch.to_pandas() if hasattr(batch, "to_pandas") else batch
            if lost := [name for name in labels if name not in frame.columns]:
                raise DataError(f"There is no column {lost[0]}.")
            if not len(frame):
                continue
            levels = {name: levels_of(frame[name]) for name in labels}
            for name, own in levels.items():
                if len(own) > MAX_LEVELS:
                    raise DataError(f"Column {name} has more than {MAX_LEVELS} different labels. Group them.")
            part = cls.from_data(frame, levels)
            total = part if total is None else reduce(add, with_united_levels([total, part]))
        if total is None:
            raise DataError("The data has no rows.")
        return total

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

    def with_levels(self, levels: Levels) -> Self:
        """The same statistics with other (larger) sets of levels, the first of which may be another.

        An indicator of a new level is 0, that of the level without one is 1 less the others': moments of
        affine functions of the columns.
        """
        if levels == self.levels:
            return self
        place = {name: k for k, name in enumerate(self.moments.names)}
        columns = indicator_names(self.names, levels)
        A, shift, row = np.zeros((len(columns), self.moments.d)), np.zeros(len(columns)), 0
        for name in self.names:
            if name not in levels:
                A[row, place[name]] = 1.0
                row += 1
                continue
            own = self.levels[name]
            if lost := [level for level in own if level not in levels[name]]:
                raise DataError(f"Column {name} has the level {lost[0]!r}, which is not among those given.")
            for level in levels[name][1:]:
                if level == own[0]:
                    shift[row] = 1.0
                    A[row, [place[other] for other in _indicators(name, own)]] = -1.0
                elif level in own:
                    A[row, place[f"{name}={level}"]] = 1.0
                row += 1
        old = self.moments
        moments = GaussianStats(old.n, A @ old.mean + shift, A @ old.scatter @ A.T, columns, old.mass)
        return type(self)(self.names, levels, moments)

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


def with_united_levels(parts: Sequence[Any]) -> list[Any]:
    """Statistics over the levels of all of them; those without labels as they are."""
    if not all(isinstance(part, MixedStats) for part in parts):
        return list(parts)
    first, *others = parts
    united = {
        name: own
        if all(part.levels[name] == own for part in others)
        else sorted_levels({level for part in parts for level in part.levels[name]})
        for name, own in first.levels.items()
    }
    return [part.with_levels(united) for part in parts]


def indicator_names(names: Sequence[str], levels: Levels) -> tuple[str, ...]:
    """The names of the columns of numbers and indicators: `sex=male` is the indicator of a level."""
    return tuple(column for own in _columns(names, levels) for column in own)


def indicators_of(targets: Iterable[str], levels: Levels) -> frozenset[str]:
    """The columns that hold some variables: the indicators of labels, and numbers."""
    return frozenset(column for own in _columns(sorted(targets), levels) for column in own)


def mixed_of(
    moments: GaussianStats | Regimes[GaussianStats],
    targets: Iterable[frozenset[str]],
    names: Sequence[str],
    levels: Levels,
) -> MixedStats | Regimes[MixedStats]:
    """Statistics of numbers and labels from moments of numbers and indicators, per regime if there are any.

    `targets` are the sets of variables that were set by intervention.
    """
    columns = indicator_names(names, levels)
    if isinstance(moments, GaussianStats):
        return MixedStats(tuple(names), levels, moments.select(columns))
    called = {indicators_of(own, levels): own for own in targets}
    return Regimes(
        {called[own]: MixedStats(tuple(names), levels, part.select(columns)) for own, part in moments}
    )


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
