"""Random DAGs with random edge weights."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from polydag.arrays import Array, Mask
from polydag.discrete_network import RandomState
from polydag.errors import DataError, UsageError
from polydag.graph import Graph


def dag(
    d: int,
    *,
    expected_edges: float | None = None,
    n_edges: int | None = None,
    kind: str = "er",
    names: Iterable[object] | None = None,
    weight_range: tuple[float, float] = (0.5, 2.0),
    random_state: RandomState = None,
) -> Graph:
    """Draw a random DAG with random edge weights.

    Parameters
    ----------
    d : int
        The number of nodes. Their order in the graph is independent of the causal order.
    expected_edges, n_edges : float, int
        The expected or the exact number of edges; give one of the two.
    kind : {"er", "sf"}
        "er" is Erdős–Rényi: every pair is joined with the same probability or, with `n_edges`, every set of
        pairs is equally likely. "sf" is scale-free: nodes are added one at a time, each with an equal share
        of the edges, and point to earlier nodes with probability proportional to their degree (preferential
        attachment). Hubs are common effects, as in the NOTEARS experiments.
    names : iterable, optional
        The node names; `x0, x1, …` by default.
    weight_range : (low, high)
        Weights are uniform in ±[low, high].
    random_state : int or numpy.random.Generator, optional
        The seed.

    Examples
    --------
    >>> dag(50, expected_edges=100, random_state=0)
    <Graph: DAG with 50 nodes and 114 edges>
    >>> dag(10, n_edges=20, random_state=0).n_edges
    20
    """
    rng = np.random.default_rng(random_state)
    pairs = d * (d - 1) // 2
    wanted = n_edges if expected_edges is None else expected_edges
    if wanted is None or (n_edges is not None and expected_edges is not None):
        raise UsageError("Give either expected_edges or n_edges.")
    if d < 1 or not 0 <= wanted <= pairs:
        raise UsageError(f"A DAG with {d} nodes has between 0 and {pairs} edges; got {wanted}.")
    if kind == "sf":
        ordered = _scale_free(d, _round_at_random(wanted, rng), rng)
    elif kind == "er" and n_edges is None:
        ordered = np.tril(rng.random((d, d)) < wanted / max(pairs, 1), -1)
    elif kind == "er":
        ordered = np.zeros((d, d), dtype=bool)
        rows, columns = np.tril_indices(d, -1)
        chosen = rng.choice(pairs, size=int(wanted), replace=False)
        ordered[rows[chosen], columns[chosen]] = True
    else:
        raise UsageError(f'kind must be "er" or "sf"; got {kind!r}.')
    position = rng.permutation(d)
    return weights(Graph(ordered[np.ix_(position, position)], names), *weight_range, random_state=rng)


def _round_at_random(expected: float, rng: np.random.Generator) -> int:
    """A random whole number with the given mean."""
    return math.floor(expected) + int(rng.random() < expected - math.floor(expected))


def _scale_free(d: int, n_edges: int, rng: np.random.Generator) -> Mask:
    A = np.zeros((d, d), dtype=bool)
    degree = np.ones(d)  # starts at 1, so that nodes without edges can be chosen
    left = n_edges
    for node in range(1, d):
        count = min(node, math.ceil(left / (d - node)))
        targets = rng.choice(node, size=count, replace=False, p=degree[:node] / degree[:node].sum())
        A[node, targets] = True
        degree[targets] += 1
        degree[node] += count
        left -= count
    return A


def weights(graph: Graph, low: float = 0.5, high: float = 2.0, *, random_state: RandomState = None) -> Graph:
    """The graph with new random weights, uniform in ±[low, high].

    Examples
    --------
    >>> from polydag import Graph
    >>> graph = weights(Graph.from_edges(["a", "b"], [("a", "b")]), 0.1, 1.0, random_state=0)
    >>> bool(0.1 <= abs(graph.weights[0, 1]) <= 1.0)
    True
    """
    if graph.has_undirected:
        raise DataError("Weights can be drawn for directed edges only; this graph has undirected edges.")
    drawn = np.zeros(graph.adjacency.shape)
    drawn[graph.adjacency] = signed_uniform(low, high, graph.n_edges, np.random.default_rng(random_state))
    return Graph(graph.adjacency, graph.names, drawn)


def signed_uniform(low: float, high: float, size: int | tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draw numbers uniformly from [-high, -low] ∪ [low, high]."""
    if not 0 < low <= high:
        raise UsageError(f"A weight range needs 0 < low <= high; got ({low}, {high}).")
    magnitude = rng.uniform(low, high, size)
    return np.where(rng.random(size) < 0.5, -magnitude, magnitude)
