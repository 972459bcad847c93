"""Progress on the terminal with rich, and in the log; silent where stderr is not a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from polydag.progress import Step, listening

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_log = logging.getLogger("polydag")


@contextmanager
def shown(*, quiet: bool) -> Iterator[None]:
    """Show what is reported inside the block."""
    if quiet or not sys.stderr.isatty():
        with listening(_Listener(None)):
            yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[word]}"),
    )
    with (
        Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bars,
        listening(_Listener(bars)),
    ):
        yield


class _Listener:
    """Moves a bar for each task, and logs where one begins."""

    def __init__(self, bars: Progress | None) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID | None] = {}

    def __call__(self, step: Step) -> None:
        if step.task not in self._tasks:
            _log.info("%s", step.task)
            bars = self._bars
            self._tasks[step.task] = None if bars is None else bars.add_task(step.task, total=None, word="")
        task = self._tasks[step.task]
        if self._bars is not None and task is not None:
            counted = f"{step.done}/{step.total} " if step.total else ""
            self._bars.update(task, completed=step.done, total=step.total, word=f"{counted}{step.note}")
