"""Σ at given parameters, for what a likelihood asks: its log-determinant and whitened columns.

Rows are sorted by connected component. Components of one size form a batch, whose matrices are stacked; where
all of them are equal the stack holds one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.rows.precision import Layout, RowPrecision


class Whitening(Protocol):
    """A row correlation at given parameters."""

    @property
    def batches(self) -> Batches:
        """The rows of the components of each size."""

    @property
    def log_determinant(self) -> float:
        """`log det Σ`; infinite where Σ is not positive definite."""

    def whiten(self, Y: Array) -> Array:
        """`W Y` with `Σ⁻¹ = WᵀW`, rows sorted by component; the rows of the result have no order."""

    def blocks(self) -> list[Array]:
        """Σ as one stack of matrices for each batch."""


@dataclass(frozen=True, eq=False)
class Batches:
    """The rows of the components of each size, numbered as in the layout: arrays of shape (count, size)."""

    rows: tuple[Index, ...]

    @classmethod
    def of(cls, layout: Layout) -> Batches:
        """The batches of a layout, smallest components first."""
        sizes, starts = layout.sizes, layout.starts[:-1]
        return cls(tuple(starts[sizes == m][:, None] + np.arange(m)[None, :] for m in np.unique(sizes)))

    def stacked(self, Y: Array) -> list[Array]:
        """The rows of Y, one array of shape (count, size, columns) for each batch."""
        return [Y[rows] for rows in self.rows]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Σ as stacks of matrices, factored by Cholesky."""

    batches: Batches
    sigmas: list[Array]

    @cached_property
    def _factors(self) -> list[Array] | None:
        try:
            return [np.asarray(np.linalg.cholesky(stack), dtype=np.float64) for stack in self.sigmas]
        except np.linalg.LinAlgError:
            return None

    @property
    def log_determinant(self) -> float:
        """`log det Σ`; infinite where Σ is not positive definite."""
        if self._factors is None:
            return np.inf
        return float(
            sum(
                2.0 * np.log(np.diagonal(C, axis1=1, axis2=2)).sum() * (len(rows) // len(C))
                for C, rows in zip(self._factors, self.batches.rows, strict=True)
            )
        )

    def whiten(self, Y: Array) -> Array:
        """`C⁻¹ Y` with `Σ = C Cᵀ`."""
        from scipy.linalg.lapack import dtrtrs

        assert self._factors is not None  # asked for the determinant first
        result = np.empty_like(Y)
        for C, rows in zip(self._factors, self.batches.rows, strict=True):
            m, p = rows.shape[1], Y.shape[1]
            if len(C) == 1:
                side_by_side = Y[rows].transpose(1, 0, 2).reshape(m, -1)
                solved = dtrtrs(C[0].T, side_by_side, trans=1)[0]  # scipy.linalg checks for longer
                result[rows] = solved.reshape(m, len(rows), p).transpose(1, 0, 2)
            else:
                result[rows] = np.linalg.solve(C, Y[rows])
        return result

    def unwhiten(self, Y: Array) -> Array:
        """`C Y`, the inverse of `whiten`."""
        assert self._factors is not None
        result = np.empty_like(Y)
        for C, rows in zip(self._factors, self.batches.rows, strict=True):
            result[rows] = np.matmul(C, Y[rows])
        return result

    def blocks(self) -> list[Array]:
        """Σ."""
        return self.sigmas


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenvectors and eigenvalues of a symmetric matrix, in batches."""

    batches: Batches
    vectors: list[Array]
    values: list[Array]

    @classmethod
    def of(cls, batches: Batches, matrices: list[Array]) -> Spectrum:
        """The spectrum of stacks of symmetric matrices."""
        found = [np.linalg.eigh(stack) for stack in matrices]
        return cls(batches, [each.eigenvectors for each in found], [each.eigenvalues for each in found])


@dataclass(frozen=True, eq=False)
class SpectralWhitening:
    """`Σ = D^-½ U f Uᵀ D^-½`: eigenvalues f; D makes the variances one, or is the identity.

    One decomposition serves all values of f.
    """

    spectrum: Spectrum
    values: list[Array]
    scaled: bool

    @cached_property
    def _variances(self) -> list[Array]:
        if not self.scaled:
            return [np.ones(U.shape[:2]) for U in self.spectrum.vectors]
        pairs = zip(self.spectrum.vectors, self.values, strict=True)
        return [np.einsum("kij,kj->ki", U * U, f) for U, f in pairs]

    @property
    def batches(self) -> Batches:
        """Those of the spectrum."""
        return self.spectrum.batches

    @property
    def log_determinant(self) -> float:
        """`log det Σ`; infinite where Σ is not positive definite."""
        if min(f.min() for f in self.values) <= 0:
            return np.inf
        parts = zip(self.values, self._variances, self.spectrum.batches.rows, strict=True)
        return float(sum((np.log(f).sum() - np.log(d).sum()) * (len(rows) // len(f)) for f, d, rows in parts))

    def whiten(self, Y: Array) -> Array:
        """`f^-½ Uᵀ D^½ Y`."""
        result = np.empty_like(Y)
        parts = zip(
            self.spectrum.vectors, self.values, self._variances, self.spectrum.batches.rows, strict=True
        )
        for U, f, d, rows in parts:
            scaled = np.sqrt(d)[:, :, None] * Y[rows]
            result[rows] = np.matmul(U.transpose(0, 2, 1), scaled) / np.sqrt(f)[:, :, None]
        return result

    def blocks(self) -> list[Array]:
        """Σ."""
        result = []
        for U, f, d in zip(self.spectrum.vectors, self.values, self._variances, strict=True):
            root = 1.0 / np.sqrt(d)
            Sigma = np.matmul(U * f[:, None, :], U.transpose(0, 2, 1))
            result.append(Sigma * root[:, :, None] * root[:, None, :])
        return result


def of_rows(found: Whitening, kept: Mask) -> Blocks:
    """The same for some of the rows: their correlation is a sub-block of Σ.

    `kept` has an entry for each row, sorted by component; rows of the result are numbered without the others.
    """
    place = np.cumsum(kept) - 1
    batches, sigmas = [], []
    for stack, rows in zip(found.blocks(), found.batches.rows, strict=True):
        own = kept[rows]
        counts = own.sum(axis=1)
        first = np.argsort(~own, axis=1, kind="stable")
        for count in np.unique(counts[counts > 0]):
            which = np.flatnonzero(counts == count)
            local = first[which, :count]
            member = np.zeros_like(which) if len(stack) == 1 else which
            batches.append(place[np.take_along_axis(rows[which], local, axis=1)])
            sigmas.append(stack[member[:, None, None], local[:, :, None], local[:, None, :]])
    return Blocks(Batches(tuple(batches)), sigmas)


def as_precision(found: Whitening, layout: Layout) -> RowPrecision:
    """Θ with its factor, from Σ in batches."""
    return RowPrecision.from_correlations(layout, _by_component(found, layout))


def _by_component(found: Whitening, layout: Layout) -> list[Array]:
    batches = Batches.of(layout)
    blocks: list[Array] = [np.empty((0, 0))] * len(layout.sizes)
    component = np.searchsorted(layout.starts, np.arange(layout.n), side="right") - 1
    for stack, rows in zip(found.blocks(), batches.rows, strict=True):
        for k, first in enumerate(rows[:, 0]):
            blocks[component[first]] = stack[k if len(stack) > 1 else 0]
    return blocks


@dataclass(frozen=True, eq=False)
class Estimated:
    """Σ from its inverse, estimated entry by entry."""

    precision: RowPrecision

    @cached_property
    def batches(self) -> Batches:
        """Those of the layout."""
        return Batches.of(self.precision.layout)

    @property
    def log_determinant(self) -> float:
        """`log det Σ`."""
        return -self.precision.log_determinant

    def whiten(self, Y: Array) -> Array:
        """`L Y`."""
        return self.precision.whiten_sorted(np.ascontiguousarray(Y))

    def blocks(self) -> list[Array]:
        """Σ."""
        return self.precision.layout.stacked(self.precision.correlations)
