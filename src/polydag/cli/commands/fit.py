"""`polydag fit`: from data to a graph and a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polydag.cli.options import Debug, Force, Format, Out, OutputFormat, Quiet, Watch
from polydag.cli.study_options import given_options, shapes_and_methods, with_study_options

if TYPE_CHECKING:
    from polydag.runs import Recorded

NAME = "fit"
RUNS = Path("runs")
EPILOG = shapes_and_methods()


@with_study_options()
def command(
    *,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="A graph file to compare the result with.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Run this configuration; options given as well take precedence."),
    ] = None,
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    watch: Watch = False,
    force: Force = False,
    output: OutputFormat = Format.text,
    quiet: Quiet = False,
    debug: Debug = False,
    **options: Any,
) -> None:
    """Learn a graph from data and write a run folder.

    Examples:

    polydag fit patients.csv --knowledge known.toml --out runs/patients
    polydag fit pupils.csv --groups school --method boss
    polydag fit --as parties north.csv south.csv west.csv --method posterior

    Repeat a run, bit for bit: polydag fit --config runs/patients/config.toml
    """
    from polydag import metrics, runs
    from polydag.cli.graphs import read_graph
    from polydag.cli.results import document, show
    from polydag.cli.resuming import say_where_to_begin
    from polydag.cli.terminal.compiling import compilation_reported
    from polydag.cli.terminal.output import as_json
    from polydag.cli.terminal.progress import displayed_progress
    from polydag.cli.watching import watched
    from polydag.errors import NotConvergedError

    recorded = _study(config, options.pop("shape", None), given_options(options))
    true = read_graph(truth) if truth else None
    folder = out or _default_out(recorded, resume)
    if resume:
        say_where_to_begin(folder, quiet=quiet)
    with watched(folder, watch) as page:
        with displayed_progress(quiet=quiet, also=page), compilation_reported():
            result = runs.perform(
                recorded.config,
                folder,
                force=force,
                resume=resume,
                expected=recorded.sha256,
                expected_by=str(config),
                truth=true,
            )
        found = metrics.compare(true=true, estimate=result.graph) if true else None
        if output is Format.json:
            as_json(document(result, folder, found))
        else:
            show(result, folder, found)
    if not result.converged:
        raise NotConvergedError(
            f"{result.config.method} did not converge; do not rely on this graph. The run folder is {folder}."
        )


def _study(path: Path | None, shape: str | None, given: dict[str, Any]) -> Recorded:
    """The study of a configuration file, changed by the command line; or of the command line alone."""
    from polydag import runs
    from polydag.studies.config.changes import changed_study, new_study, still_expected

    if path is None:
        return runs.Recorded(new_study(shape, given), {})
    config, sha256 = runs.read_config(path)
    return runs.Recorded(
        changed_study(config, shape, given, str(path)), still_expected(sha256, config, given)
    )


def _default_out(recorded: Recorded, resume: bool) -> Path:
    from polydag import runs
    from polydag.studies.data.addresses import stem

    name = f"{stem(recorded.config.data[0]) or 'data'}-{recorded.config.method}"
    return (runs.last_partial(RUNS, name) if resume else None) or runs.next_free(RUNS, name)
