"""Least-squares coefficients of the edges of a graph, with their standard errors.

For a variable j with parents P, `β = S_PP⁻¹ S_Pj`, the residual variance is
`σ² = (S_jj − S_jP β) / (n − |P| − 1)` and the standard errors are the roots of `σ² diag(S_PP⁻¹)`, S being the
scatter about the mean. They hold for the graph as given and do not account for having chosen it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from polydag.arrays import Array, Mask
from polydag.graph import Graph
from polydag.stats import GaussianStats, MixedStats, Regimes
from polydag.stats.mixed import indicator_names


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
    shape = graph.adjacency.shape
    found = Coefficients(*(np.full(shape, np.nan) for _ in Coefficients._fields))
    part = next(iter(stats.parts.values())) if isinstance(stats, Regimes) else stats
    labels: Collection[str] = part.levels if isinstance(part, MixedStats) else ()
    if not isinstance(part, GaussianStats | MixedStats):
        return found
    undirected: Mask = np.any(graph.adjacency & graph.adjacency.T, axis=0)
    for j, name in enumerate(graph.names):
        parents = [graph.names[i] for i in np.flatnonzero(graph.adjacency[:, j])]
        if not parents or undirected[j] or name in labels:
            continue
        own = stats.for_node(name) if isinstance(stats, Regimes) else stats
        family, *of_columns = _regress(_moments(own, [*parents, name]))
        for parent in parents:
            if parent not in labels:
                k = family.index(parent)
                for array, values in zip(found, of_columns, strict=True):
                    array[graph.index(parent), j] = values[k]
    return found


def from_weights(graph: Graph) -> Coefficients:
    """The weights of the directed edges of a graph, as coefficients of unknown precision."""
    directed = graph.adjacency & ~graph.adjacency.T
    unknown = np.full(directed.shape, np.nan)
    return Coefficients(np.where(directed, graph.weights, np.nan), unknown, unknown)


def _moments(stats: GaussianStats | MixedStats, names: list[str]) -> GaussianStats:
    """The moments of some columns, labels by their indicators; the last stays the last."""
    if isinstance(stats, GaussianStats):
        return stats.select(names)
    return stats.moments.select([*indicator_names(names[:-1], stats.levels), names[-1]])


def _regress(stats: GaussianStats) -> tuple[tuple[str, ...], Array, Array, Array]:
    """The last column on the others: their names, coefficients, standardised ones, standard errors."""
    scale = np.sqrt(np.diag(stats.covariance))
    R = stats.correlation
    inverse = np.linalg.pinv(R[:-1, :-1], hermitian=True)
    beta = inverse @ R[:-1, -1]
    residual = max(1.0 - float(beta @ R[:-1, -1]), 0.0)
    freedom = stats.n - len(R)
    errors = np.sqrt(residual / freedom * np.diag(inverse)) if freedom > 0 else np.full(len(beta), np.nan)
    units = scale[-1] / scale[:-1]
    return stats.names, beta * units, beta, errors * units
