"""`polydag reproduce`: the tables and figures of a paper, computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydag.cli.options import Debug, Force, Out, Quiet
from polydag.cli.reproduction import PAPERS

NAME = "reproduce"


def command(
    paper: Annotated[
        str,
        typer.Argument(
            help="Which paper: federated, linked, multitask.", autocompletion=lambda: list(PAPERS)
        ),
    ],
    table: Annotated[list[int] | None, typer.Option("--table", help="Which table. Repeatable.")] = None,
    figure: Annotated[list[int] | None, typer.Option("--figure", help="Which figure. Repeatable.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", "--trials", min=1, help="Data sets for each setting; 10 or 30 by default."),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            help="Choices that the paper leaves open: ours, or those of the published code (published).",
        ),
    ] = "ours",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a value of the preset: NAME=VALUE. Repeatable."),
    ] = None,
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Recompute a paper's tables and figures, and write CSV files and pictures.

    Example: polydag reproduce linked --table 1 --seeds 3
    """
    from polydag.cli.reproduction import as_text, compute, reproduction, write
    from polydag.cli.resuming import say_where_to_begin
    from polydag.cli.terminal.compiling import compilation_reported
    from polydag.cli.terminal.output import out as console
    from polydag.cli.terminal.output import plain, say
    from polydag.cli.terminal.progress import displayed_progress
    from polydag.studies.config.fields import parse_settings

    asked = reproduction(
        paper, table or [], figure or [], seeds=seeds, preset=preset, settings=parse_settings(setting or ())
    )
    folder = out or Path("runs") / f"reproduce-{paper}"
    if resume:
        say_where_to_begin(folder, quiet=quiet)
    with displayed_progress(quiet=quiet), compilation_reported():
        found = compute(asked, folder, resume=resume, force=force)
    write(found, folder, force=force)
    for name, frame in found.tables.items():
        if name.startswith("table"):
            title = f"[bold]{name}[/bold], {asked.seeds} data sets for each setting"
            say(console(), f"{title}\n{plain(as_text(frame))}")
    for note in found.notes:
        say(console(), f"[yellow]Note:[/yellow] {plain(note)}")
    say(console(), f"[bold]Written to[/bold] {plain(folder)}")
