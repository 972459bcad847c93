"""All demonstrations by name; to add one, write a module like the others and a line here."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from polydag.errors import UsageError

if TYPE_CHECKING:
    from polydag.graph import Graph
    from polydag.studies.result import Result

DEMOS = {
    "table": "polydag.cli.demos.table",
    "parties": "polydag.cli.demos.parties",
    "linked": "polydag.cli.demos.linked",
    "tasks": "polydag.cli.demos.tasks",
}


class Answer(NamedTuple):
    """One answer to the same question: what gave it, and its graph."""

    by: str
    graph: Graph


class Outcome(NamedTuple):
    """What a demonstration has to show: the naive answers come before the study's own."""

    title: str
    story: str
    truth: Graph
    answers: tuple[Answer, ...]
    result: Result
    data: Path
    run: Path
    files: str = "data.csv"


def run(name: str, folder: Path, seed: int, *, force: bool = False) -> Outcome:
    """Run one demonstration, writing into `folder`."""
    if name not in DEMOS:
        raise UsageError(f"There is no demo {name!r}. Known are {', '.join(DEMOS)}.")
    outcome: Outcome = importlib.import_module(DEMOS[name]).run(folder, seed, force=force)
    return outcome
