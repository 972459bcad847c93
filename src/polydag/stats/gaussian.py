"""Mean and scatter: all that linear Gaussian learners need to know of the rows.

`GaussianStats` keeps centred sums, so merging never subtracts large numbers (Chan, Golub and LeVeque 1983).
With correlated rows, `cov(rows) = Θ⁻¹` and `Θ = LᵀL`, rows are whitened by `L` on the way in and the mean is
the generalised least-squares one; `mass = 1ᵀΘ1` is what weighs that mean when two parts are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.graph import node_names
from polydag.stats.rows import arrow_columns, difference, is_arrow, numeric_rows, require_finite, row_weights

_BLOCK_ROWS = 4096  # a block of 50 columns stays in the second-level cache while it is centred
_BUFFER_CELLS = 1 << 20  # columns are copied into blocks of 8 MB: in the third-level cache, few products


@dataclass(frozen=True, eq=False)
class GaussianStats:
    """Row count, mean and centred scatter of a table; merged with `+`.

    Attributes
    ----------
    n : float
        The number of rows, or the sum of their weights.
    mean : array of shape (d,)
        The (generalised least-squares) mean.
    scatter : array of shape (d, d)
        `Σ w (x - mean)(x - mean)ᵀ`, of whitened rows where a row factor was given.
    names : tuple of str
        The variables.
    mass : float
        How much the mean weighs when parts are merged: `n`, or `1ᵀΘ1` for whitened rows.
    """

    n: float
    mean: Array
    scatter: Array
    names: tuple[str, ...]
    mass: float

    @classmethod
    def from_data(
        cls,
        data: Any,
        *,
        names: Iterable[object] | None = None,
        weights: ArrayLike | None = None,
        row_factor: Any = None,
    ) -> Self:
        """The statistics of a table.

        Parameters
        ----------
        data : array, DataFrame, or Arrow table or batch
            Numeric, without missing values.
        weights : array of shape (n,), optional
            How often each row counts; not negative.
        row_factor : array or sparse matrix of shape (n, n), optional
            `L` with `Θ = LᵀL`, the inverse of the rows' covariance: statistics are those of `L @ data`.
        """
        if isinstance(data, GaussianStats):
            raise DataError("This is a GaussianStats already.")
        rows, found = numeric_rows(data)
        labels = node_names(found if names is None else names, rows.shape[1])
        if len(rows) == 0:
            raise DataError("The data has no rows.")
        require_finite(rows, labels)
        if row_factor is None and weights is None:
            return cls._of_rows(rows, labels)
        ones = np.sqrt(row_weights(weights, len(rows)))
        n = float(ones @ ones)
        with np.errstate(invalid="ignore", over="ignore"):
            return cls._weighted(rows, labels, ones, n, row_factor)._moderate()

    @classmethod
    def _weighted(cls, rows: Array, labels: tuple[str, ...], ones: Array, n: float, row_factor: Any) -> Self:
        shift = rows.mean(axis=0)  # keeps the whitened sums small; the mean is exact all the same
        centred = (rows - shift) * ones[:, None]
        if row_factor is not None:
            if row_factor.shape != (len(rows), len(rows)):
                raise DataError(f"The row factor is {row_factor.shape}, the data has {len(rows)} rows.")
            centred, ones = row_factor @ centred, row_factor @ ones
        mass = float(ones @ ones)
        if not mass > 0:
            raise DataError("All row weights are zero.")
        offset = ones @ centred / mass
        residual = centred - np.outer(ones, offset)
        return cls(n, shift + offset, residual.T @ residual, labels, mass)

    @classmethod
    def _of_rows(cls, rows: Array, names: tuple[str, ...]) -> Self:
        blocks = (rows[start : start + _BLOCK_ROWS] for start in range(0, len(rows), _BLOCK_ROWS))
        return reduce(add, (cls._of_block(block, names) for block in blocks))._moderate()

    def _moderate(self) -> Self:
        """These statistics, unless squares of the values do not fit into a number."""
        for name, square in zip(self.names, self.scatter.diagonal(), strict=True):
            if not np.isfinite(square):
                raise DataError(
                    f"The values of column {name} are too large to be squared. Check them, or change their "
                    "units."
                )
        return self

    @classmethod
    def _of_columns(cls, columns: Sequence[Array], names: tuple[str, ...], rows_before: int) -> Self:
        """As `_of_rows`, block by block through one buffer, straight from columns; checked on the way."""
        n = len(columns[0])
        height = min(n, max(1024, _BUFFER_CELLS // len(columns)))
        buffer = np.empty((len(columns), height))
        parts = []
        with np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, n, height):
                block = buffer[:, : min(height, n - start)]
                for row, column in zip(block, columns, strict=True):
                    row[:] = column[start : start + height]
                mean = block.mean(axis=1)
                block -= mean[:, None]
                parts.append(cls(block.shape[1], mean, block @ block.T, names, block.shape[1]))
            result = reduce(add, parts)
        # A missing or infinite value shows in the scatter, which is much smaller than the rows.
        if not np.isfinite(result.scatter.diagonal()).all():
            require_finite(np.array(columns).T, names, rows_before)
        return result._moderate()

    @classmethod
    def _of_block(cls, rows: Array, names: tuple[str, ...]) -> Self:
        with np.errstate(invalid="ignore", over="ignore"):
            mean = rows.mean(axis=0)
            centred = rows - mean
            return cls(len(rows), mean, centred.T @ centred, names, len(rows))

    @classmethod
    def from_batches(cls, batches: Iterable[Any]) -> Self:
        """The statistics of a stream of batches, each as in `from_data`; only one is in memory at a time."""
        total: Self | None = None
        done = 0
        for batch in batches:
            if is_arrow(batch) and batch.num_rows and batch.num_columns:
                labels = node_names(batch.column_names, batch.num_columns)
                part = cls._of_columns(arrow_columns(batch), labels, done)
            else:
                rows, found = numeric_rows(batch)
                if len(rows) == 0:
                    continue
                labels = node_names(found, rows.shape[1])
                require_finite(rows, labels, done)
                part = cls._of_rows(rows, labels)
            total = part if total is None else total + part
            done += int(part.n)
        if total is None:
            raise DataError("The data has no rows.")
        return total

    @classmethod
    def from_covariance(
        cls,
        covariance: ArrayLike,
        n: float,
        *,
        mean: ArrayLike | None = None,
        names: Iterable[object] | None = None,
    ) -> Self:
        """Statistics with a given (maximum-likelihood) covariance, as if from n rows."""
        matrix = np.array(covariance, dtype=float)
        labels = node_names(names, len(matrix))
        if matrix.shape != (len(labels), len(labels)) or not np.allclose(matrix, matrix.T):
            raise DataError("A covariance matrix must be square and symmetric.")
        centre = np.zeros(len(labels)) if mean is None else np.array(mean, dtype=float)
        if centre.shape != (len(labels),):
            raise DataError(f"A mean of the shape {centre.shape} does not fit {len(labels)} variables.")
        return cls(float(n), centre, matrix * n, labels, float(n))

    def __add__(self, other: Self) -> Self:
        if self.names != other.names:
            raise DataError(
                f"Cannot merge statistics of different variables: {difference(self.names, other.names)}"
            )
        mass = self.mass + other.mass
        share = other.mass / mass if mass > 0 else 0.5  # means of no weight are not compared
        with np.errstate(invalid="ignore", over="ignore"):
            delta = other.mean - self.mean
            mean = self.mean + delta * share
            scatter = self.scatter + other.scatter + np.outer(delta, delta) * (self.mass * share)
        return type(self)(self.n + other.n, mean, scatter, self.names, mass)

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    @property
    def covariance(self) -> Array:
        """The maximum-likelihood covariance, `scatter / n`."""
        result: Array = self.scatter / self.n
        return result

    @property
    def correlation(self) -> Array:
        """The correlation matrix; a constant column correlates with nothing."""
        scale = np.sqrt(self.scatter.diagonal())
        safe = np.where(scale > 0, scale, 1.0)
        result: Array = self.scatter / np.outer(safe, safe)
        np.fill_diagonal(result, 1.0)
        return result

    def standardized(self) -> Self:
        """The statistics after centring and scaling every column to variance one."""
        return type(self)(self.n, np.zeros(self.d), self.correlation * self.n, self.names, self.mass)

    def rescaled(self, centre: Array, scale: Array) -> Self:
        """The statistics of `(x - centre) / scale`, column by column."""
        scatter = self.scatter / np.outer(scale, scale)
        return type(self)(self.n, (self.mean - centre) / scale, scatter, self.names, self.mass)

    def select(self, names: Sequence[object]) -> Self:
        """The statistics of some of the variables, in the order given."""
        index = {name: i for i, name in enumerate(self.names)}
        if missing := [str(name) for name in names if str(name) not in index]:
            raise DataError(f"No such variable: {', '.join(missing)}.")
        where = [index[str(name)] for name in names]
        labels = tuple(self.names[i] for i in where)
        return type(self)(self.n, self.mean[where], self.scatter[np.ix_(where, where)], labels, self.mass)

    def for_node(self, node: object) -> Self:
        """The statistics that score `node`: these, since nothing was intervened on."""
        return self
