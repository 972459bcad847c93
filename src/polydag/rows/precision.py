"""Θ, the inverse of the rows' correlation matrix, kept as one block for each connected component."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.rows import _precision_kernels
from polydag.rows.links import Links

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Layout:
    """Where each component's matrices lie: rows sorted by component, squares and free entries end to end."""

    n: int
    order: Index
    starts: Index
    squares: Index
    frees: Index
    rows: Index
    columns: Index

    @classmethod
    def of(cls, links: Links) -> Self:
        """The layout of a network's components."""
        order = np.argsort(links.components, kind="stable")
        sizes = np.bincount(links.components)
        starts = _ends(sizes)
        place = np.empty(links.n, dtype=np.int64)
        place[order] = np.arange(links.n)
        ends = np.sort(place[links.pairs], axis=1)[:, ::-1]  # the larger first: i >= j
        diagonal = np.repeat(np.arange(links.n)[:, None], 2, axis=1)
        free = np.concatenate([diagonal, ends]).astype(np.int64)
        component = np.searchsorted(starts, free[:, 0], side="right") - 1
        free = free[np.lexsort((free[:, 1], free[:, 0], component))]
        component.sort()
        local = free - starts[component][:, None]
        return cls(
            n=links.n,
            order=order,
            starts=starts,
            squares=_ends(sizes**2),
            frees=_ends(np.bincount(component, minlength=len(sizes))),
            rows=np.ascontiguousarray(local[:, 0]),
            columns=np.ascontiguousarray(local[:, 1]),
        )

    @property
    def sizes(self) -> Index:
        """The number of rows of each component."""
        return np.diff(self.starts)

    def stacked(self, blocks: list[Array]) -> list[Array]:
        """The components' matrices, those of one size together, smallest first."""
        sizes = self.sizes
        return [np.array([blocks[c] for c in np.flatnonzero(sizes == m)]) for m in np.unique(sizes)]

    def sorted_blocks(self, matrix: Any) -> list[Array]:
        """The components' blocks of a dense or sparse matrix whose rows are those of the data."""
        rows = [self.order[a:b] for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]
        found = (matrix[np.ix_(where, where)] for where in rows)
        return [np.asarray(own.toarray() if hasattr(own, "toarray") else own, dtype=float) for own in found]

    def identity(self) -> Array:
        """The identity, in blocks."""
        return np.concatenate([np.eye(size).ravel() for size in self.sizes])


