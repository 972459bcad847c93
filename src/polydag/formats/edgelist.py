"""Edge-list CSV with the columns source, target, weight, directed.

A row with an empty target and an empty weight declares a node. If the edges alone would not restore all nodes
in order, the file starts with one such row per node. The format preserves names, exact weights and undirected
edges. Other columns are ignored. The columns weight (default 1) and directed (default true) are optional.
"""

from __future__ import annotations

import csv
import io

from polydag.errors import DataError
from polydag.formats.parsing.csv_text import csv_text
from polydag.formats.parsing.graph_from_edges import ParsedEdge, assemble, number, truth
from polydag.graph import Graph

COLUMNS = ("source", "target", "weight", "directed")


def from_text(text: str) -> Graph:
    """Parse the graph in an edge list.

    Examples
    --------
    >>> from_text("source,target\\nrain,wet\\nsun,\\n").names
    ('rain', 'wet', 'sun')
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    nodes: dict[str, None] = {}
    edges: list[ParsedEdge] = []
    try:
        header = next(reader, [])
        for column in COLUMNS[:2]:
            if column not in header:
                raise DataError(f"line 1: an edge list needs a column {column}; the columns are {header}.")
        for row in reader:
            place = f"line {reader.line_num}"
            if not row:
                continue
            if len(row) != len(header):
                raise DataError(f"{place} has {len(row)} cells but the header has {len(header)}.")
            cell = dict(zip(header, row, strict=True))
            weight = cell.get("weight", "")
            nodes.setdefault(cell["source"])
            if cell["target"] or weight:
                nodes.setdefault(cell["target"])
                directed = truth(cell.get("directed") or "true", place)
                value = number(weight or "1", place)
                edges.append(ParsedEdge(cell["source"], cell["target"], value, directed, place))
    except csv.Error as error:
        raise DataError(f"line {reader.line_num}: not valid CSV ({error}).") from error
    return assemble(nodes, edges)


def to_text(graph: Graph) -> str:
    """The graph as an edge list; weights are written so that they can be read back exactly."""
    edges = graph.edges()
    appearing = tuple(dict.fromkeys(end for edge in edges for end in edge[:2]))
    declared = graph.names if appearing != graph.names else ()
    return csv_text(
        [
            COLUMNS,
            *((name, "", "", "") for name in declared),
            *((edge.source, edge.target, repr(edge.weight), str(edge.directed).lower()) for edge in edges),
        ]
    )
