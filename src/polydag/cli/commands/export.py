"""`polydag export`: a graph in another format, or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydag.cli.options import Debug, Force, Quiet

NAME = "export"


def command(
    graph: Annotated[Path, typer.Argument(help="A run folder, or a graph file in any format.")],
    out: Annotated[Path, typer.Argument(help="The file to write; its suffix determines the format.")],
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a graph in another format.

    Formats: .json .csv .dot .graphml .bif .dagitty .pcalg.csv .causallearn.csv, and .svg for a picture.

    Example: polydag export runs/data-notears-1 graph.dot
    """
    from polydag import formats
    from polydag.cli.graphs import read_graph
    from polydag.cli.terminal.output import note
    from polydag.errors import UsageError
    from polydag.formats.parsing.text_files import write_text

    if out.is_dir():
        raise UsageError(f"{out} is a folder. Name a file, for example {out / 'graph.dot'}.")
    if out.exists() and not force:
        raise UsageError(f"{out} exists already. Choose another name, or replace it with --force.")
    found = read_graph(graph)
    if out.suffix.lower() == ".svg":
        from polydag import plot

        write_text(out, plot.svg(found))
    else:
        formats.write(found, out)
    note(f"Written: {out}", quiet=quiet)
