"""Asking the owner of a site whether a study, or a question of it, may be answered."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from polydag.cli.options import Approve
from polydag.errors import UsageError

if TYPE_CHECKING:
    from polydag.deployment.site import Question, SiteEndpoint


def approved_study(site: SiteEndpoint, home: Path, mode: Approve) -> None:
    """Return if the owner approves the study, as remembered or when asked; else raise `UsageError`."""
    from polydag.deployment.approval import approve, in_words, is_approved

    if mode is Approve.always or (mode is Approve.once and is_approved(home, site.signed)):
        return
    if not _confirmed(in_words(site.signed), "Take part with your rows?"):
        raise UsageError("The study was not approved, and nothing has left.")
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    approve(home, site.signed)


def approved_questions(site: SiteEndpoint, mode: Approve) -> Callable[[Question], bool]:
    """Whether a question may be answered; the owner is asked about those that take numbers of rows."""

    def approved(question: Question) -> bool:
        if mode is not Approve.ask or not question.about_data:
            return True
        return _confirmed(site.preview_of(question), "Answer this question?")

    return approved


def _confirmed(lines: Iterable[str], question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "The owner of the rows must approve this, and there is no terminal for the question. Start "
            "it at a "
            "terminal, or with --approve always."
        )
    for line in lines:
        typer.echo(line, err=True)
    return typer.confirm(question, err=True)
