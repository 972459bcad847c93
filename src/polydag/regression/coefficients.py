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
from polydag.stats import GaussianStats, Regimes


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
    """The coefficients of the directed edges whose target has no undirected edge; none for labels.

    The coefficient of a parent depends on the other parents, which an undirected edge leaves open.

    Examples
    --------
    >>> X = np.array([[0.0, 0.1], [1.0, 1.9], [2.0, 4.2], [3.0, 5.8]])
    >>> found = coefficients(Graph.from_edges(["x0", "x1"], [("x0", "x1")]), GaussianStats.from_data(X))
    >>> found.raw[0, 1].round(2), found.standard_errors[0, 1].round(2), found.standardized[0, 1].round(3)
    (np.float64(1.94), np.float64(0.08), np.float64(0.998))
    """
    shape = graph.adjacency.shape
    found = Coefficients(*(np.full(shape, np.nan) for _ in Coefficients._fields))
    part = next(iter(stats.parts.values())) if isinstance(stats, Regimes) else stats
    if not isinstance(part, GaussianStats):
        return found
    undirected: Mask = np.any(graph.adjacency & graph.adjacency.T, axis=0)
    for j, name in enumerate(graph.names):
        parents = np.flatnonzero(graph.adjacency[:, j])
        if len(parents) and not undirected[j]:
            own = stats.for_node(name) if isinstance(stats, Regimes) else stats
            _regress(own, parents, j, found)
    return found


def from_weights(graph: Graph) -> Coefficients:
    """The weights of the directed edges of a graph, as coefficients of unknown precision."""
    directed = graph.adjacency & ~graph.adjacency.T
    unknown = np.full(directed.shape, np.nan)
    return Coefficients(np.where(directed, graph.weights, np.nan), unknown, unknown)


def _regress(stats: GaussianStats, parents: Index, j: int, found: Coefficients) -> None:
    S, n = stats.covariance, stats.n
    scale = np.sqrt(np.diag(S))
    R = S / np.outer(scale, scale)
    inverse = np.linalg.pinv(R[np.ix_(parents, parents)], hermitian=True)
    beta = inverse @ R[parents, j]
    residual = max(1.0 - beta @ R[parents, j], 0.0)
    freedom = n - len(parents) - 1
    errors = np.sqrt(residual / freedom * np.diag(inverse)) if freedom > 0 else np.full(len(parents), np.nan)
    units = scale[j] / scale[parents]
    found.standardized[parents, j] = beta
    found.raw[parents, j] = beta * units
    found.standard_errors[parents, j] = errors * units
