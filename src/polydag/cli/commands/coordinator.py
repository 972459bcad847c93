"""`polydag coordinator`: the coordinator of a study whose sites run apart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polydag.cli.options import Debug, Force

NAME = "coordinator"
HELP = "Collect the sites' files, and ask the next question."


def advance(
    study: Annotated[Path, typer.Argument(help="The study's folder.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="What the sites have sent, in any order.")
    ] = None,
    without: Annotated[
        str | None,
        typer.Option("--without", help="Sites that will not answer; only where the method allows it."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run folder; STUDY/run by default.")
    ] = None,
    force: Force = False,
    debug: Debug = False,
) -> None:
    """Take the sites' files, and write the next question to each of them, or the run folder.

    Files that are refused are named with the reason, and the exit code is 3; the others count.

    Example: polydag coordinator advance study join-*.polydag
    """
    from polydag import runs
    from polydag.cli.options import column_list
    from polydag.cli.output import out as printed
    from polydag.cli.results import show
    from polydag.deployment.coordinator import QUESTIONS, CoordinatorEndpoint
    from polydag.deployment.envelopes import read_file
    from polydag.errors import DataError
    from polydag.sealed_files import replace_file

    coordinator = CoordinatorEndpoint(study)
    contents = {file: read_file(file) for file in files or ()}
    refused = [
        f"{file}: {why}" for file, content in contents.items() for why in coordinator.receive([content])
    ]
    if without is not None:
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
    if refused:
        raise DataError("Refused: " + "; ".join(refused))


COMMANDS = {"advance": advance}
