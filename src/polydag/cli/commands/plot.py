"""`polydag plot`: figures of a run for papers."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from polydag.cli.options import Debug, Force, Quiet, column_list

NAME = "plot"
_SMALLEST = 5.0  # points


class Kind(StrEnum):
    """What is drawn."""

    graph = "graph"
    matrix = "matrix"
    roc = "roc"
    convergence = "convergence"


def command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write: .svg, .pdf or .png.")],
    kind: Annotated[Kind, typer.Option("--kind", help="What to draw.")] = Kind.graph,
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Only this many of the strongest edges.")
    ] = None,
    nodes: Annotated[str | None, typer.Option("--nodes", help="Only these variables: a,b,c.")] = None,
    neighbours: Annotated[
        str | None, typer.Option("--neighbours", help="Only this variable and its neighbours.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="The true graph, for roc; that of the run by default.")
    ] = None,
    width: Annotated[
        float,
        typer.Option("--width", min=10, help="Width in millimetres: 88 is a journal column, 180 a page."),
    ] = 88.0,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw a figure of a run, as wide as a journal column.

    PDF and PNG need an extra: pip install 'polydag\\[figures]'.

    Example: polydag plot runs/data-boss-1 --top 40 --out figure1.pdf
    """
    from polydag.cli.graphs import read_graph
    from polydag.cli.terminal.output import note
    from polydag.errors import UsageError
    from polydag.plot.export import points, save
    from polydag.report import read_folder
    from polydag.report.figures import figure

    if out.exists() and not force:
        raise UsageError(f"{out} exists already. Choose another name, or replace it with --force.")
    picture = figure(
        read_folder(run),
        kind,
        top=top,
        nodes=column_list(nodes) or (),
        neighbours=neighbours,
        truth=read_graph(truth) if truth else None,
    )
    save(picture, out, width)
    note(f"Written: {out}", quiet=quiet)
    if (size := points(picture, width)) < _SMALLEST:
        note(
            f"Labels are {size:.1f} points high at {width:g} mm: choose fewer edges with --top, --nodes or "
            "--neighbours, or a larger --width.",
            quiet=quiet,
        )
