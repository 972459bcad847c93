"""`polydag demo`: studies of simulated data, compared with the truth and with a naive answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from polydag.cli.options import Debug, Force, Format, Out, OutputFormat, Quiet

if TYPE_CHECKING:
    from polydag.cli.demos import Outcome

NAME = "demo"
SEED = 1


def _names() -> list[str]:
    from polydag.cli.demos import DEMOS

    return list(DEMOS)


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="The demonstrations: table, parties, tasks, linked; all by default.", autocompletion=_names
        ),
    ] = None,
    out: Out = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The random seed of data and study.")] = SEED,
    force: Force = False,
    output: OutputFormat = Format.text,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Learn graphs from simulated data and compare them with the truth and with naive answers.

    The data is drawn from known models; everything else is as in a study of your own.

    Example: polydag demo
    """
    from polydag import runs
    from polydag.cli import demos
    from polydag.cli.terminal.compiling import compilation_reported
    from polydag.cli.terminal.output import as_json
    from polydag.cli.terminal.progress import displayed_progress
    from polydag.computing import progress
    from polydag.errors import NotConvergedError

    chosen = names or list(demos.DEMOS)
    folder = out or runs.next_free("runs", "demo")
    documents: dict[str, Any] = {}
    unfinished = []
    for number, name in enumerate(chosen):
        with displayed_progress(quiet=quiet), compilation_reported():
            progress.report("demo", number, len(chosen), name)
            outcome = demos.run(name, folder, seed, force=force)
        if output is Format.json:
            documents[name] = _document(outcome)
        else:
            _show(outcome)
        if not outcome.result.converged:
            unfinished.append(name)
    if output is Format.json:
        as_json(documents)
    if unfinished:
        raise NotConvergedError(f"Not converged: {', '.join(unfinished)}.")


def _counts(outcome: Outcome) -> dict[str, dict[str, Any]]:
    from polydag import metrics

    return {
        answer.by: metrics.compare(true=outcome.truth, estimate=answer.graph)
        | {"directed": not answer.graph.has_undirected}
        for answer in outcome.answers
    }


def _document(outcome: Outcome) -> dict[str, Any]:
    return {
        "title": outcome.title,
        "story": outcome.story,
        "truth": str(outcome.data / "truth.json"),
        "data": str(outcome.data / outcome.files),
        "run": str(outcome.run),
        "answers": _counts(outcome),
        "notes": list(outcome.result.notes),
    }


def _show(outcome: Outcome) -> None:
    from polydag.cli.terminal.output import out, plain, say, table

    console = out()
    say(console, f"[bold]{plain(outcome.title)}[/bold]")
    say(console, plain(outcome.story))
    rows = table(("answer", "edges", "true pairs found", "right direction", "false edges", "SHD"),
                 numbers=("edges", "true pairs found", "right direction", "false edges", "SHD"))  # fmt: skip
    n_true = outcome.truth.n_edges
    rows.add_row("the truth", str(n_true), str(n_true), str(n_true), "0", "0")
    for by, found in _counts(outcome).items():
        rows.add_row(
            plain(by),
            str(found["estimated_edges"]),
            str(found["true_edges"] - found["missing"]),
            str(found["correct"]) if found["directed"] else "none given",
            str(found["extra"]),
            str(found["shd"]),
        )
    console.print(rows)
    for note in outcome.result.notes:
        say(console, f"[yellow]Note:[/yellow] {plain(note)}")
    say(console, f"[bold]Run folder:[/bold] {plain(outcome.run)}")
    say(console, f"  the report:  {plain(outcome.run / 'report.html')}")
    say(console, f"  the picture: {plain(outcome.run / 'graph.svg')}")
    say(console, f"  the data:    {plain(outcome.data / outcome.files)}, with truth.json")
    say(console, f"  repeat it:   polydag fit --config {plain(outcome.run / 'config.toml')}\n")
