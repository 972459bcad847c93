"""Least-squares coefficients of the edges of a graph, with their standard errors.

For a variable j with parents P, `β = S_PP⁻¹ S_Pj`, the residual variance is
`σ² = (S_jj − S_jP β) / (n − |P| − 1)` and the standard errors are the roots of `σ² diag(S_PP⁻¹)`, S being the
scatter about the mean. They hold for the graph as given and do not account for having chosen it.

The strength of an edge needs neither a direction nor numbers: it is `√(1 − e^{−2I})`, where I is the
information (in nats) that one end has about the other, given the other parents of the target. Between
numbers this is the absolute partial correlation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polydag import orientation
from polydag.arrays import Array, Index, Mask
from polydag.graph import Graph
from polydag.stats import ByNode, DiscreteCounts, GaussianStats, MixedStats, Regimes
from polydag.stats.cells import CellStats
from polydag.stats.count_tables import MAX_CELLS
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
    strengths : array
        From 0 to 1, of every edge whatever its direction and the kinds of its ends; symmetric.
    """

    raw: Array
    standardized: Array
    standard_errors: Array
    strengths: Array


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
    several = isinstance(stats, Regimes | ByNode)
    part = next(iter(stats.parts.values())) if several else stats
    if isinstance(part, CellStats):
        stats = part = part.mixed
        several = False
    dag = _member(graph.adjacency)
    if isinstance(part, DiscreteCounts):
        _add_strengths_of_labels(found.strengths, dag, stats)
    if not isinstance(part, GaussianStats | MixedStats):
        return found
    columns = _columns(part)
    undirected: Mask = np.any(graph.adjacency & graph.adjacency.T, axis=0)
    moments: _Moments | None = None
    for j, name in enumerate(graph.names):
        parents = np.flatnonzero(dag[:, j])
        if not len(parents):
            continue
        if moments is None or several:
            moments = _Moments.of(stats.for_node(name))
        blocks = [columns[i].where for i in parents]
        numbers = np.array([not columns[i].is_label for i in parents])
        regression = (
            None if columns[j].is_label else moments.regress(np.concatenate(blocks), columns[j].where[0])
        )
        if regression is not None and numbers.all():
            found.strengths[parents, j] = regression.partial
        else:
            found.strengths[parents, j] = moments.strengths(blocks, columns[j].where)
        if regression is not None and not undirected[j]:
            own = np.repeat(numbers, [len(block) for block in blocks])
            found.raw[parents[numbers], j] = regression.raw[own]
            found.standardized[parents[numbers], j] = regression.standardized[own]
            found.standard_errors[parents[numbers], j] = regression.errors[own]
    found.strengths[dag.T] = found.strengths.T[dag.T]
    return found


def _member(adjacency: Mask) -> Mask:
    """A DAG of the class that a graph stands for; its directed edges alone if it stands for none."""
    undirected = adjacency & adjacency.T
    if not undirected.any():
        return adjacency
    member = orientation.consistent_extension(adjacency)
    return adjacency & ~undirected if member is None else member


def _add_strengths_of_labels(strengths: Array, dag: Mask, stats: Any) -> None:
    for j, name in enumerate(stats.names):
        counts = stats.for_node(name)
        parents = np.flatnonzero(dag[:, j])
        if math.prod(int(counts.arities[i]) for i in (j, *parents)) > MAX_CELLS:
            continue
        table = counts.tables([(j, *parents.tolist())])[0]
        for k, i in enumerate(parents):
            strengths[i, j] = strengths[j, i] = _strength(_information(np.moveaxis(table, k + 1, 1)))


def _information(table: Array) -> float:
    """What the first axis of a table of counts tells of the second, given all others, in nats per row."""
    joint = table.reshape(*table.shape[:2], -1)
    expected = joint.sum(axis=0, keepdims=True) * joint.sum(axis=1, keepdims=True)
    given = joint.sum(axis=(0, 1), keepdims=True)
    seen = joint > 0
    ratio = (joint * given)[seen] / expected[seen]
    return float(joint[seen] @ np.log(ratio)) / max(float(joint.sum()), 1.0)


def _strength(information: float) -> float:
    return math.sqrt(max(-math.expm1(-2.0 * information), 0.0))


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

    def regress(self, parents: Index, j: int) -> _Regression:
        """Column j on its parents."""
        among, with_j = self.correlation[np.ix_(parents, parents)], self.correlation[parents, j]
        inverse = _inverse(among)
        beta = inverse @ with_j
        residual = max(1.0 - float(beta @ with_j), 0.0)
        freedom = self.n - len(parents) - 1
        variances = residual * np.diag(inverse)
        errors = np.sqrt(variances / freedom) if freedom > 0 else np.full(len(beta), np.nan)
        units = self.scale[j] / self.scale[parents]
        size = np.sqrt(beta**2 + np.maximum(variances, 0.0))
        partial = np.abs(np.divide(beta, size, out=np.zeros_like(beta), where=size > 0))
        return _Regression(beta * units, beta, errors * units, partial)

    def strengths(self, parents: Sequence[Index], j: Index) -> list[float]:
        """The strength of each parent, of one or several columns, beside the others."""
        found = []
        for k, own in enumerate(parents):
            others = [i for other in (*parents[:k], *parents[k + 1 :]) for i in other]
            sets = ([*others, *own], [*others, *j], others, [*others, *own, *j])
            first, second, given, joint = (self._log_determinant(columns) for columns in sets)
            found.append(_strength((first + second - given - joint) / 2) if np.isfinite(joint) else np.nan)
        return found

    def _log_determinant(self, columns: list[int]) -> float:
        sign, logarithm = np.linalg.slogdet(self.correlation[np.ix_(columns, columns)])
        return float(logarithm) if sign > 0 else -np.inf


class _Regression(NamedTuple):
    """Coefficients, standardised ones, standard errors, and absolute partial correlations."""

    raw: Array
    standardized: Array
    errors: Array
    partial: Array


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
    return Coefficients(np.where(directed, graph.weights, np.nan), unknown, unknown, unknown)
