"""Find columns that no learner can use: constant, duplicated, or linear combinations of others.

Pure functions of a DataFrame or of `GaussianStats`, shared by `polydag check` and the learners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polydag.errors import DataError
from polydag.stats import GaussianStats

if TYPE_CHECKING:
    import pandas as pd

_TINY = 1e-12  # squared differences below this fraction of the variance are rounding errors
_SMALLEST, _LARGEST = 1e-100, 1e100  # standard deviations
_DEPENDENT = 1e-10  # a column is dependent if the others leave at most this fraction of its variance


class Dependence(NamedTuple):
    """A column that is a linear combination of others: `column = constant + Σ coefficient · name`."""

    column: str
    parts: tuple[tuple[str, float], ...]

    def __str__(self) -> str:
        terms = " ".join(f"{'-' if value < 0 else '+'} {abs(value):.4g}·{name}" for name, value in self.parts)
        return f"{self.column} = constant {terms}"


def constant_columns(stats: GaussianStats) -> list[str]:
    """Columns that are constant, up to rounding."""
    spread = np.sqrt(np.maximum(stats.scatter.diagonal(), 0.0) / max(stats.n, 1.0))
    return [
        name for name, flat in zip(stats.names, spread <= 1e-12 * np.abs(stats.mean), strict=True) if flat
    ]


def extreme_columns(stats: GaussianStats) -> list[str]:
    """Columns whose variance or mean is so small or large that products leave the range of numbers."""
    variance = stats.scatter.diagonal() / max(stats.n, 1.0)
    extreme = ((variance > 0) & (variance < _SMALLEST**2)) | (variance > _LARGEST**2)
    extreme |= np.abs(stats.mean) > _LARGEST
    return [name for name, far in zip(stats.names, extreme, strict=True) if far]


def duplicate_columns(stats: GaussianStats) -> list[tuple[str, ...]]:
    """Groups of columns with the same values, up to rounding; constant columns are ignored."""
    constant = set(constant_columns(stats))
    varying = [name for name in stats.names if name not in constant]
    own = stats.select(varying)
    spread = own.scatter.diagonal()
    apart = spread[:, None] + spread[None, :] - 2 * own.scatter
    apart += own.n * (own.mean[:, None] - own.mean[None, :]) ** 2
    same = apart <= _TINY * np.maximum(spread[:, None], spread[None, :])
    groups: dict[int, list[str]] = {}
    for j, name in enumerate(varying):
        groups.setdefault(int(np.argmax(same[j] | (np.arange(len(varying)) == j))), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def identical_columns(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """Groups of columns with identical values, cell by cell, numeric or not."""
    import pandas as pd

    groups: dict[bytes, list[str]] = {}
    for name in frame.columns:
        plain = (
            frame[name].astype(object) if frame[name].dtype.kind not in "iufb" else frame[name].astype(float)
        )
        key = pd.util.hash_pandas_object(plain, index=False).to_numpy().tobytes()
        groups.setdefault(key, []).append(str(name))
    return [tuple(group) for group in groups.values() if len(group) > 1]


def dependent_columns(stats: GaussianStats) -> list[Dependence]:
    """Columns that are linear combinations of earlier columns.

    The correlation matrix is factorised column by column (Cholesky). A column is a combination of the earlier
    independent columns if regression on them leaves no variance. Constant columns are ignored. With fewer
    rows than columns there are always dependent columns, so the result is then not informative.
    """
    constant = set(constant_columns(stats))
    own = stats.select([name for name in stats.names if name not in constant])
    correlation = own.correlation
    # The smallest eigenvalue bounds the variance that remains of any column given the others.
    if own.d == 0 or np.linalg.eigvalsh(correlation)[0] > _DEPENDENT:
        return []
    scale = np.sqrt(own.scatter.diagonal())
    basis: list[int] = []
    result = []
    for j, name in enumerate(own.names):
        inside = correlation[np.ix_(basis, basis)]
        coefficients = np.linalg.solve(inside, correlation[basis, j])
        if 1 - correlation[basis, j] @ coefficients > _DEPENDENT:
            basis.append(j)
            continue
        parts = [
            (own.names[i], float(value * scale[j] / scale[i]))
            for i, value in zip(basis, coefficients, strict=True)
            if abs(value) > 1e-5
        ]
        result.append(Dependence(name, tuple(parts)))
    return result


def require_computable(frame: pd.DataFrame, *, source: str = "The data") -> None:
    """Raise `DataError` for infinite values, and for those whose squares leave the range of numbers."""
    extreme = []
    for name in frame.columns:
        values = frame[name].to_numpy()
        there = values[~np.isnan(values)]
        if np.isinf(there).any():
            raise DataError(f"Column {name} has infinite values. Correct them, or mark them as missing.")
        if there.size and (np.abs(there).max() > _LARGEST or 0 < np.ptp(there) < _SMALLEST):
            extreme.append(str(name))
    if extreme:
        raise _extreme(source, extreme)


def _extreme(source: str, columns: list[str]) -> DataError:
    return DataError(
        f"{source}: the values of column {', '.join(columns)} vary by less than {_SMALLEST:g}, or are "
        f"larger than {_LARGEST:g}, which cannot be computed with. Use other units."
    )


def require_usable(stats: GaussianStats, *, independent: bool = False, source: str = "The data") -> None:
    """Raise `DataError` for constant and duplicate columns and, if `independent`, for linear dependence."""
    if extreme := extreme_columns(stats):
        raise _extreme(source, extreme)
    if constant := constant_columns(stats):
        raise DataError(f"{source}: column {', '.join(constant)} is constant. Exclude it.")
    if groups := duplicate_columns(stats):
        named = "; ".join(" = ".join(group) for group in groups)
        raise DataError(f"{source}: several columns hold the same values: {named}. Keep one of each.")
    if not independent:
        return
    if stats.n <= stats.d:
        raise DataError(
            f"{source} has {stats.n:g} rows for {stats.d} columns; this method needs more rows than columns. "
            "Exclude columns, or use a sparse method."
        )
    if found := dependent_columns(stats):
        named = "; ".join(str(item) for item in found[:5])
        raise DataError(f"{source}: some columns are linear combinations of others: {named}. Exclude them.")
