"""Do linked rows depend on each other? A test given the network, before and after, in a plain sentence.

With columns standardised and `K = R Rᵀ/p`, the average of K over the links is the average correlation of
linked rows; the average of K² also sees correlations of either sign. Under independence rows may be permuted:
both sums are Mantel statistics, whose mean and variance over all permutations are known exactly (Mantel
1967), whatever the columns' dependence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.printing import rounded_repr
from polydag.rows.links import Links

Array = NDArray[np.float64]
LEVEL = 0.05
_MOST_ROWS = 5000  # K's fourth moment is estimated from so many rows where there are more


class DependenceTest(NamedTuple):
    """The outcome of the test.

    Attributes
    ----------
    correlation : float
        The average correlation of linked rows over all columns.
    z, z_squares : float
        The standardised averages of correlations and of their squares.
    p_value : float
        Of independence, two-sided for the first, one-sided for the second, corrected for being two.
    """

    correlation: float
    z: float
    z_squares: float
    p_value: float

    def __repr__(self) -> str:
        return rounded_repr(self)

    @property
    def dependent(self) -> bool:
        """Whether independence is rejected at the 5 % level."""
        return self.p_value < LEVEL


class _Sums(NamedTuple):
    """Of a symmetric matrix without its diagonal: the sum, that of squared row sums, that of squares."""

    total: float
    rows: float
    squares: float


def row_dependence(R: Array, links: Links) -> DependenceTest:
    """Test whether linked rows of R (centred columns) are correlated."""
    if links.n_links == 0 or links.n < 4:
        return DependenceTest(0.0, 0.0, 0.0, 1.0)
    U = standardised(R)
    n, p = U.shape
    i, j = links.pairs.T
    degree = np.bincount(np.concatenate([i, j]), minlength=n).astype(float)
    network = _Sums(degree.sum(), float(degree @ degree), degree.sum())
    products = np.concatenate([np.einsum("ij,ij->i", U[i[s]], U[j[s]]) for s in _slices(len(i), p)]) / p
    z = _standardised(2.0 * products.sum(), network, _product_sums(U), n)
    squares = _standardised(2.0 * (products**2).sum(), network, _square_sums(U), n)
    chance = 2.0 * min(math.erfc(abs(z) / math.sqrt(2)), 0.5 * math.erfc(squares / math.sqrt(2)))
    return DependenceTest(float(products.mean()), z, squares, min(1.0, chance))


def standardised(R: Array) -> Array:
    """Centred columns of unit variance."""
    centred = R - R.mean(axis=0)
    scale = np.sqrt(np.mean(centred**2, axis=0))
    result: Array = centred / np.where(scale > 0, scale, 1.0)
    return result


def _slices(count: int, p: int) -> list[slice]:
    step = max(1, 4_000_000 // p)
    return [slice(start, start + step) for start in range(0, count, step)]


def _product_sums(U: Array) -> _Sums:
    """The sums of K off its diagonal, without forming it."""
    p = U.shape[1]
    own = np.einsum("ij,ij->i", U, U) / p
    row_sums = U @ U.sum(axis=0) / p - own
    squares = float(np.sum((U.T @ U / p) ** 2) - own @ own)
    return _Sums(float(row_sums.sum()), float(row_sums @ row_sums), squares)


def _square_sums(U: Array) -> _Sums:
    """The sums of K² (each entry squared) off its diagonal."""
    n, p = U.shape
    own = np.einsum("ij,ij->i", U, U) / p
    row_sums = np.einsum("ij,ij->i", U @ (U.T @ U / p), U) / p - own**2
    few = U if n <= _MOST_ROWS else U[np.random.default_rng(0).choice(n, _MOST_ROWS, replace=False)]
    part = np.einsum("ij,ij->i", few, few) / p
    fourth = -float(np.sum(part**4))
    for s in _slices(len(few), len(few)):
        fourth += float(np.sum((few[s] @ few.T / p) ** 4))
    fourth *= n * (n - 1) / (len(few) * (len(few) - 1))
    return _Sums(float(row_sums.sum()), float(row_sums @ row_sums), fourth)


def _standardised(statistic: float, A: _Sums, K: _Sums, n: int) -> float:
    """A Mantel statistic less its mean over permutations of the rows, over its standard deviation."""
    two, three, four = n * (n - 1), n * (n - 1) * (n - 2), n * (n - 1) * (n - 2) * (n - 3)
    mean = A.total * K.total / two
    second = (
        2.0 * A.squares * K.squares / two
        + 4.0 * (A.rows - A.squares) * (K.rows - K.squares) / three
        + (A.total**2 + 2 * A.squares - 4 * A.rows) * (K.total**2 + 2 * K.squares - 4 * K.rows) / four
    )
    variance = second - mean**2
    # A complete network leaves nothing to permute.
    return (statistic - mean) / math.sqrt(variance) if variance > 1e-9 * max(1.0, mean**2) else 0.0


def column_correlations(R: Array, links: Links) -> Array:
    """Each column's average correlation over the links (in groups, its intraclass correlation)."""
    if links.n_links == 0:
        return np.zeros(R.shape[1])
    U = standardised(R)
    i, j = links.pairs.T
    total = np.zeros(R.shape[1])
    for s in _slices(len(i), R.shape[1]):
        total += np.einsum("ij,ij->j", U[i[s]], U[j[s]])
    result: Array = total / len(i)
    return result


def sentence(test: DependenceTest, n: int, effective_n: float, links: Links, name: str = "") -> str:
    """What the test says, for a person."""
    where = {"groups": f"within {name or 'groups'}", "neighbours": "between neighbours"}.get(
        links.what, "along the links"
    )
    if links.n_links == 0:
        return "There are no links: rows are taken as independent."
    if not test.dependent:
        return (
            f"No dependence of rows {where} was found (average correlation {test.correlation:.2f}, "
            f"p = {test.p_value:.2g}): methods for independent rows will do."
        )
    return (
        f"Rows are correlated {where} (about {test.correlation:.2f}, {_chance(test.p_value)}): for edges, "
        f"{n:,} rows are worth about {_rounded(effective_n):,}."
    )


def _chance(p_value: float) -> str:
    return f"p = {p_value:.1g}" if p_value > 1e-16 else "p < 1e-16"


def _rounded(value: float) -> int:
    """Two or three leading digits; more would be pretence."""
    unit: int = 10 ** max(0, math.floor(math.log10(max(value, 1.0))) - 2)
    return round(value / unit) * unit
