"""`polydag coordinator`: the coordinator of a study whose sites run apart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydag.cli.options import Debug, Force, Format, OutputFormat, Quiet, Watch

NAME = "coordinator"
HELP = "Coordinate a study: collect the sites' files, and ask the next questions."
LOG, OUTPUT = "run.log", "coordinator.log"
Study = Annotated[Path, typer.Argument(help="The study's folder.")]
Without = Annotated[
    str | None,
    typer.Option("--without", help="Sites that will not answer; only where the method allows it."),
]
ExchangeFolder = Annotated[
    Path | None,
    typer.Option(
        "--exchange",
        help="The shared folder through which files are exchanged; not with NVIDIA FLARE.",
    ),
]
Patience = Annotated[
    float | None,
    typer.Option(
        "--patience", min=0, help="Stop after this many minutes without an answer; run again to continue."
    ),
]
Truth = Annotated[Path | None, typer.Option("--truth", help="A graph file to compare the result with.")]
RunFolder = Annotated[Path | None, typer.Option("--out", "-o", help="The run folder; STUDY/run by default.")]


def advance(
    study: Study,
    files: Annotated[
        list[Path] | None, typer.Argument(help="The files that the sites have sent, in any order.")
    ] = None,
    without: Without = None,
    out: RunFolder = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Take the sites' files, and write the next question to each of them, or the run folder.

    Files that are refused are named with the reason, and the exit code is 3; the others count.

    Example: polydag coordinator advance study join-*.polydag
    """
    from polydag import runs
    from polydag.cli.options import column_list
    from polydag.cli.results import show
    from polydag.cli.terminal.output import out as printed
    from polydag.deployment.coordinator import QUESTIONS, CoordinatorEndpoint
    from polydag.deployment.envelopes import read_file
    from polydag.deployment.watching import claimed
    from polydag.errors import DataError
    from polydag.sealed_files import replace_file

    with claimed(study):
        coordinator = CoordinatorEndpoint(study)
        contents = {file: read_file(file) for file in files or ()}
        taken = {file: coordinator.take(content) for file, content in contents.items()}
        coordinator.receive([], without=column_list(without) or ())
        for question in coordinator.questions():
            target = study / QUESTIONS / question.name
            replace_file(target, question.content)
            printed().print(f"{target}: send it to its site.", markup=False, highlight=False)
        if coordinator.finished:
            folder, result = out or study / "run", coordinator.result()
            if force or not folder.exists():
                runs.write(result, folder, force=force)
            show(result, folder, None)
        else:
            waits = ", ".join(coordinator.waits_for)
            printed().print(f"The study waits for {waits}.", markup=False, highlight=False)
    if refused := [f"{file}: {why}" for file, why in taken.items() if why is not None]:
        raise DataError("Refused: " + "; ".join(refused))


