"""Graphviz DOT: a `digraph` in which undirected edges have `dir=none`.

Weights are stored in the attribute `effect`, because Graphviz reads `weight` as a non-negative layout hint.
On reading, `weight` is used if there is no `effect`. The format preserves names, their order, exact weights
and undirected edges. Names are quoted, with quotes and backslashes escaped by a backslash.
"""

from __future__ import annotations

from polydag.errors import DataError
from polydag.formats.parsing.dot_syntax import Link, parse, quote
from polydag.formats.parsing.graph_from_edges import ParsedEdge, assemble, number
from polydag.graph import Graph


def from_text(text: str) -> Graph:
    """Parse the graph in a DOT text; the edges of a `graph` are undirected.

    Examples
    --------
    >>> from_text("digraph { rain -> wet [effect=0.5]; wet -> slippery }").weights[0, 1]
    np.float64(0.5)
    """
    parsed = parse(text)
    if parsed.kind not in ("graph", "digraph"):
        raise DataError(f"line 1: a DOT file must start with graph or digraph, not {parsed.kind!r}.")
    return assemble(parsed.nodes, [_edge(link, parsed.kind) for link in parsed.links])


def _edge(link: Link, kind: str) -> ParsedEdge:
    if link.mark != ("->" if kind == "digraph" else "--"):
        raise DataError(f"{link.place}: a {kind} cannot have edges {link.mark}.")
    direction = link.attributes.get("dir", "forward" if kind == "digraph" else "none")
    if direction not in ("forward", "none", "back"):
        raise DataError(f"{link.place}: dir={direction} is neither a directed nor an undirected edge.")
    weight = number(link.attributes.get("effect", link.attributes.get("weight", "1")), link.place)
    source, target = (link.target, link.source) if direction == "back" else (link.source, link.target)
    return ParsedEdge(source, target, weight, direction != "none", link.place)


def to_text(graph: Graph) -> str:
    """The graph in DOT, ready for Graphviz."""
    lines = [f"  {quote(name)};" for name in graph.names]
    for edge in graph.edges():
        direction = "" if edge.directed else ", dir=none"
        lines.append(f"  {quote(edge.source)} -> {quote(edge.target)} [effect={edge.weight!r}{direction}];")
    return "\n".join(["digraph {", *lines, "}", ""])
