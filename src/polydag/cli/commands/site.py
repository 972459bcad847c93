"""`polydag site`: a site of a study that runs apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polydag.cli.options import Approve, Debug, Quiet
from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    from polydag.deployment.site import File, SiteEndpoint

NAME = "site"
LOG = "site.log"
HELP = "Take part in a study with rows that stay at this site."
Kit = Annotated[Path, typer.Argument(help="The site's kit, a folder from the coordinator.")]
Question = Annotated[Path, typer.Argument(help="A question from the coordinator, a .polydag file.")]
Query = Annotated[
    str | None, typer.Option("--query", help="The SELECT statement, if --data is a database address.")
]
Home = Annotated[
    Path | None,
    typer.Option(
        "--home", help="The site's own folder, with identity and ledger; ~/.polydag/SITE by default."
    ),
]
Abandon = Annotated[bool, typer.Option("--abandon", help="Give up a study that this site has not finished.")]
Solvable = Annotated[
    bool,
    typer.Option(
        "--solvable",
        help="Allow methods such as admm, whose many sums can reveal a single site's statistics.",
    ),
]
OutFile = Annotated[
    Path | None, typer.Option("--out", "-o", help="The file to write; in the current folder by default.")
]


def join(
    kit: Kit,
    data: Annotated[str, typer.Option("--data", help="The rows: a file, or a database address.")],
    query: Query = None,
    home: Home = None,
    abandon: Abandon = False,
    solvable: Solvable = False,
    out: OutFile = None,
    debug: Debug = False,
) -> None:
    """Check the rows against the study's description, and write the file with which the site joins.

    Example: polydag site join kit-north --data patients.csv
    """
    from polydag.deployment.site import SiteEndpoint

    site = SiteEndpoint(kit)
    _write(site.join(data, home or _home(site), query=query, abandon=abandon, solvable=solvable), out)
    _explain_refusal(site)


def _home(site: SiteEndpoint) -> Path:
    return Path.home() / ".polydag" / site.name


def _explain_refusal(site: SiteEndpoint) -> None:
    if site.refusals:
        raise DataError(
            f"{site.name} does not take part: {site.refusals[-1]}. The file informs the coordinator."
        )


def preview(kit: Kit, question: Question, debug: Debug = False) -> None:
    """Show what would leave the site if a question were answered, without sending anything.

    Example: polydag site preview kit-north question-1-north.polydag
    """
    from polydag.cli.terminal.output import out
    from polydag.deployment.envelopes import read_file
    from polydag.deployment.site import SiteEndpoint

    for sentence in SiteEndpoint(kit).preview(read_file(question)):
        out().print(sentence, markup=False, highlight=False)


def answer(kit: Kit, question: Question, out: OutFile = None, debug: Debug = False) -> None:
    """Answer a question of the coordinator.

    Example: polydag site answer kit-north question-1-north.polydag
    """
    from polydag.cli.terminal.output import out as printed
    from polydag.deployment.envelopes import read_file
    from polydag.deployment.site import SiteEndpoint

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
        told = f"The study is finished. There is nothing to send. {site.outcome}"
        printed().print(told.strip(), markup=False, highlight=False, soft_wrap=True)
    if site.refusals != before:
        raise DataError(f"The question was refused: {site.refusals[-1]}")


def start(
    kit: Kit,
    exchange: Annotated[
        Path | None,
        typer.Option(
            "--exchange",
            help="The shared folder through which files are exchanged; not with NVIDIA FLARE.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="The rows: a file, or a database address. Not needed after joining."),
    ] = None,
    query: Query = None,
    home: Home = None,
    approve: Annotated[
        Approve,
        typer.Option(
            "--approve",
            help="When to ask the owner: for each kind of study (once), before each answer (ask), or never "
            "(always).",
        ),
    ] = Approve.once,
    abandon: Abandon = False,
    solvable: Solvable = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Take part in a study until it is finished: join, and answer the questions that arrive.

    After Ctrl-C, a crash or a power cut, start the site again: it continues where it stopped.

    Examples:

    polydag site start kit-north --data patients.csv --exchange /shared/study
    polydag site start kit-north --data patients.csv
    """
    from polydag.cli.approving import approved_questions, approved_study
    from polydag.cli.terminal.compiling import compilation_reported
    from polydag.cli.terminal.output import note
    from polydag.cli.terminal.output import out as printed
    from polydag.cli.terminal.progress import displayed_progress
    from polydag.deployment.channels import site_channel
    from polydag.deployment.site import FINAL, SETTINGS, SiteEndpoint
    from polydag.deployment.watching import run_site
    from polydag.runs.execution import logged_to

    def say(text: str) -> None:
        note(text, quiet=quiet)

    with SiteEndpoint(kit) as site:
        joins = not (kit / FINAL).is_file()
        if data is None and joins and not (kit / SETTINGS).is_file():
            raise UsageError(f"{site.name} has not joined: name its rows with --data.")
        known = site.settings if data is None and joins else {}
        own = Path(known["home"]) if known else home or _home(site)
        if joins:
            approved_study(site, own, approve)
        with site_channel(site, exchange, say) as channel:
            joining = None
            if joins:
                joining = site.join(
                    data or known["data"],
                    own,
                    query=query or known.get("query"),
                    abandon=abandon,
                    solvable=solvable or known.get("solvable", False),
                )
                if site.refusals:
                    channel.deliver(joining)
                _explain_refusal(site)
            with displayed_progress(quiet=quiet), compilation_reported(), logged_to(kit / LOG, append=True):
                approved = approved_questions(site, approve)
                run_site(site, channel, joining, approve=approved, say=say)
        if not quiet:
            told = f"The study is finished. {site.outcome}".strip()
            printed().print(told, markup=False, highlight=False, soft_wrap=True)


def _write(file: File, path: Path | None) -> None:
    from polydag.cli.terminal.output import out
    from polydag.sealed_files import replace_file

    target = path or Path(file.name)
    replace_file(target, file.content)
    out().print(f"{target}: send it to the coordinator.", markup=False, highlight=False)


COMMANDS = {"join": join, "preview": preview, "answer": answer, "start": start}
