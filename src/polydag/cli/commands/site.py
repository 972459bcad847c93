"""`polydag site`: a site of a study that runs apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polydag.cli.options import Debug

if TYPE_CHECKING:
    from polydag.deployment.site import File

NAME = "site"
HELP = "Take part in a study with rows that stay here."
Kit = Annotated[Path, typer.Argument(help="The site's kit, a folder from the coordinator.")]
Question = Annotated[Path, typer.Argument(help="A question from the coordinator, a .polydag file.")]
OutFile = Annotated[
    Path | None, typer.Option("--out", "-o", help="The file to write; in this folder by default.")
]


def join(
    kit: Kit,
    data: Annotated[str, typer.Option("--data", help="The rows: a file, or a database address.")],
    query: Annotated[
        str | None, typer.Option("--query", help="The SELECT, where --data is a database address.")
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option("--home", help="The site's own folder, with identity and ledger; ~/.polydag/SITE."),
    ] = None,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Give up a study that this site has not finished.")
    ] = False,
    solvable: Annotated[
        bool,
        typer.Option(
            "--solvable", help="Allow methods whose many sums can be solved for single sites, such as admm."
        ),
    ] = False,
    out: OutFile = None,
    debug: Debug = False,
) -> None:
    """Check the rows against the study's description, and write the file with which the site joins.

    Example: polydag site join kit-north --data patients.csv
    """
    from polydag.deployment.site import SiteEndpoint

    site = SiteEndpoint(kit)
    folder = home or Path.home() / ".polydag" / site.name
    _write(site.join(data, folder, query=query, abandon=abandon, solvable=solvable), out)


def preview(kit: Kit, question: Question, debug: Debug = False) -> None:
    """Say what would leave the site if a question were answered; nothing leaves.

    Example: polydag site preview kit-north question-1-north.polydag
    """
    from polydag.cli.output import out
    from polydag.deployment.envelopes import read_file
    from polydag.deployment.site import SiteEndpoint

    for sentence in SiteEndpoint(kit).preview(read_file(question)):
        out().print(sentence, markup=False, highlight=False)


def answer(kit: Kit, question: Question, out: OutFile = None, debug: Debug = False) -> None:
    """Answer a question of the coordinator.

    Example: polydag site answer kit-north question-1-north.polydag
    """
    from polydag.cli.output import out as printed
    from polydag.deployment.envelopes import read_file
    from polydag.deployment.site import SiteEndpoint
    from polydag.errors import DataError

    site = SiteEndpoint(kit)
    before = site.refusals
    try:
        file = site.receive(read_file(question))
    except DataError as error:
        raise DataError(f"{question}: {error}") from None
    for note in site.notes:
        printed().print(note, markup=False, highlight=False)
    if file is not None:
        _write(file, out)
    elif site.finished:
        printed().print("The study is finished. There is nothing to send.")
    if site.refusals != before:
        raise DataError(f"The question was refused: {site.refusals[-1]}")


def _write(file: File, path: Path | None) -> None:
    from polydag.cli.output import out
    from polydag.sealed_files import replace_file

    target = path or Path(file.name)
    replace_file(target, file.content)
    out().print(f"{target}: send it to the coordinator.", markup=False, highlight=False)


COMMANDS = {"join": join, "preview": preview, "answer": answer}
