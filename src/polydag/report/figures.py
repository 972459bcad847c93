"""Figures of a run for papers: its graph, matrix, ROC curves and the course of the fit, as SVG."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import log10

import numpy as np

from polydag import metrics, plot
from polydag.arrays import Array
from polydag.errors import DataError, UsageError
from polydag.graph import Graph
from polydag.plot.heatmaps import Map, heat_maps
from polydag.plot.line_and_box_charts import Curve, CurvePanel, curve_charts
from polydag.report.course import charts, traces
from polydag.report.layout import layout_of, matrix_order, strength
from polydag.report.pairs import Pairs, pairs_of
from polydag.report.run_files import GRAPH, TRUTH, RunFiles
from polydag.report.view import read_graph

KINDS = ("graph", "matrix", "roc", "convergence")
_WIDE = 1000.0  # a range of positive numbers above which an axis is logarithmic
_PANELS = 2  # beside each other, in a column


def figure(
    files: RunFiles,
    kind: str,
    *,
    top: int | None = None,
    nodes: Sequence[str] = (),
    neighbours: str | None = None,
    truth: Graph | None = None,
) -> str:
    """Draw one kind of figure; `top`, `nodes` and `neighbours` choose a part of the graph or matrix."""
    if kind == "convergence":
        return _convergence(files)
    graph = read_graph(files, GRAPH)
    if graph is None:
        raise DataError(f"{files.name} has no graph yet: {files.partial}")
    found = pairs_of(files, graph)
    if kind == "roc":
        return _roc(graph, found, truth or read_graph(files, TRUTH))
    part = chosen_part(graph, found, top=top, nodes=nodes, neighbours=neighbours)
    if kind == "matrix":
        chosen = set(part.names)
        order = matrix_order(graph, layout_of(graph, found))
        part = part.reorder([name for k in order if (name := graph.names[k]) in chosen])
    inside = [graph.index(name) for name in part.names]
    P = directions(graph, found)
    P = None if P is None else P[np.ix_(inside, inside)]
    return _matrix(part, found.kind, P) if kind == "matrix" else plot.svg(part, P)


def directions(graph: Graph, found: Pairs) -> Array | None:
    """The probability or frequency of each direction; None if the run has none."""
    if not found.kind:
        return None
    P = np.zeros((graph.n_nodes, graph.n_nodes))
    for pair in found.pairs:
        half = (pair.adjacent or 0.0) / 2
        P[pair.a, pair.b] = half if pair.forward is None else pair.forward
        P[pair.b, pair.a] = half if pair.backward is None else pair.backward
    return P


def chosen_part(
    graph: Graph,
    found: Pairs,
    *,
    top: int | None = None,
    nodes: Sequence[str] = (),
    neighbours: str | None = None,
) -> Graph:
    """The graph among `nodes`, or around one node, with its `top` strongest edges and the nodes they join."""
    inside: Collection[int] = range(graph.n_nodes)
    if nodes:
        inside = [graph.index(name) for name in nodes]
    if neighbours is not None:
        i = graph.index(neighbours)
        near = {i, *np.flatnonzero(graph.adjacency[i] | graph.adjacency[:, i]).tolist()}
        inside = [k for k in inside if k in near]
    kept = [pair for pair in found.pairs if pair.edge and pair.a in inside and pair.b in inside]
    if top is not None:
        kept = sorted(kept, key=lambda pair: -strength(pair))[:top]
        joined = {k for pair in kept for k in (pair.a, pair.b)}
        inside = [k for k in inside if k in joined]
    A = np.zeros_like(graph.adjacency)
    for pair in kept:
        A[pair.a, pair.b], A[pair.b, pair.a] = bool(pair.edge & 1), bool(pair.edge & 2)
    where = np.ix_(list(inside), list(inside))
    names = [graph.names[k] for k in inside]
    return Graph(A[where], names, np.where(A, graph.weights, 0.0)[where])


def _matrix(graph: Graph, kind: str, P: Array | None) -> str:
    if P is not None:
        return heat_maps(graph.names, [Map(f"{kind} of each edge", P)])
    largest = float(np.abs(graph.weights).max(initial=0.0)) or 1.0
    return heat_maps(graph.names, [Map(f"weight / {largest:.3g}", graph.weights / largest, signed=True)])


def _roc(graph: Graph, found: Pairs, truth: Graph | None) -> str:
    """The ROC and precision-recall curves of directed edges."""
    if truth is None:
        raise UsageError("A ROC curve needs the true graph: add --truth.")
    P = directions(graph, found)
    scores = np.abs(graph.weights) if P is None else P
    own = graph.names
    order = [own.index(name) for name in truth.names] if set(own) == set(truth.names) else None
    if order is None:
        raise DataError("The true graph has other variables than the run.")
    reordered = scores[np.ix_(order, order)]
    roc, pr = metrics.roc_curve(true=truth, scores=reordered), metrics.pr_curve(true=truth, scores=reordered)
    area = metrics.roc_auc(true=truth, scores=reordered)
    limits = (1.0, 1.0)
    return curve_charts(
        [
            CurvePanel(f"ROC, area {area:.2f}", "false positive rate", "true positive rate",
                       [Curve("directed edges", roc.fpr.tolist(), roc.tpr.tolist())], limits),
            CurvePanel("precision and recall", "recall", "precision",
                       [Curve("directed edges", pr.recall.tolist(), pr.precision.tolist())], limits),
        ],
        per_row=_PANELS,
    )  # fmt: skip


def _convergence(files: RunFiles) -> str:
    found = [*charts(files), *traces(files)]
    if not found:
        raise DataError(f"{files.name} has no history to draw: its method does not proceed in steps.")
    panels = []
    for chart in found:
        values = [y for line in chart["lines"] for y in line["y"]]
        logarithmic = min(values) > 0 and max(values) / min(values) > _WIDE
        curves = [
            Curve(line["label"] or "run", line["x"], [log10(y) if logarithmic else y for y in line["y"]])
            for line in chart["lines"]
        ]
        panels.append(CurvePanel(chart["title"], chart["x"], "log10" if logarithmic else "", curves))
    return curve_charts(panels, per_row=_PANELS)
