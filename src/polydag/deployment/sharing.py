"""The graph of a finished study, as the sites get it with the last question, and where a site keeps it."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polydag.errors import DataError
from polydag.formats import graphjson
from polydag.graph import Graph
from polydag.runs.folders import new_folder
from polydag.runs.result_files import EDGES, GRAPH, edges_text
from polydag.studies.result import Result

FOLDER = "result"
_CONVERGED = "converged"
_LARGEST = 1 << 22  # characters of a file: tens of thousands of edges
_HEADER = re.compile("[a-z_ ]*")


def shared(result: Result) -> dict[str, Any]:
    """The graph and its edges as in a run folder, for the sites."""
    texts = {GRAPH: graphjson.to_text(result.graph), EDGES: edges_text(result)}
    if max(map(len, texts.values())) > _LARGEST:
        raise DataError("the graph is too large for the last question")
    return {**texts, _CONVERGED: bool(result.converged)}


def keep(given: Any, kit: Path) -> str:
    """Write what the coordinator has shared into a site's kit; returns what its owner should know.

    Something else than a graph is not written.
    """
    if given is None:
        return "The coordinator could not make a graph of the sums; ask its owner."
    try:
        graph = _graph_of(given)
    except DataError as error:
        return f"What the coordinator sent in place of a graph was refused: {error}."
    with new_folder(kit / FOLDER, force=True) as folder:
        for name in (GRAPH, EDGES):
            (folder / name).write_text(given[name], encoding="utf-8", newline="")
    many = "edge" if graph.n_edges == 1 else "edges"
    found = f"{where(kit)} It has {graph.n_edges} {many} among {graph.n_nodes} variables."
    return found if given[_CONVERGED] else f"{found} The method did not converge: do not rely on it."


def where(kit: Path) -> str:
    """Where the graph is; nothing if there is none."""
    return f"The graph is in {kit / FOLDER}." if (kit / FOLDER / GRAPH).is_file() else ""


def _graph_of(given: Any) -> Graph:
    keys = {GRAPH: str, EDGES: str, _CONVERGED: bool}
    if not isinstance(given, Mapping) or {name: type(own) for name, own in given.items()} != keys:
        raise DataError("there are other things in it than a graph")
    graph = graphjson.from_text(given[GRAPH])
    _require_edges(given[EDGES], graph)
    return graph


def _require_edges(text: str, graph: Graph) -> None:
    """Raise unless a table holds the edges of a graph and numbers, which a spreadsheet may open safely."""
    try:
        header, *rows = csv.reader(io.StringIO(text, newline=""))
    except (ValueError, csv.Error):
        raise DataError("its table of edges cannot be read") from None
    edges = [(edge.source, edge.target) for edge in graph.edges()]
    named = header[:2] == ["source", "target"] and all(map(_HEADER.fullmatch, header))
    if not named or [tuple(row[:2]) for row in rows] != edges or not all(map(_holds_numbers, rows)):
        raise DataError("its table is not that of the graph's edges")


def _holds_numbers(row: Sequence[str]) -> bool:
    return all(cell in ("", "true", "false") or _is_number(cell) for cell in row[2:])


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False
