"""Draw a graph as SVG: nodes as labelled boxes in layers, edges as curves from top to bottom.

Colour shows the sign of a weight, width its magnitude, and opacity the probability of a connection if there
is one. If the weights are the probabilities, lines have no sign, and widths show the probability of a
connection on the same scale in every picture. An arrowhead means that the direction is known: undirected
edges have none, and neither have edges whose direction has less than the share `SURE` of the connection's
probability. The same graph always gives the same text.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from polydag.arrays import Array
from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.plot.layered_layout import BOX_HEIGHT, Box, Curve, Point, node_label
from polydag.plot.packing import packed
from polydag.plot.svg_style import (
    BORDER,
    BOX,
    FONT,
    FONT_SIZE,
    INK,
    NEGATIVE,
    PLAIN,
    POSITIVE,
    SOFT,
    escaped,
    text_width,
)

_MARGIN = 24
_THINNEST, _THICKEST = 1.2, 5.0
_FAINTEST = 0.25
SURE = 0.75  # the share of a connection's probability from which on its direction is drawn
_SAMPLES = (0.5, 1.0)  # probabilities in the legend
_STEEPEST = 0.5


class _Scale(NamedTuple):
    """What line widths show: the magnitude drawn thickest (0 if all are equal), and if it is a weight."""

    largest: float
    weights: bool
    chance: Array | None

    def width(self, size: float) -> float:
        return _THINNEST + (_THICKEST - _THINNEST) * (size / self.largest if self.largest else 0.15)


def svg(graph: Graph, probabilities: ArrayLike | None = None) -> str:
    """Draw a graph as SVG.

    Parameters
    ----------
    graph : Graph
        A DAG or CPDAG. Other graphs are drawn with the nodes in their given order from top to bottom.
    probabilities : array of shape (d, d), optional
        The probability of each edge; less probable connections are drawn fainter, and without an arrowhead
        where the direction is not sure. If they are also the weights of the graph, as in posterior graphs,
        line widths show the connection's probability, on the same scale in every picture.

    Examples
    --------
    >>> svg(Graph.from_edges(["rain", "wet"], [("rain", "wet", 0.8)]))[:28]
    '<svg xmlns="http://www.w3.or'
    """
    chance = None if probabilities is None else np.asarray(probabilities, dtype=float)
    if chance is not None and (
        chance.shape != graph.adjacency.shape or not ((chance >= 0) & (chance <= 1)).all()
    ):
        raise UsageError(f"Probabilities must be a {graph.adjacency.shape} array of numbers from 0 to 1.")
    boxes, curves = packed(graph)
    scale = _scale(graph, chance)
    lines = [_edge(graph, curve, scale) for curve in curves]
    lines += [_node(name, box) for name, box in zip(graph.names, boxes, strict=True)]
    legend = _legend(graph, scale)
    left = min((x for curve in curves for x, _ in curve.points), default=0.0)
    right = max((x for curve in curves for x, _ in curve.points), default=0.0)
    left = min([left, *(box.x - box.width / 2 for box in boxes)]) - _MARGIN
    right = max([right, *(box.x + box.width / 2 for box in boxes)]) + _MARGIN
    bottom = max((box.y + BOX_HEIGHT / 2 for box in boxes), default=0.0) + _MARGIN
    width = max(right - left, legend[1] + 2 * _MARGIN)
    left -= (width - (right - left)) / 2
    if legend[1]:
        lines.append(f'<g transform="translate({left + _MARGIN:.1f} {bottom + 8:.1f})">{legend[0]}</g>')
        bottom += 30
    top = -BOX_HEIGHT / 2 - _MARGIN
    size = f"{left:.1f} {top:.1f} {width:.1f} {bottom - top:.1f}"
    edges = "edge" if graph.n_edges == 1 else "edges"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" width="{width:.0f}" '
        f'height="{bottom - top:.0f}" font-family="{FONT}" font-size="{FONT_SIZE}" role="img">\n'
        f"<title>Graph with {graph.n_nodes} nodes and {graph.n_edges} {edges}</title>\n"
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{bottom - top:.1f}" fill="#ffffff"/>'
    )
    return "\n".join([head, *lines, "</svg>"]) + "\n"


def _scale(graph: Graph, chance: Array | None) -> _Scale:
    values = graph.weights[graph.adjacency]
    if chance is not None and np.array_equal(values, chance[graph.adjacency]):
        return _Scale(1.0, False, chance)
    largest = float(np.abs(values).max(initial=0.0))
    weighted = largest > 0 and bool((values != 1.0).any())
    return _Scale(largest if weighted else 0.0, weighted, chance)


def _edge(graph: Graph, curve: Curve, scale: _Scale) -> str:
    A, chance, i, j = graph.adjacency, scale.chance, curve.upper, curve.lower
    if not A[i, j]:
        i, j = j, i  # an edge that points up
    weight = float(graph.weights[i, j])
    directed = not A[j, i] and _sure(chance, i, j)
    joined = 1.0 if chance is None else min(1.0, float(chance[i, j] + chance[j, i]))
    width = scale.width(abs(weight) if scale.weights or chance is None else joined)
    colour = PLAIN if not scale.weights or weight == 0 else POSITIVE if weight > 0 else NEGATIVE
    tooltip = f"{graph.names[i]} {'→' if directed else '—'} {graph.names[j]}"
    tooltip += f", weight {weight:.3g}" if scale.weights else ""
    faint = ""
    if chance is not None:
        tooltip += f", probability {joined:.2f}"
        tooltip += f" (→ {chance[i, j]:.2f}, ← {chance[j, i]:.2f})"
        faint = f' opacity="{_opacity(joined):.2f}"'
    head, points = "", list(curve.points)
    if directed:
        end, out = (len(points) - 1, -1) if j == curve.lower else (0, 1)
        x, y = points[end]
        length, wide = 7 + 1.4 * width, 3.2 + 0.9 * width
        points[end] = (x, y + out * (length - 1.5))
        corners = ((x, y), (x - wide, y + out * length), (x + wide, y + out * length))
        shape = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
        head = f'<polygon points="{shape}" fill="{colour}"/>'
    path = f'<path d="{_smooth(points)}" fill="none" stroke="{colour}" stroke-width="{width:.2f}"/>'
    return f"<g{faint}><title>{escaped(tooltip)}</title>{path}{head}</g>"


def _sure(chance: Array | None, i: int, j: int) -> bool:
    """Whether the direction `i -> j` of a connection is known well enough to be drawn."""
    return chance is None or bool(chance[i, j] >= SURE * min(1.0, chance[i, j] + chance[j, i]))


def _opacity(probability: float) -> float:
    return _FAINTEST + (1 - _FAINTEST) * probability


def _smooth(points: list[Point]) -> str:
    """A smooth curve through the points, vertical at both ends, which does not overshoot in between."""
    slopes = [0.0, *(_lean(*three) for three in zip(points, points[1:], points[2:], strict=False)), 0.0]
    text = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for k, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        third = (y1 - y0) / (2.0 if slopes[k] == slopes[k + 1] == 0 else 2.4)
        first, second = x0 + slopes[k] * third, x1 - slopes[k + 1] * third
        text += f"C{first:.1f} {y0 + third:.1f} {second:.1f} {y1 - third:.1f} {x1:.1f} {y1:.1f}"
    return text


def _lean(before: Point, here: Point, after: Point) -> float:
    """The horizontal change of a curve per unit downwards.

    This is the harmonic mean of the slopes on both sides, or 0 at a turning point. It is limited so that the
    curve does not touch the boxes.
    """
    first = (here[0] - before[0]) / (here[1] - before[1])
    second = (after[0] - here[0]) / (after[1] - here[1])
    if first * second <= 0:
        return 0.0
    lean = 2 * first * second / (first + second)
    return max(-_STEEPEST, min(_STEEPEST, lean))


def _node(name: str, box: Box) -> str:
    label = node_label(name)
    hint = f"<title>{escaped(name)}</title>" if label != name else ""
    return (
        f'<g>{hint}<rect x="{box.x - box.width / 2:.1f}" y="{box.y - BOX_HEIGHT / 2:.1f}" '
        f'width="{box.width:.1f}" height="{BOX_HEIGHT}" rx="8" fill="{BOX}" stroke="{BORDER}"/>'
        f'<text x="{box.x:.1f}" y="{box.y + 4.5:.1f}" text-anchor="middle" fill="{INK}">'
        f"{escaped(label)}</text></g>"
    )


def _legend(graph: Graph, scale: _Scale) -> tuple[str, float]:
    """The legend of colours and widths, and its own width; empty if there is nothing to explain."""
    parts = _weight_keys(graph, scale) if scale.weights else []
    if graph.has_undirected or not all(
        _sure(scale.chance, graph.index(edge.source), graph.index(edge.target)) for edge in graph.edges()
    ):
        parts.append((f'stroke="{PLAIN}" stroke-width="1.8"', "no arrowhead: direction not determined"))
    if scale.chance is not None and graph.n_edges:
        parts += _probability_keys(scale)
    text, x = "", 0.0
    for style, words in parts:
        text += f'<line x1="{x:.1f}" y1="0" x2="{x + 26:.1f}" y2="0" {style}/>'
        text += f'<text x="{x + 32:.1f}" y="4" font-size="11.5" fill="{SOFT}">{escaped(words)}</text>'
        x += 32 + text_width(words) * 0.9 + 18
    return text, x


def _weight_keys(graph: Graph, scale: _Scale) -> list[tuple[str, str]]:
    """Legend entries as line attributes and labels: both signs, the smallest and the largest weight."""
    values, largest = graph.weights[graph.adjacency], scale.largest
    parts = []
    for present, colour, text in (
        ((values > 0).any(), POSITIVE, "positive"),
        ((values < 0).any(), NEGATIVE, "negative"),
    ):
        if present:
            parts.append((f'stroke="{colour}" stroke-width="3"', text))
    smallest = float(np.abs(values).min())
    if f"{smallest:.2g}" != f"{largest:.2g}":
        thin = f'stroke="{PLAIN}" stroke-width="{scale.width(smallest):.2f}"'
        parts.append((thin, f"|weight| {smallest:.2g}"))
    return [*parts, (f'stroke="{PLAIN}" stroke-width="{_THICKEST}"', f"|weight| {largest:.2g}")]


def _probability_keys(scale: _Scale) -> list[tuple[str, str]]:
    if scale.weights or not scale.largest:
        return [(f'stroke="{PLAIN}" stroke-width="3" opacity="{_FAINTEST}"', "fainter: less probable")]
    return [
        (
            f'stroke="{PLAIN}" stroke-width="{scale.width(p):.2f}" opacity="{_opacity(p):.2f}"',
            f"probability {p:g}",
        )
        for p in _SAMPLES
    ]
