"""Write the files of a run folder from a result."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydag.formats.parsing.csv_text import csv_text
from polydag.runs.folders import new_folder
from polydag.studies.config.fields import flattened
from polydag.studies.config.file import to_table

if TYPE_CHECKING:
    import pandas as pd

    from polydag.graph import Graph
    from polydag.studies.result import EdgeRow, Result

GRAPH, EDGES, HISTORY, CONFIG, LOG = "graph.json", "edges.csv", "history.csv", "config.toml", "run.log"
PICTURE, SUMMARY, PRUNED, PAIRS = "graph.svg", "summary.txt", "pruned.csv", "pairs.csv"
TRUTH, REPORT, RESULT = "truth.json", "report.html", "result.json"


def write(
    result: Result,
    out: str | os.PathLike[str],
    *,
    force: bool = False,
    log: str = "",
    truth: Graph | None = None,
) -> Path:
    """Write a run folder and return its path; a known truth is kept beside the graph."""
    target = Path(out)
    with new_folder(target, force=force) as hidden:
        for name, text in _files(result, log, truth).items():
            (hidden / name).write_text(text, encoding="utf-8", newline="")
    return target


def _files(result: Result, log: str, truth: Graph | None) -> dict[str, str]:
    from polydag import plot, report
    from polydag.formats import graphjson

    files = {
        GRAPH: graphjson.to_text(result.graph),
        EDGES: edges_text(result),
        HISTORY: _frame(result.history),
        CONFIG: config_text(result),
        LOG: log,
        PRUNED: csv_text([("source", "target", "weight", "reason"), *result.pruned]),
        PICTURE: plot.svg(result.graph, result.probabilities),
        SUMMARY: summary_text(result),
        **({} if result.confidence is None else {PAIRS: _frame(result.confidence.pairs())}),
        **{f"{name}.csv": _frame(table) for name, table in result.tables.items()},
        **{f"{name}.json": _json(content) for name, content in result.documents.items()},
        **{f"{name}.svg": picture for name, picture in result.pictures.items()},
        RESULT: _json(result_document(result)),
        **({TRUTH: graphjson.to_text(truth)} if truth is not None else {}),
    }
    return {**files, REPORT: report.page([report.view_of(report.RunFiles("", files))])}


def result_document(result: Result) -> dict[str, Any]:
    """The facts about a result that are not a table: how many rows, whether it converged, notes."""
    return {
        "n": None if result.n is None else float(result.n),
        "converged": result.converged,
        "n_iter": result.n_iter,
        "measures": {name: float(value) for name, value in result.measures.items() if isfinite(value)},
        "notes": list(result.notes),
        "mean_of": result.mean_of,
    }


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _frame(table: pd.DataFrame) -> str:
    text: str = table.to_csv(index=False, lineterminator="\n")
    return text


def edges_text(result: Result) -> str:
    """The edges as CSV, with what is known about each; a last column if some are undirected."""
    columns = ["source", "target", "weight", "standardized", "standard_error", "strength"]
    if result.confidence is not None:
        columns += ["confidence", "adjacent"]
    if result.graph.has_undirected:
        columns.append("directed")
    kind = "" if result.confidence is None else result.confidence.kind
    header = [kind if name == "confidence" else name for name in columns]
    edges = (edge._asdict() | {"directed": str(edge.directed).lower()} for edge in result.edges)
    return csv_text([header, *([edge[name] for name in columns] for edge in edges)])


def config_text(result: Result) -> str:
    """The configuration, with the SHA-256 of all inputs and the software versions."""
    import tomli_w

    study = to_table(result.config)
    tables = {"study": study, "sha256": dict(result.sha256), "versions": dict(result.versions)}
    head = "# To repeat this run: polydag fit --config <this file>. Paths are relative to the working folder."
    return f"{head}\n\n{tomli_w.dumps(tables)}"


def summary_text(result: Result) -> str:
    """A readable summary of the study and its result."""
    from polydag.sources.columns.kinds_notes import kinds_in_words

    graph, config = result.graph, result.config
    lines = [
        f"{config.method} on {', '.join(config.data)} ({config.shape})",
        f"{result.rows}, {graph.n_nodes} variables, {result.size}, seed {config.seed}",
        *((f"{kinds_in_words(result.kinds)}",) if result.kinds else ()),
        "" if result.converged else "NOT CONVERGED: do not rely on this graph.",
        *(f"{name} = {value}" for name, value in flattened(config.settings).items()),
        *(f"{name}: {value:.6g}" for name, value in result.measures.items()),
        "",
        *_edge_lines(result),
    ]
    if result.pruned:
        lines += ["", f"{len(result.pruned)} weaker edges were removed: see {PRUNED}."]
    if result.notes:
        lines += ["", "Notes:", *(f"- {note}" for note in result.notes)]
    return "\n".join(lines) + "\n"


def _edge_lines(result: Result) -> Iterable[str]:
    rows = [(f"{e.source} {'->' if e.directed else '--'} {e.target}", e) for e in result.edges]
    width = max((len(text) for text, _ in rows), default=0)
    for text, edge in rows:
        yield f"{text:<{width}}{_coefficient_words(edge)}{_confidence_words(edge, result)}".rstrip()


def _coefficient_words(edge: EdgeRow) -> str:
    if edge.weight is None:
        return ""
    error = "" if edge.standard_error is None else f" ± {edge.standard_error:.2g}"
    scaled = "" if edge.standardized is None else f"  standardised {edge.standardized:.2f}"
    return f"  {edge.weight:8.4f}{error}{scaled}"


def _confidence_words(edge: EdgeRow, result: Result) -> str:
    if edge.confidence is None or result.confidence is None:
        return ""
    connected = f" (connected {edge.adjacent:.2f})" if edge.directed else ""
    return f"  {result.confidence.kind} {edge.confidence:.2f}{connected}"
