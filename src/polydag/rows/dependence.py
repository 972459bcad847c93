"""Do linked rows depend on each other? A permutation test given the network, and the answer in a sentence.

With columns standardised, three sums over the links are compared with what they are when rows are permuted:
the products of linked rows (are they alike on average?), their squares (of either sign?), and each column's
sum squared (in some columns only, or in columns of opposite sign?). Each is standardised over the
permutations and the largest is the test's statistic, so that asking three questions costs nothing. Without
covariates rows are exchangeable under independence, and the test is exact whatever the distribution of the
columns. With covariates the residuals are permuted and made orthogonal to the covariates again (Freedman and
Lane 1983), so that covariates that are the same within groups do not pass for negative dependence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Index
from polydag.printing import rounded_repr
from polydag.rows import _dependence_kernels
from polydag.rows.links import Links

LEVEL = 0.05
N_PERMUTATIONS = 999
_MOST_PRODUCTS = 400_000  # products of linked rows in a permutation; of more links a fixed part is used
_CHUNK = 4_000_000  # entries of permutations held at once


class DependenceTest(NamedTuple):
    """The outcome of the test.

    Attributes
    ----------
    correlation : float
        The average product of linked rows over all columns, of unit variance.
    z, z_squares, z_columns : float
        The standardised sums of products, of their squares, and of the squared sums of single columns.
    p_value : float
        Of independence: at least one over the number of permutations plus one, 0.001.
    """

    correlation: float
    z: float
    z_squares: float
    z_columns: float
    p_value: float

    def __repr__(self) -> str:
        return rounded_repr(self)

    @property
    def dependent(self) -> bool:
        """Whether independence is rejected at the 5 % level."""
        return self.p_value < LEVEL


def row_dependence(
    X: Array,
    links: Links,
    *,
    covariates: Array | None = None,
    n_permutations: int = N_PERMUTATIONS,
    random_state: int = 0,
) -> DependenceTest:
    """Test whether linked rows are correlated.

    Parameters
    ----------
    X : array of shape (n, p)
        The columns.
    links : Links
        Which rows are linked; where the links have weights, products count by these.
    covariates : array of shape (n, q), optional
        The columns on which means depend, besides an intercept (which is always fitted).
    n_permutations : int
        The number of permutations.
    random_state : int
        The seed of the permutations.
    """
    ones = np.ones((len(X), 1))
    design = ones if covariates is None else np.concatenate([ones, covariates], axis=1)
    return design_dependence(X, links, design, n_permutations=n_permutations, random_state=random_state)


def design_dependence(
    X: Array, links: Links, design: Array, *, n_permutations: int = N_PERMUTATIONS, random_state: int = 0
) -> DependenceTest:
    """The same for columns whose means are combinations of those of `design`, an intercept or its image."""
    n, p = X.shape
    if links.n_links == 0 or n < 4 or n - design.shape[1] < 3:
        return DependenceTest(0.0, 0.0, 0.0, 0.0, 1.0)
    Q, _ = np.linalg.qr(design)
    U = standardised(X - Q @ (Q.T @ X), centre=False)
    rng = np.random.default_rng(random_state)
    pairs, weights = _tested_links(links, p, rng)
    exchangeable = design.shape[1] == 1 and np.ptp(design) == 0
    basis = np.ascontiguousarray(Q[:, :0] if exchangeable else Q)
    found = [_statistics(U, basis, np.arange(n)[None, :], pairs, weights)]
    left = n_permutations
    while left > 0:
        count = min(left, max(1, _CHUNK // n))
        orders = rng.permuted(np.broadcast_to(np.arange(n), (count, n)), axis=1)
        found.append(_statistics(U, basis, orders, pairs, weights))
        left -= count
    every = np.concatenate(found)
    spread = every.std(axis=0)
    z = (every - every.mean(axis=0)) / np.where(spread > 1e-12 * np.abs(every).max(axis=0), spread, np.inf)
    largest = np.maximum(np.abs(z[:, 0]), np.maximum(z[:, 1], z[:, 2]))
    p_value = float(np.mean(largest >= largest[0] - 1e-12))
    mean = float(every[0, 0] / np.abs(weights).sum())
    return DependenceTest(mean, float(z[0, 0]), float(z[0, 1]), float(z[0, 2]), p_value)


def _statistics(U: Array, Q: Array, orders: Index, pairs: Index, weights: Array) -> Array:
    found: Array = _dependence_kernels.link_statistics(U, Q, np.ascontiguousarray(orders), pairs, weights)
    return found


def _tested_links(links: Links, p: int, rng: np.random.Generator) -> tuple[Index, Array]:
    """The links that are tested, and their weights; a random part of very many, chosen without the data."""
    most = max(1000, _MOST_PRODUCTS // p)
    pairs = links.pairs
    weights = np.ones(len(pairs)) if links.weights is None else links.weights
    if len(pairs) > most:
        if links.weights is None:
            chosen = np.sort(rng.choice(len(pairs), most, replace=False))
        else:
            chosen = np.sort(np.argsort(-np.abs(weights), kind="stable")[:most])
        pairs, weights = pairs[chosen], weights[chosen]
    return np.ascontiguousarray(pairs), np.ascontiguousarray(weights, dtype=float)


def standardised(X: Array, *, centre: bool = True) -> Array:
    """Columns of unit variance, centred."""
    centred = X - X.mean(axis=0) if centre else X
    scale = np.sqrt(np.mean(centred**2, axis=0))
    result: Array = np.ascontiguousarray(centred / np.where(scale > 0, scale, 1.0))
    return result


def sentence(
    test: DependenceTest, correlation: float, numbers: tuple[int, float, int], links: Links, name: str = ""
) -> str:
    """What the test says, for a person.

    Parameters
    ----------
    correlation : float
        The estimated correlation of linked rows, averaged over the links.
    numbers : tuple
        The number of rows, what they are worth for edges where dependence is ignored, and after
        decorrelation.
    """
    where = {"groups": f"within {name or 'groups'}", "neighbours": "between neighbours"}.get(
        links.what, "along the links"
    )
    if links.n_links == 0:
        return "There are no links: rows are taken as independent."
    if not test.dependent:
        return (
            f"No dependence of rows {where} was found (average correlation {correlation:.2f}, "
            f"p = {test.p_value:.2g}): methods for independent rows are adequate."
        )
    n, ignoring, decorrelated = numbers
    return (
        f"Rows are correlated {where} (about {correlation:.2f}, {_chance(test.p_value)}). Taken as "
        f"independent, "
        f"{n:,} rows would be worth about {_rounded(ignoring):,} for edges; decorrelated, about "
        f"{_rounded(decorrelated):,}."
    )


def _chance(p_value: float) -> str:
    least = 1.0 / (N_PERMUTATIONS + 1)
    return f"p = {p_value:.2g}" if p_value > 1.5 * least else f"p ≤ {least:.3g}"


def _rounded(value: float) -> int:
    """Two or three leading digits; more would be pretence."""
    unit: int = 10 ** max(0, math.floor(math.log10(max(value, 1.0))) - 2)
    return round(value / unit) * unit
