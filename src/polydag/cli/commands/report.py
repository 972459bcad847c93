"""`polydag report`: the interactive report of one or more runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydag.cli.options import Debug, Force, Quiet

NAME = "report"


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; several are compared with each other.")],
    truth: Annotated[
        Path | None, typer.Option("--truth", help="The true graph: a file in any format, or a run folder.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file to write; report.html in the first run by default."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Serve the report on this machine until Ctrl-C; write no file."),
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Build the interactive report of a run, or of several runs side by side.

    Every run folder has a report.html already; build it again with --truth, or to compare runs. The file
    needs no network. For a run that is in progress or was interrupted, the report shows what is available.

    Example: polydag report runs/data-notears-1 runs/data-ges-1 --out compared.html --open
    """
    from polydag.cli.graphs import read_graph
    from polydag.cli.terminal.output import note
    from polydag.errors import UsageError
    from polydag.formats.parsing.text_files import write_text
    from polydag.report import page, read_folder, view_of

    true = read_graph(truth) if truth else None
    text = page([view_of(read_folder(run), true, by_folder=len(runs) > 1) for run in runs])
    if serve:
        _serve(text, show, quiet)
        return
    own = runs[0] / "report.html"
    file = out or (own if len(runs) == 1 and runs[0].is_dir() else Path("report.html"))
    if file.is_dir():
        raise UsageError(f"{file} is a folder. Name a file, for example {file / 'report.html'}.")
    if file.exists() and file != own and not force:
        raise UsageError(
            f"{file} exists already. Choose another name with --out, or replace it with --force."
        )
    write_text(file, text)
    note(f"Written: {file}", quiet=quiet)
    if show:
        typer.launch(file.resolve().as_uri())


def _serve(text: str, show: bool, quiet: bool) -> None:
    from polydag.cli.terminal.output import note
    from polydag.report.server import serving

    with serving(lambda: text) as server:
        note(f"The report is at {server.url}; stop with Ctrl-C.", quiet=False)
        if show:
            typer.launch(server.url)
        server.wait()
