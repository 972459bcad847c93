"""Where the nodes and edges of a report stand: the layered layout of `polydag.plot`, for the first view."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polydag import orientation
from polydag.graph import Graph
from polydag.plot.packing import packed
from polydag.report.pairs import Pair, Pairs

MOST_NODES = 60  # above, the first view has the strongest edges only
MOST_DRAWN = 1000  # above, there is no drawing at all
_EDGES_AT_FIRST = 80
_LIKELY = 0.5
_DECIMALS = 1


class Layout(NamedTuple):
    """The boxes `[x, y, width]` of nodes, and the bends of edges by the position of their pair."""

    boxes: list[list[float]]
    bends: dict[str, list[float]]
    first: list[int]


def strength(pair: Pair) -> float:
    """What decides which edges are drawn first: the confidence, then the size of the effect."""
    sizes = (pair.standardised, pair.strength, pair.weight)
    size = next((abs(value) for value in sizes if value is not None), 0.0)
    return 10.0 * (pair.adjacent or 0.0) + min(size, 1e6) / (1e6 if pair.adjacent else 1.0)


def shown_first(found: Pairs, n_nodes: int) -> list[int]:
    """The pairs of the first view: edges of the graph and probable connections; of many, the strongest."""
    pairs = found.pairs
    chosen = [
        k
        for k, pair in enumerate(pairs)
        if pair.edge or (found.kind == "probability" and (pair.adjacent or 0.0) >= _LIKELY)
    ]
    if n_nodes > MOST_NODES:
        chosen = sorted(sorted(chosen, key=lambda k: -strength(pairs[k]))[:_EDGES_AT_FIRST])
    return chosen


def layout_of(graph: Graph, found: Pairs) -> Layout | None:
    """The layout of the first view; None for graphs too large to draw."""
    if graph.n_nodes > MOST_DRAWN:
        return None
    first = shown_first(found, graph.n_nodes)
    boxes, curves = packed(_drawn(graph, found, first))
    where = {(pair.a, pair.b): k for k, pair in enumerate(found.pairs)}
    bends = {}
    for curve in curves:
        inner = curve.points[1:-1]
        if inner:
            a, b = sorted((curve.upper, curve.lower))
            points = inner if a == curve.upper else inner[::-1]
            bends[str(where[a, b])] = [round(float(v), _DECIMALS) for point in points for v in point]
    return Layout([[round(float(v), _DECIMALS) for v in box] for box in boxes], bends, first)


def matrix_order(graph: Graph, layout: Layout | None) -> list[int]:
    """Nodes for a matrix: connected parts together, the largest first, each from top to bottom."""
    from scipy.sparse.csgraph import connected_components

    _, part = connected_components(graph.adjacency, directed=False)
    size = np.bincount(part) if len(part) else part
    place = [(box[1], box[0]) for box in layout.boxes] if layout else [(0.0, k) for k in range(graph.n_nodes)]
    return sorted(range(graph.n_nodes), key=lambda i: (-size[part[i]], part[i], *place[i]))


def _drawn(graph: Graph, found: Pairs, first: list[int]) -> Graph:
    """A DAG of the pairs of the first view: those without a direction follow the order of the others."""
    order = orientation.topological_order(_directed(graph)) or range(graph.n_nodes)
    rank = {node: k for k, node in enumerate(order)}
    A = np.zeros((graph.n_nodes, graph.n_nodes), dtype=bool)
    for k in first:
        pair = found.pairs[k]
        a, b = (pair.a, pair.b) if rank[pair.a] < rank[pair.b] else (pair.b, pair.a)
        A[a, b] = True
    return Graph(A, graph.names)


def _directed(graph: Graph) -> Any:
    extension = orientation.consistent_extension(graph.adjacency) if graph.has_undirected else None
    return graph.adjacency if extension is None else extension
