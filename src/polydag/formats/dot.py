"""Graphviz DOT: a `digraph`, an undirected edge marked `dir=none`.

Weights stand in the attribute `effect`, because Graphviz reads `weight` as a layout hint that must not be
negative; on reading, `weight` counts where there is no `effect`. Keeps names, their order, weights to the
last bit and undirected edges. Names are quoted, with quotes and backslashes escaped by a backslash.
"""

from __future__ import annotations

from polydag.errors import DataError
from polydag.formats._assemble import ParsedEdge, assemble, number
from polydag.formats._dotlike import Link, parse, quote
from polydag.graph import Graph


def from_text(text: str) -> Graph:
    """The graph in a DOT text; edges of a `graph` are undirected.

    Examples
    --------
    >>> from_text("digraph { rain -> wet [effect=0.5]; wet -> slippery }").weights[0, 1]
    np.float64(0.5)
    """
    parsed = parse(text)
    if parsed.kind not in ("graph", "digraph"):
        raise DataError(f"line 1: a DOT file starts with graph or digraph, not {parsed.kind!r}.")
    return assemble(parsed.nodes, [_edge(link, parsed.kind) for link in parsed.links])


def _edge(link: Link, kind: str) -> ParsedEdge:
    if link.mark != ("->" if kind == "digraph" else "--"):
        raise DataError(f"{link.place}: a {kind} has no edges {link.mark}.")
    way = link.attributes.get("dir", "forward" if kind == "digraph" else "none")
    if way not in ("forward", "none", "back"):
        raise DataError(f"{link.place}: dir={way} is neither a directed nor an undirected edge.")
    weight = number(link.attributes.get("effect", link.attributes.get("weight", "1")), link.place)
    source, target = (link.target, link.source) if way == "back" else (link.source, link.target)
    return ParsedEdge(source, target, weight, way != "none", link.place)


def to_text(graph: Graph) -> str:
    """The graph in DOT, ready for Graphviz."""
    lines = [f"  {quote(name)};" for name in graph.names]
    for edge in graph.edges():
        way = "" if edge.directed else ", dir=none"
        lines.append(f"  {quote(edge.source)} -> {quote(edge.target)} [effect={edge.weight!r}{way}];")
    return "\n".join(["digraph {", *lines, "}", ""])
