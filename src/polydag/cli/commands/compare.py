"""`polydag compare`: how far a graph is from the truth."""

from __future__ import annotations

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
    "extra": "extra",
    "missing": "missing",
    "shd": "SHD (structural Hamming distance)",
    "shd_cpdag": "SHD of the CPDAGs",
    "precision": "precision",
    "recall": "recall (TPR)",
    "fdr": "FDR",
    "f1": "F1",
    "jaccard": "Jaccard index of the skeletons",
    "parent_aid": "parent adjustment distance",
    "ancestor_aid": "ancestor adjustment distance",
}


def command(
    truth: Annotated[Path, typer.Argument(help="The true graph: a file in any format, or a run folder.")],
    estimate: Annotated[Path, typer.Argument(help="The estimated graph, likewise.")],
    output: OutputFormat = Format.text,
    debug: Debug = False,
) -> None:
    """Compare an estimated graph with the truth.

    Nodes are matched by name. Formats: .json .csv .dot .graphml .bif .dagitty .pcalg.csv .causallearn.csv

    Example: polydag compare sim/truth.json runs/data-notears-1
    """
    from polydag import metrics
    from polydag.cli.graphs import read_graph
    from polydag.cli.output import as_json, out

    found = metrics.compare(true=read_graph(truth), estimate=read_graph(estimate))
    if output is Format.json:
        as_json(found)
    else:
        out().print(comparison_table(found))


def comparison_table(found: dict[str, float]) -> Table:
    """All metrics, one a line."""
    from polydag.cli.output import table

    result = table(("compared with the truth", "value"), numbers=("value",))
    for key, label in LABELS.items():
        result.add_row(label, _shown(found[key]))
    return result


def _shown(value: float) -> str:
    if value != value:
        return "–"
    return str(int(value)) if value == int(value) and not isinstance(value, float) else f"{value:.3f}"
