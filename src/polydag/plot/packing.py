"""Place the connected parts of a graph beside and below each other, so that many parts fill a page."""

from __future__ import annotations

import numpy as np

from polydag.graph import Graph
from polydag.plot.layered_layout import BOX_HEIGHT, Box, Curve, layered_layout

_GAP = 40.0
_ASPECT = 1.6


def packed(graph: Graph) -> tuple[list[Box], list[Curve]]:
    """As `layered_layout`, with each connected part laid out by itself; highest first, lone nodes last."""
    parts = _parts(graph)
    linked = [part for part in parts if _is_linked(graph, part)]
    if len(linked) < 2:
        return layered_layout(graph)
    drawn = [layered_layout(_part(graph, part)) for part in parts]
    outlines = [_outline(boxes, curves) for boxes, curves in drawn]
    order = sorted(range(len(linked)), key=lambda k: (-(outlines[k][3] - outlines[k][1]), k))
    area = sum((r - x + _GAP) * (b - t + _GAP) for x, t, r, b in outlines[: len(linked)])
    widest = max(r - x for x, _, r, _ in outlines[: len(linked)])
    limit = max(widest, float(np.sqrt(area * _ASPECT)))
    placed: list[Box] = [Box(0.0, 0.0, 0.0)] * graph.n_nodes
    lines: list[Curve] = []
    x, y, shelf = 0.0, -BOX_HEIGHT / 2, 0.0  # the first boxes are centred at 0, as in `layered_layout`
    for k in [*order, *range(len(linked), len(parts))]:
        left, top, right, bottom = outlines[k]
        if x and (x + right - left > limit or k == len(linked)):
            x, y, shelf = 0.0, y + shelf + _GAP, 0.0
        dx, dy = x - left, y - top
        boxes, curves = drawn[k]
        for node, box in zip(parts[k], boxes, strict=True):
            placed[node] = Box(box.x + dx, box.y + dy, box.width)
        for curve in curves:
            points = [(a + dx, b + dy) for a, b in curve.points]
            lines.append(Curve(parts[k][curve.upper], parts[k][curve.lower], points))
        x, shelf = x + right - left + _GAP, max(shelf, bottom - top)
    return placed, lines


def _parts(graph: Graph) -> list[list[int]]:
    """The nodes of each connected part; all nodes without edges are one part."""
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(graph.adjacency, directed=False)
    found = [np.flatnonzero(label == k).tolist() for k in range(count)]
    single = [part[0] for part in found if len(part) == 1]
    return [part for part in found if len(part) > 1] + ([single] if single else [])


def _is_linked(graph: Graph, nodes: list[int]) -> bool:
    return bool(graph.adjacency[np.ix_(nodes, nodes)].any())


def _part(graph: Graph, nodes: list[int]) -> Graph:
    inside = np.ix_(nodes, nodes)
    return Graph(graph.adjacency[inside], [graph.names[i] for i in nodes])


def _outline(boxes: list[Box], curves: list[Curve]) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a part."""
    points = [point for curve in curves for point in curve.points]
    x = [box.x - box.width / 2 for box in boxes] + [a for a, _ in points]
    right = [box.x + box.width / 2 for box in boxes] + [a for a, _ in points]
    y = [box.y for box in boxes]
    return min(x), min(y) - BOX_HEIGHT / 2, max(right), max(y) + BOX_HEIGHT / 2
