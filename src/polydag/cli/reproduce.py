"""`polydag reproduce`: the tables and figures of a paper, computed again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polydag.cli.options import Debug, Force, Out, Quiet

if TYPE_CHECKING:
    import pandas as pd

NAME = "reproduce"
PAPERS = {
    "federated": "polydag.reproduce.federated",
    "linked": "polydag.reproduce.linked",
    "multitask": "polydag.reproduce.multitask",
}


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
            help="What the paper leaves open: our choices (ours), or the published values (published).",
        ),
    ] = "ours",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="One value of the preset, NAME=VALUE. Repeatable."),
    ] = None,
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compute a paper's tables and figures again, into CSV files and pictures.

    Example: polydag reproduce linked --table 1 --seeds 3
    """
    import importlib
    import shutil

    from polydag import __version__, checkpoint, runs
    from polydag.cli.compiling import compilation_reported
    from polydag.cli.output import out as console
    from polydag.cli.output import plain, say
    from polydag.cli.progress import displayed_progress
    from polydag.errors import UsageError
    from polydag.studies.settings import parse_settings

    if paper not in PAPERS:
        raise UsageError(f"No paper is called {paper!r}. Known are {', '.join(PAPERS)}.")
    module = importlib.import_module(PAPERS[paper])
    settings = parse_settings(setting or ())
    if settings and not hasattr(module, "SETTINGS"):
        raise UsageError(f"The reproduction of the {paper} paper has nothing to --set.")
    more = {"settings": settings} if settings else {}
    seeds = seeds or getattr(module, "TRIALS", 10)
    if table and getattr(module, "ONLY_FIGURES", False):
        raise UsageError(f"The results of the {paper} paper are figures: use --figure {table[0]}.")
    unknown = [number for number in figure or () if number not in module.FIGURES]
    if unknown:
        raise UsageError(
            f"Figure {unknown[0]} holds no results; those that do: {', '.join(map(str, module.FIGURES))}."
        )
    wanted = sorted({*(table or ()), *(module.FIGURES[number] for number in figure or ())})
    tables = wanted or list(module.TABLES)
    folder = out or Path("runs") / f"reproduce-{paper}"
    aside = runs.partial(folder)
    runs.require_free(folder, force=force)
    if aside.exists() and not resume:
        if not force:
            raise UsageError(
                f"{aside} is left from an interrupted run. Continue it with --resume, or use --force."
            )
        shutil.rmtree(aside)
    mark = {"polydag": __version__, "paper": paper, "preset": f"{preset} {settings}"}
    try:
        with displayed_progress(quiet=quiet), compilation_reported(), checkpoint.saving(aside, mark):
            found: dict[str, pd.DataFrame] = module.run(tables, seeds, preset, **more)
    except BaseException as error:
        if not checkpoint.has_pieces(aside):  # nothing to resume
            shutil.rmtree(aside, ignore_errors=True)
        elif not isinstance(error, UsageError):
            error.add_note(f"What was finished is kept in {aside}: add --out {folder} --resume to continue.")
        raise
    notes: list[str] = module.notes(found) if hasattr(module, "notes") else []
    with runs.new_folder(folder, force=force) as hidden:
        for name, frame in found.items():
            frame.to_csv(hidden / f"{name}.csv", index=False, lineterminator="\n")
            if name.startswith("table"):
                (hidden / f"{name}.txt").write_text(_text(frame), encoding="utf-8")
        for name, drawn in module.pictures(found).items() if hasattr(module, "pictures") else ():
            (hidden / f"{name}.svg").write_text(drawn, encoding="utf-8")
        if notes:
            (hidden / "notes.txt").write_text("".join(f"{note}\n" for note in notes), encoding="utf-8")
    shutil.rmtree(aside, ignore_errors=True)
    for name, frame in found.items():
        if name.startswith("table"):
            say(console(), f"[bold]{name}[/bold], {seeds} data sets for each setting\n{plain(_text(frame))}")
    for note in notes:
        say(console(), f"[yellow]Note:[/yellow] {plain(note)}")
    say(console(), f"[bold]Written to[/bold] {plain(folder)}")


def _text(frame: pd.DataFrame) -> str:
    text: str = frame.to_string(index=False, float_format=lambda value: f"{value:.2f}")
    return f"{text}\n"
