"""DAGitty: `dag { … }`, or `pdag { … }` if there are undirected edges (`--`).

Weights are stored as `beta`, DAGitty's path coefficient. The format preserves names, their order, exact
weights and undirected edges. Positions, exposures and outcomes are not part of a graph and are dropped on
reading. Names are quoted; DAGitty itself cannot read a name that ends in a backslash.
"""

from __future__ import annotations

from polydag.errors import DataError
from polydag.formats.parsing.dot_syntax import Link, parse, quote
from polydag.formats.parsing.graph_from_edges import ParsedEdge, assemble, number
from polydag.graph import Graph


def from_text(text: str) -> Graph:
    """Parse the graph in a DAGitty text.

    Examples
    --------
    >>> from_text('dag { smoking [exposure]; "lung cancer" <- smoking }').parents("lung cancer")
    ['smoking']
    """
    parsed = parse(text)
    if parsed.kind not in ("dag", "pdag", "digraph"):
        raise DataError(f"line 1: a DAGitty file must start with dag or pdag, not {parsed.kind!r}.")
    return assemble(parsed.nodes, [_edge(link) for link in parsed.links])


def _edge(link: Link) -> ParsedEdge:
    if link.mark not in ("->", "<-", "--"):
        hint = "add the unobserved common cause as a node" if link.mark == "<->" else "PAGs are not supported"
        raise DataError(f"{link.place}: an edge {link.mark} cannot be represented; {hint}.")
    weight = number(link.attributes.get("beta", "1"), link.place)
    source, target = (link.target, link.source) if link.mark == "<-" else (link.source, link.target)
    return ParsedEdge(source, target, weight, link.mark != "--", link.place)


def to_text(graph: Graph) -> str:
    """The graph in DAGitty's language."""
    lines = [quote(name) for name in graph.names]
    for edge in graph.edges():
        mark = "->" if edge.directed else "--"
        lines.append(f"{quote(edge.source)} {mark} {quote(edge.target)} [beta={edge.weight!r}]")
    return "\n".join(["pdag {" if graph.has_undirected else "dag {", *lines, "}", ""])
