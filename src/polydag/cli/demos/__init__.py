"""Demonstrations on embedded data, one file each: a study, the naive answer, and the truth.

A demonstration is a module with `run(folder, seed, *, force) -> Outcome` and one line in `DEMOS`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from polydag.errors import UsageError

if TYPE_CHECKING:
    from polydag.graph import Graph
    from polydag.studies.result import Result

DEMOS = {
    "pooled": "polydag.cli.demos.pooled",
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
