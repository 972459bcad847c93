"""--resume: an interrupted run is continued; where there is none, the run begins, and this is said."""

from __future__ import annotations

from pathlib import Path

from polydag.cli.terminal.output import note


def say_where_to_begin(folder: Path, *, quiet: bool) -> None:
    """Say so if there is no interrupted run of this folder."""
    from polydag import runs

    unfinished = runs.partial(folder)
    if not unfinished.is_dir():
        note(f"There is no interrupted run {unfinished}: starting from the beginning.", quiet=quiet)