def run(
    study: Study,
    exchange: ExchangeFolder = None,
    without: Without = None,
    patience: Patience = None,
    truth: Truth = None,
    out: RunFolder = None,
    watch: Watch = False,
    force: Force = False,
    output: OutputFormat = Format.text,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run a study to its end: take the sites' files, and ask the next questions.

    After Ctrl-C, a crash or a power cut, run the command again: it continues where it stopped.

    Examples:

    polydag coordinator run study --exchange /shared/study
    polydag coordinator run study
    """
    from polydag import metrics, runs
    from polydag.cli.graphs import read_graph
    from polydag.cli.options import column_list
    from polydag.cli.results import document, show
    from polydag.cli.terminal.compiling import compilation_reported
    from polydag.cli.terminal.output import as_json, note
    from polydag.cli.terminal.progress import displayed_progress
    from polydag.cli.watching import watched
    from polydag.deployment.channels import coordinator_channel
    from polydag.deployment.coordinator import CoordinatorEndpoint
    from polydag.deployment.watching import claimed, run_coordinator
    from polydag.errors import NotConvergedError, UsageError
    from polydag.runs.execution import logged_to

    coordinator, folder = CoordinatorEndpoint(study), out or study / "run"
    if folder.exists() and not force:
        raise UsageError(
            f"{folder} already exists. Choose another folder with --out, or replace it with --force."
        )
    true, log = read_graph(truth) if truth else None, study / LOG

    def say(text: str) -> None:
        note(text, quiet=quiet)

    with claimed(study), watched(folder, watch) as page:
        with (
            displayed_progress(quiet=quiet, also=page),
            compilation_reported(),
            logged_to(log, append=True),
        ):
            if without is not None:
                coordinator.receive([], without=column_list(without) or ())
            with coordinator_channel(coordinator, exchange, say) as channel:
                seconds = None if patience is None else 60 * patience
                run_coordinator(coordinator, channel, patience=seconds, say=say)
            result = coordinator.result()
        runs.write(result, folder, force=force, log=log.read_text(encoding="utf-8"), truth=true)
        found = metrics.compare(true=true, estimate=result.graph) if true else None
        if output is Format.json:
            as_json(document(result, folder, found))
        else:
            show(result, folder, found)
    if not result.converged:
        raise NotConvergedError(
            f"{result.config.method} did not converge; do not rely on this graph. The run folder is {folder}."
        )


def start(
    study: Study,
    exchange: ExchangeFolder = None,
    without: Without = None,
    patience: Patience = None,
    truth: Truth = None,
    out: RunFolder = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Run a study to its end in the background; `status` reports on it, and `stop` ends it.

    Example: polydag coordinator start study
    """
    from polydag.cli.background import started
    from polydag.cli.terminal.output import out as printed
    from polydag.deployment.watching import claim_of
    from polydag.errors import UsageError

    if claim_of(study) is not None:
        raise UsageError(f"Another coordinator is running {study}.")
    given = {"--exchange": exchange, "--without": without, "--patience": patience}
    given |= {"--truth": truth, "--out": out, "--force": force or None}
    process = started(
        ["coordinator", "run", str(study), "--quiet"],
        given,
        study / OUTPUT,
        is_running=lambda: claim_of(study) is not None,
    )
    printed().print(f"The coordinator runs in the background (process {process}).", markup=False)
    printed().print(f"What it prints is in {study / OUTPUT}.", markup=False, highlight=False)


def status(study: Study, debug: Debug = False) -> None:
    """Report how far a study has come, and which sites it waits for.

    Example: polydag coordinator status study
    """
    from polydag.cli.terminal.output import out as printed
    from polydag.deployment.coordinator import CoordinatorEndpoint
    from polydag.deployment.watching import claim_of

    coordinator, claim = CoordinatorEndpoint(study), claim_of(study)
    sites = coordinator.signed.description.sites
    lines = [f"Study {coordinator.signed.study[:12]}… of {', '.join(sites)}."]
    running = "No coordinator is running."
    if claim is not None:
        running = f"A coordinator is running (process {claim.get('process', '?')})."
    lines.append(running)
    if coordinator.finished:
        lines.append(
            "All sums are there." if claim else f"Finished; the result is in {study / 'run'} by default."
        )
    elif coordinator.state is None:
        lines.append(f"{len(coordinator.joined)} of {len(sites)} sites have joined.")
    else:
        lines.append(f"Question {coordinator.number}.")
    if coordinator.waits_for and not coordinator.finished:
        lines.append(f"It waits for {', '.join(coordinator.waits_for)}.")
    lines += [f"{site} {why}." for site, why in coordinator.refused.items()]
    lines += [coordinator.stopped] if coordinator.stopped else []
    for line in lines:
        printed().print(line, markup=False, highlight=False)


def stop(study: Study, debug: Debug = False) -> None:
    """Stop the running coordinator. Nothing is lost: run it again to continue.

    Example: polydag coordinator stop study
    """
    from polydag.cli.terminal.output import out as printed
    from polydag.deployment.watching import ask_to_stop, claim_of

    if claim_of(study) is None:
        printed().print("No coordinator is running.")
        return
    ask_to_stop(study)
    printed().print("The coordinator ends as soon as it has finished what it is doing.")


COMMANDS = {"advance": advance, "run": run, "start": start, "status": status, "stop": stop}
