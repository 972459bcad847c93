"""All that the report's script needs to know of a run, as plain lists and numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.graph import Graph
from polydag.report import course
from polydag.report.layout import layout_of, matrix_order
from polydag.report.naive import naive_view
from polydag.report.pairs import LEAST, PROBABILITY, Pair, Pairs, pairs_of
from polydag.report.run_files import GRAPH, LOG, NAIVE, RESULT, TRUTH, Row, RunFiles, number
from polydag.report.sites import sites
from polydag.report.trust import sentences

View = dict[str, Any]
_DIGITS = 4
_TASK = re.compile(r"graph-(.+)\.json")
_LAST_LINES = 200


def view_of(files: RunFiles, truth: Graph | None = None, *, by_folder: bool = False) -> View:
    """The view of one run; the truth is that of the run folder unless it is given.

    A run is called by its method and data, or, beside other runs, by its folder.
    """
    study = files.study
    graph = read_graph(files, GRAPH)
    base: View = {
        "name": files.name if by_folder or not study else _title(study),
        "method": str(study.get("method", "")),
        "shape": str(study.get("shape", "")),
        "data": [str(source) for source in study.get("data", [])],
        "seed": study.get("seed"),
        "partial": files.partial,
        "log": files.texts.get(LOG, "").splitlines()[-_LAST_LINES:] if files.partial else [],
        "charts": course.charts(files),
        "traces": course.traces(files),
        "facts": course.facts(files),
        "rows": (files.document(RESULT) or {}).get("n"),
        "measures": (files.document(RESULT) or {}).get("measures", {}),
        "correlations": course.row_correlations(files),
        "clusters": course.row_clusters(files),
        "sites": sites(files),
        "difference": _difference(files.rows("connections.csv")),
    }
    if graph is None:
        return {**base, "nodes": [], "graphs": [], "truth": None, "trust": [], "naive": None}
    found = pairs_of(files, graph)
    truth = truth or read_graph(files, TRUTH)
    return {
        **base,
        "nodes": list(graph.names),
        "graphs": [_graph("" if not base["difference"] else "mean", graph, found), *_tasks(files, graph)],
        "truth": None if truth is None else _truth(truth, graph),
        "naive": naive_view(graph, read_graph(files, NAIVE)),
        "trust": sentences(files, graph, found),
    }


def _title(study: dict[str, Any]) -> str:
    data = [str(source).rstrip("/").rpartition("/")[2] for source in study.get("data", [])]
    more = f" and {len(data) - 1} more" if len(data) > 1 else ""
    return f"{study.get('method', 'run')} on {data[0]}{more}" if data else str(study.get("method", "run"))


def graph_view(graph: Graph, probabilities: Array | None = None) -> View:
    """The view of a graph that belongs to no run, for notebooks."""
    A, W = graph.adjacency, graph.weights
    joined, kind = A | A.T, ""
    if probabilities is not None:
        joined, kind = joined | (probabilities + probabilities.T >= LEAST), PROBABILITY
    pairs = []
    for i, j in np.argwhere(np.triu(joined, 1)).tolist():
        pair = Pair(i, j, int(A[i, j]) + 2 * int(A[j, i]))
        if probabilities is None:
            pair = pair._replace(weight=float(W[i, j] or W[j, i]))
        else:
            there, back = float(probabilities[i, j]), float(probabilities[j, i])
            pair = pair._replace(adjacent=min(1.0, there + back), forward=there, backward=back)
        pairs.append(pair)
    own = _graph("", graph, Pairs(kind, tuple(pairs)))
    return {**waiting(""), "partial": "", "nodes": list(graph.names), "graphs": [own]}


def waiting(name: str) -> View:
    """The view of a run that has nothing to show yet."""
    return {
        **{key: [] for key in ("data", "log", "charts", "traces", "facts", "correlations", "clusters")},
        **{key: [] for key in ("trust", "nodes", "graphs")},
        **dict.fromkeys(("method", "shape"), ""),
        **dict.fromkeys(("seed", "rows", "sites", "difference", "truth", "naive")),
        "name": name,
        "partial": "This run has just begun.",
        "measures": {},
    }


def read_graph(files: RunFiles, name: str) -> Graph | None:
    """A graph file of a run; weights that are not numbers are left out, since the edges are still there."""
    content = files.document(name)
    if content is None and name not in files.texts:
        return None
    try:
        nodes = [str(node) for node in content["nodes"]]
        edges = [
            (str(e["source"]), str(e["target"]), number(e.get("weight", 1.0)) or 0.0, e.get("directed", True))
            for e in content["edges"]
        ]
    except (TypeError, KeyError):
        raise DataError(f"{files.name}/{name} does not hold a graph.") from None
    directed = [edge[:3] for edge in edges if edge[3]]
    return Graph.from_edges(nodes, directed, [edge[:3] for edge in edges if not edge[3]])


def _graph(name: str, graph: Graph, found: Pairs) -> View:
    layout = layout_of(graph, found)
    return {
        "name": name,
        "kind": found.kind,
        "pairs": [_short(pair) for pair in found.pairs],
        "layout": None if layout is None else layout._asdict(),
        "order": matrix_order(graph, layout),
    }


def _short(pair: Pair) -> list[float | None]:
    """The fields in order, without the unknown ones at the end."""
    values = [None if v is None else float(f"{v:.{_DIGITS}g}") for v in pair]
    while values[-1] is None:
        values.pop()
    return [int(v) if v is not None and v == int(v) else v for v in values]


def _tasks(files: RunFiles, mean: Graph) -> list[View]:
    found = []
    for name in files.texts:
        match = _TASK.fullmatch(name)
        graph = read_graph(files, name) if match else None
        if match and graph is not None and graph.names == mean.names:
            found.append(_graph(match[1], graph, pairs_of(files, graph, f"-{match[1]}")))
    return found


def _truth(truth: Graph, graph: Graph) -> list[list[int]]:
    if set(truth.names) != set(graph.names):
        lacking = sorted(set(graph.names) ^ set(truth.names))
        raise DataError(f"The true graph has other variables than the run: {', '.join(lacking[:5])}.")
    A = truth.reorder(graph.names).adjacency
    return [[int(i), int(j), int(A[i, j]) + 2 * int(A[j, i])] for i, j in np.argwhere(np.triu(A | A.T))]


def _difference(rows: list[Row]) -> View | None:
    """Connections by task: how probable each is in every task, in all, and in one only."""
    if not rows:
        return None
    columns = [name for name in rows[0] if name not in ("first", "second", "basis")]
    return {
        "columns": columns,
        "basis": rows[0].get("basis", ""),
        "rows": [
            [row["first"], row["second"], *(float(f"{number(row[c]) or 0.0:.{_DIGITS}g}") for c in columns)]
            for row in rows
            if max(number(row[c]) or 0.0 for c in columns) >= 0.05
        ],
    }
