"""JSON: `{"nodes": [names], "edges": [{"source", "target", "weight", "directed"}]}`.

The format preserves names, their order, exact weights and undirected edges. Other keys are ignored.
"""

from __future__ import annotations

import json

from polydag.errors import DataError
from polydag.formats.parsing.graph_from_edges import ParsedEdge, assemble, number, shortened
from polydag.graph import Graph


def from_text(text: str) -> Graph:
    """Parse the graph in a JSON text; `weight` defaults to 1 and `directed` to true.

    Examples
    --------
    >>> from_text('{"nodes": ["a", "b"], "edges": [{"source": "a", "target": "b"}]}').n_edges
    1
    """
    try:
        content = json.loads(text, parse_int=float)  # whole numbers of any length
    except json.JSONDecodeError as error:
        raise DataError(f"line {error.lineno}: not valid JSON ({error.msg}).") from error
    except RecursionError:
        raise DataError("a graph in JSON has no lists within lists within lists; this file has.") from None
    nodes = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(nodes, list) or not all(isinstance(name, str) for name in nodes):
        raise DataError('a graph in JSON needs "nodes": a list of names.')
    if len(set(nodes)) < len(nodes):
        raise DataError(f'"nodes" lists {next(n for n in nodes if nodes.count(n) > 1)!r} twice.')
    listed = content.get("edges", [])
    if not isinstance(listed, list):
        raise DataError('"edges" must be a list.')
    return assemble(nodes, [_edge(item, f"edge {i + 1}") for i, item in enumerate(listed)], closed=True)


def _edge(item: object, place: str) -> ParsedEdge:
    if not isinstance(item, dict):
        raise DataError(
            f'{place}: an edge must be an object with "source" and "target"; got {shortened(str(item))}.'
        )
    source, target, directed = item.get("source"), item.get("target"), item.get("directed", True)
    if not isinstance(source, str) or not isinstance(target, str):
        raise DataError(f'{place}: an edge needs names as "source" and "target".')
    if not isinstance(directed, bool):
        raise DataError(f'{place}: "directed" must be true or false; got {shortened(str(directed))}.')
    return ParsedEdge(source, target, number(str(item.get("weight", 1.0)), place), directed, place)


def to_text(graph: Graph) -> str:
    """The graph as JSON, with one edge per line."""
    edges = ",\n".join(f"    {json.dumps(edge._asdict(), ensure_ascii=False)}" for edge in graph.edges())
    names = json.dumps(list(graph.names), ensure_ascii=False)
    return f'{{\n  "nodes": {names},\n  "edges": [{edges and chr(10) + edges + chr(10) + "  "}]\n}}\n'
