"""`polydag compare`: how far graphs are from the truth, or from each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polydag.cli.options import Debug, Format, OutputFormat

if TYPE_CHECKING:
    from rich.table import Table

NAME = "compare"

# As people read them: what was found, then how good that is.
LABELS = {
    "true_edges": "edges in the truth",
    "estimated_edges": "edges in the estimate",
    "correct": "correct",
    "reversed": "reversed",
    "undirected": "directed in only one of them",
    "extra": "extra",
    "missing": "missing",
    "shd": "SHD (structural Hamming distance)",
    "shd_cpdag": "SHD of the CPDAGs",
    "adjacency_precision": "adjacency precision",
    "adjacency_recall": "adjacency recall",
    "arrowhead_precision": "arrowhead precision",
    "arrowhead_recall": "arrowhead recall",
    "jaccard": "Jaccard index of the skeletons",
    "parent_aid": "parent adjustment distance",
    "ancestor_aid": "ancestor adjustment distance",
}


def command(
    truth: Annotated[
        Path,
        typer.Argument(help="The truth, or the run to compare with: a graph file, or a run folder."),
    ],
    estimates: Annotated[list[Path], typer.Argument(help="One or more graph files or run folders.")],
    output: OutputFormat = Format.text,
    debug: Debug = False,
) -> None:
    """Compare one or more graphs with the truth, or with another run.

    Nodes are matched by name. An undirected edge between variables that the truth connects counts for
    adjacency, and apart from reversed edges.

    Formats: .json .csv .dot .graphml .bif .dagitty .pcalg.csv .causallearn.csv

    Example: polydag compare sim/truth.json runs/data-notears-1 runs/data-ges-1
    """
    from polydag import metrics
    from polydag.cli.graphs import read_graph
    from polydag.cli.terminal.output import as_json, out

    true = read_graph(truth)
    found = {str(path): metrics.compare(true=true, estimate=read_graph(path)) for path in estimates}
    if output is Format.json:
        as_json(found if len(found) > 1 else next(iter(found.values())))
    else:
        names = found if len(found) > 1 else {"value": found[str(estimates[0])]}
        out().print(comparison_table(names))


def comparison_table(found: Mapping[str, Mapping[str, float]]) -> Table:
    """All metrics, one a line, and one column for each estimate."""
    from polydag.cli.terminal.output import plain, table

    names = [plain(name) for name in found]
    result = table(("compared with the truth", *names), numbers=names)
    for key, label in LABELS.items():
        result.add_row(label, *(_shown(own[key]) for own in found.values()))
    return result


def _shown(value: float) -> str:
    if value != value:
        return "–"
    return str(int(value)) if value == int(value) and not isinstance(value, float) else f"{value:.3f}"