def _ends(counts: NDArray[np.integer]) -> Index:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class RowPrecision:
    """`Θ = LᵀL` of all rows, with unit diagonal of its inverse Σ.

    Examples
    --------
    >>> from polydag.rows import Links
    >>> RowPrecision.independent(Links.from_groups(["a", "a", "b"])).effective_n
    3.0
    """

    layout: Layout
    thetas: Array
    factors: Array

    @classmethod
    def independent(cls, links: Links) -> Self:
        """Θ = I."""
        layout = Layout.of(links)
        return cls(layout, layout.identity(), layout.identity())

    @classmethod
    def from_correlations(cls, layout: Layout, blocks: list[Array]) -> Self:
        """Θ from the components' blocks of Σ."""
        thetas, factors = np.empty(layout.squares[-1]), np.empty(layout.squares[-1])
        known: dict[int, tuple[Array, Array]] = {}  # equal groups share their matrix
        for c, block in enumerate(blocks):
            own = slice(layout.squares[c], layout.squares[c + 1])
            if id(block) not in known:
                Theta: Array = np.empty(block.shape)
                _precision_kernels.invert(np.asarray(np.linalg.cholesky(block), dtype=np.float64), Theta)
                known[id(block)] = Theta, np.asarray(np.linalg.cholesky(Theta), dtype=np.float64)
            thetas[own], factors[own] = (each.ravel() for each in known[id(block)])
        return cls(layout, thetas, factors)

    @classmethod
    def mean(cls, several: list[RowPrecision]) -> Self:
        """The average of several, scaled to unit variances; its support is still within the links."""
        layout = several[0].layout
        thetas = np.mean([each.thetas for each in several], axis=0)
        factors = np.empty_like(thetas)
        for theta, factor in zip(_squares(layout, thetas), _squares(layout, factors), strict=True):
            inverse = np.empty_like(theta)
            _precision_kernels.factor(theta, factor)
            _precision_kernels.invert(factor, inverse)
            _precision_kernels.normalise(theta, factor, inverse)
        return cls(layout, thetas, factors)

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.layout.n

    @property
    def log_determinant(self) -> float:
        """`log det Θ`."""
        blocks = _squares(self.layout, self.factors)
        return float(2.0 * sum(np.log(block.diagonal()).sum() for block in blocks))

    @property
    def absolute_sum(self) -> float:
        """`Σ_{i≠j} |θ_ij|`."""
        blocks = _squares(self.layout, self.thetas)
        return float(np.abs(self.thetas).sum() - sum(np.abs(block.diagonal()).sum() for block in blocks))

    @cached_property
    def correlations(self) -> list[Array]:
        """The blocks of Σ, in the order of the components."""
        result = []
        for factor in _squares(self.layout, self.factors):
            inverse = np.empty_like(factor)
            _precision_kernels.invert(np.ascontiguousarray(factor), inverse)
            result.append(inverse)
        return result

    @property
    def effective_n(self) -> float:
        """`(tr Σ)² / tr(Σ²)`: how many independent rows these are worth for edges where Σ is ignored."""
        total = sum(np.trace(block) for block in self.correlations)
        return float(total**2 / sum(np.sum(block * block) for block in self.correlations))

    def correlation(self) -> csr_array:
        """Σ as a sparse matrix, rows in the order of the data."""
        return assembled(self.layout, self.correlations)

    def precision(self) -> csr_array:
        """Θ as a sparse matrix, rows in the order of the data."""
        return assembled(self.layout, _squares(self.layout, self.thetas))

    def factor(self) -> csr_array:
        """`L` with `Θ = LᵀL`: `L @ X` has independent rows."""
        return assembled(self.layout, [block.T for block in _squares(self.layout, self.factors)])

    def whiten(self, X: Array) -> Array:
        """`L X`; row i of the result is what row i adds to those of its component before it."""
        order = self.layout.order
        result = np.empty(X.shape)
        result[order] = self.whiten_sorted(np.ascontiguousarray(X[order], dtype=float))
        return result

    def correlate(self, Y: Array) -> Array:
        """`L⁻¹ Y`, the inverse of `whiten`: gives independent rows the correlation Σ."""
        from scipy.linalg import solve_triangular

        layout = self.layout
        result = np.empty(Y.shape)
        for factor, start, end in zip(
            _squares(layout, self.factors), layout.starts[:-1], layout.starts[1:], strict=True
        ):
            rows = layout.order[start:end]
            result[rows] = solve_triangular(factor.T, Y[rows], lower=False)
        return result

    def whiten_sorted(self, X: Array) -> Array:
        """`L X` of rows that are sorted by component already."""
        Y: Array = _precision_kernels.whiten(X, self.factors, self.layout.starts, self.layout.squares)
        return Y


def _squares(layout: Layout, flat: Array) -> list[Array]:
    """Views of the blocks in a flat array."""
    sizes, squares = layout.sizes, layout.squares
    return [flat[squares[c] : squares[c + 1]].reshape(m, m) for c, m in enumerate(sizes)]


def assembled(layout: Layout, blocks: list[Array]) -> csr_array:
    """The components' blocks as one sparse matrix, rows in the order of the data."""
    from scipy.sparse import coo_array

    i, j, values = [], [], []
    for block, start in zip(blocks, layout.starts[:-1], strict=True):
        a, b = np.nonzero(block)
        i.append(layout.order[start + a])
        j.append(layout.order[start + b])
        values.append(block[a, b])
    index = (np.concatenate(i), np.concatenate(j))
    return coo_array((np.concatenate(values), index), shape=(layout.n, layout.n)).tocsr()
