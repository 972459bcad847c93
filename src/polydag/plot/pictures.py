"""Pictures that show themselves in notebooks and can be saved."""

from __future__ import annotations

import os
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from polydag.graph import Graph
from polydag.plot.export import COLUMN, save
from polydag.plot.graph_drawing import svg

MANY_NODES = 60  # above, only the strongest edges are drawn unless all are asked for
_STRONGEST = 80


class Picture:
    """An SVG picture with a caption; a notebook shows it.

    Attributes
    ----------
    svg : str
        The picture.
    caption : str
        What it shows.
    """

    def __init__(self, svg: str, caption: str) -> None:
        self.svg = svg
        self.caption = caption

    def save(self, path: str | os.PathLike[str], width: float = COLUMN) -> None:
        """Write the picture as .svg, .pdf or .png, `width` millimetres wide."""
        save(self.svg, path, width)

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        scaled = self.svg.replace("<svg ", '<svg style="max-width: 100%; height: auto" ', 1)
        return f"<figure>{scaled}<figcaption>{escape(self.caption)}</figcaption></figure>"

    def __repr__(self) -> str:
        return f"<Picture: {self.caption}>"


def picture(graph: Graph, probabilities: ArrayLike | None = None, top: int | None = None) -> Picture:
    """Draw a graph; of many nodes the strongest edges, unless `top` says how many.

    Examples
    --------
    >>> picture(Graph.from_edges(["rain", "wet"], [("rain", "wet")]))
    <Picture: 2 nodes and 1 edge>
    """
    size = f"{graph.n_nodes} nodes and {graph.n_edges} edge{'' if graph.n_edges == 1 else 's'}"
    most = top if top is not None else _STRONGEST if graph.n_nodes > MANY_NODES else graph.n_edges
    if most >= graph.n_edges:
        return Picture(svg(graph, probabilities), size)
    kept, inside = _strongest(graph, most)
    P = None if probabilities is None else np.asarray(probabilities, dtype=float)[np.ix_(inside, inside)]
    return Picture(svg(kept, P), f"the {most} strongest edges of {size}")


def _strongest(graph: Graph, count: int) -> tuple[Graph, list[int]]:
    """The graph of its strongest edges and the nodes that they join, with the positions of these."""
    strongest = sorted(graph.edges(), key=lambda edge: -abs(edge.weight))[:count]
    ends = {graph.index(name) for edge in strongest for name in (edge.source, edge.target)}
    inside = sorted(ends)
    directed = [edge[:3] for edge in strongest if edge.directed]
    lines = [edge[:3] for edge in strongest if not edge.directed]
    return Graph.from_edges([graph.names[i] for i in inside], directed, lines), inside
