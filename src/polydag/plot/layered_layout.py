"""Where nodes and edges stand: boxes in layers, curves from top to bottom, ends spread along the boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polydag.graph import Graph
from polydag.plot.horizontal_positions import horizontal_positions
from polydag.plot.layers import assign, downward, layered
from polydag.plot.svg_style import printable, text_width

BOX_HEIGHT = 30
_PAD = 11
_GAP, _BEND = 24, 18
_LONGEST_LABEL = 28
_UNLINKED_WIDTH = 900.0
_PORT, _WIDEST_FOR_PORTS = 11.0, 260.0

Point = tuple[float, float]


class Box(NamedTuple):
    """The box of a node: its centre and its width."""

    x: float
    y: float
    width: float


class Curve(NamedTuple):
    """An edge: its upper and lower nodes, and the points that it passes through, from top to bottom."""

    upper: int
    lower: int
    points: list[Point]


def layered_layout(graph: Graph) -> tuple[list[Box], list[Curve]]:
    """The box of every node and the curve of every edge."""
    joined = graph.adjacency | graph.adjacency.T
    linked = np.flatnonzero(joined.any(axis=1))
    ports = np.maximum(graph.adjacency.sum(axis=0), graph.adjacency.sum(axis=1)).tolist()
    widths = [
        max(text_width(node_label(name)) + 2 * _PAD, 44.0, min(_PORT * (count + 1), _WIDEST_FOR_PORTS))
        for name, count in zip(graph.names, ports, strict=True)
    ]
    boxes = [Box(0.0, 0.0, width) for width in widths]
    curves: list[Curve] = []
    bottom = -1.0
    if len(linked):
        D = downward(graph.adjacency[np.ix_(linked, linked)])
        level = assign(D)
        level = [where - min(level) for where in level]
        drawing = layered(D, level)
        x = horizontal_positions(drawing, [widths[i] for i in linked], _GAP, _BEND)
        y = _heights(drawing.layers, drawing.down, x)
        where_y = {vertex: y[k] for k, layer in enumerate(drawing.layers) for vertex in layer}
        for k, i in enumerate(linked.tolist()):
            boxes[i] = Box(x[k], where_y[k], widths[i])
        for (a, b), route in drawing.routes.items():
            points = [(x[vertex], where_y[vertex]) for vertex in route]
            curves.append(Curve(int(linked[a]), int(linked[b]), points))
        bottom = y[-1]
    _place_unlinked(boxes, [i for i in range(graph.n_nodes) if not joined[i].any()], bottom)
    return boxes, _with_ports(curves, boxes)


def _heights(layers: list[list[int]], down: list[list[int]], x: list[float]) -> list[float]:
    """The vertical position of each layer; there is more space below layers with long horizontal edges."""
    y = [0.0]
    for layer in layers[:-1]:
        reach = max((abs(x[a] - x[b]) for a in layer for b in down[a]), default=0.0)
        y.append(y[-1] + min(BOX_HEIGHT + 44 + 0.12 * reach, 190.0))
    return y


def _place_unlinked(boxes: list[Box], unlinked: list[int], bottom: float) -> None:
    """Place nodes without edges in rows below all others."""
    if not unlinked:
        return
    left = min((box.x - box.width / 2 for i, box in enumerate(boxes) if i not in unlinked), default=0.0)
    right = max((box.x + box.width / 2 for i, box in enumerate(boxes) if i not in unlinked), default=0.0)
    limit = left + max(right - left, _UNLINKED_WIDTH)
    x, y = left, 0.0 if bottom < 0 else bottom + BOX_HEIGHT + 34
    for i in unlinked:
        if x > left and x + boxes[i].width > limit:
            x, y = left, y + BOX_HEIGHT + 14
        boxes[i] = Box(x + boxes[i].width / 2, y, boxes[i].width)
        x += boxes[i].width + 14


def _with_ports(curves: list[Curve], boxes: list[Box]) -> list[Curve]:
    """Spread the ends of edges that share a node along its box, in the order of their directions."""
    points = [list(curve.points) for curve in curves]
    for end, following, side in ((0, 1, 1), (-1, -2, -1)):
        groups: dict[int, list[int]] = {}
        for k, curve in enumerate(curves):
            groups.setdefault(curve.upper if end == 0 else curve.lower, []).append(k)
        for node, edges in groups.items():
            edges.sort(key=lambda k: (curves[k].points[following][0], k))
            box = boxes[node]
            step = min(16.0, (box.width - 16) / max(len(edges) - 1, 1))
            for rank, k in enumerate(edges):
                shift = step * (rank - (len(edges) - 1) / 2)
                points[k][end] = (box.x + shift, box.y + side * BOX_HEIGHT / 2)
    return [curve._replace(points=found) for curve, found in zip(curves, points, strict=True)]


def node_label(name: str) -> str:
    """The name as it is written in a box: printable, and not too long."""
    shown = printable(name)
    return shown if len(shown) <= _LONGEST_LABEL else f"{shown[: _LONGEST_LABEL - 1]}…"
