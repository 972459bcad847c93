"""Least-squares coefficients of the edges of a graph, with their standard errors.

For a variable j with parents P, `β = S_PP⁻¹ S_Pj`, the residual variance is
`σ² = (S_jj − S_jP β) / (n − |P| − 1)` and the standard errors are the roots of `σ² diag(S_PP⁻¹)`, S being the
scatter about the mean. They hold for the graph as given and do not account for having chosen it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.graph import Graph
from polydag.stats import GaussianStats, MixedStats, Regimes
from polydag.stats.mixed import indicator_names

_SINGULAR = 1e10  # the condition number from which columns count as dependent


class Coefficients(NamedTuple):
    """Arrays of shape (d, d), NaN where a graph and its data determine no coefficient.

    Attributes
    ----------
    raw : array
        The effect of one unit of i on j, with the other parents of j held fixed.
    standardized : array
        The same in standard deviations of both.
    standard_errors : array
        Of `raw`.
    """

    raw: Array
    standardized: Array
    standard_errors: Array


def coefficients(graph: Graph, stats: Any) -> Coefficients:
    """The coefficients of the directed edges whose target has no undirected edge, between numbers.

    The coefficient of a parent depends on the other parents, which an undirected edge leaves open.

    Examples
    --------
    >>> X = np.array([[0.0, 0.1], [1.0, 1.9], [2.0, 4.2], [3.0, 5.8]])
    >>> found = coefficients(Graph.from_edges(["x0", "x1"], [("x0", "x1")]), GaussianStats.from_data(X))
    >>> found.raw[0, 1].round(2), found.standard_errors[0, 1].round(2), found.standardized[0, 1].round(3)
    (np.float64(1.94), np.float64(0.08), np.float64(0.998))
    """
    found = Coefficients(*(np.full(graph.adjacency.shape, np.nan) for _ in Coefficients._fields))
    part = next(iter(stats.parts.values())) if isinstance(stats, Regimes) else stats
    if not isinstance(part, GaussianStats | MixedStats):
        return found
    columns = _columns(part)
    undirected: Mask = np.any(graph.adjacency & graph.adjacency.T, axis=0)
    moments: _Moments | None = None
    for j, name in enumerate(graph.names):
        parents = np.flatnonzero(graph.adjacency[:, j])
        if not len(parents) or undirected[j] or columns[j].is_label:
            continue
        if moments is None or isinstance(stats, Regimes):
            moments = _Moments.of(stats.for_node(name))
        own = np.concatenate([columns[i].where for i in parents])
        of_columns = moments.regress(own, columns[j].where[0])
        numbers = np.array([not columns[i].is_label for i in parents for _ in columns[i].where])
        targets = np.array([i for i in parents if not columns[i].is_label], dtype=np.int64)
        for array, values in zip(found, of_columns, strict=True):
            array[targets, j] = values[numbers]
    return found


class _Column(NamedTuple):
    """Where a variable stands among the moments: one place for a number, several for a label."""

    where: Index
    is_label: bool


def _columns(stats: GaussianStats | MixedStats) -> list[_Column]:
    if isinstance(stats, GaussianStats):
        return [_Column(np.array([j]), False) for j in range(stats.d)]
    place = {name: k for k, name in enumerate(stats.moments.names)}
    return [
        _Column(np.array([place[own] for own in indicator_names([name], stats.levels)]), name in stats.levels)
        for name in stats.names
    ]


class _Moments(NamedTuple):
    """Correlations, standard deviations and the number of rows."""

    correlation: Array
    scale: Array
    n: float

    @classmethod
    def of(cls, stats: GaussianStats | MixedStats) -> _Moments:
        moments = stats.moments if isinstance(stats, MixedStats) else stats
        return cls(moments.correlation, np.sqrt(np.diag(moments.covariance)), moments.n)

    def regress(self, parents: Index, j: int) -> tuple[Array, Array, Array]:
        """Column j on its parents: coefficients, standardised ones, standard errors."""
        among, with_j = self.correlation[np.ix_(parents, parents)], self.correlation[parents, j]
        inverse = _inverse(among)
        beta = inverse @ with_j
        residual = max(1.0 - float(beta @ with_j), 0.0)
        freedom = self.n - len(parents) - 1
        errors = np.sqrt(residual / freedom * np.diag(inverse)) if freedom > 0 else np.full(len(beta), np.nan)
        units = self.scale[j] / self.scale[parents]
        return beta * units, beta, errors * units


def _inverse(R: Array) -> Array:
    """The inverse of a correlation matrix; the generalised one where columns depend on each other."""
    if len(R) == 1:
        return R
    usable = np.linalg.cond(R) < _SINGULAR
    return np.asarray(np.linalg.inv(R) if usable else np.linalg.pinv(R, hermitian=True), dtype=float)


def from_weights(graph: Graph) -> Coefficients:
    """The weights of the directed edges of a graph, as coefficients of unknown precision."""
    directed = graph.adjacency & ~graph.adjacency.T
    unknown = np.full(directed.shape, np.nan)
    return Coefficients(np.where(directed, graph.weights, np.nan), unknown, unknown)
