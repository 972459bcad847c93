"""Progress: bars on a terminal (rich), elsewhere a line now and then; the log records where tasks begin."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from polydag.cli.terminal.compiling import COMPILING
from polydag.computing.progress import Listener, Step, listening

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_log = logging.getLogger("polydag")
_SECONDS = 30  # between lines, and before the first one


@contextmanager
def displayed_progress(*, quiet: bool, also: Listener | None = None) -> Iterator[None]:
    """Display what is reported inside the block, on stderr; `also` listens too."""
    if quiet or not sys.stderr.isatty():
        with listening(_Logged(None if quiet else _Lines(), also)):
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
        listening(_Logged(_Bars(bars), also)),
    ):
        yield


def _word(step: Step) -> str:
    counted = f"{step.done}/{step.total} " if step.total else ""
    return f"{counted}{step.note}"


class _Logged:
    """Logs where a task begins, and passes every step on."""

    def __init__(self, *after: Listener | None) -> None:
        self._after = [listener for listener in after if listener is not None]
        self._seen: set[str] = set()

    def __call__(self, step: Step) -> None:
        if step.task not in self._seen:
            self._seen.add(step.task)
            _log.info("%s", step.task)
        for listener in self._after:
            listener(step)


class _Bars:
    """Moves a bar for each task."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, step: Step) -> None:
        if step.task not in self._tasks:
            self._tasks[step.task] = self._bars.add_task(step.task, total=None, word="")
        self._bars.update(self._tasks[step.task], completed=step.done, total=step.total, word=_word(step))


class _Lines:
    """For logs of batch systems: the first task that has not ended, and the current step.

    Compilation is announced at once, since it is the whole wait of a first small run.
    """

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._announced = False
        self._running: dict[str, Step] = {}

    def __call__(self, step: Step) -> None:
        known = list(self._running)
        if step.task in known:  # what began after it was a part of it, and is over
            for over in known[known.index(step.task) :]:
                del self._running[over]
        if step.total is not None and step.done != step.total:  # without a total, the end is not known
            self._running[step.task] = step
        if step.task == COMPILING and not self._announced:
            self._announced = True
            typer.echo(f"{COMPILING.capitalize()}, {step.note} …", err=True)
        now = time.monotonic()
        if now - self._last < _SECONDS:
            return
        self._last = now
        steps = dict.fromkeys([*list(self._running.values())[:1], step])
        what = "; ".join(f"{each.task} {_word(each)}".strip() for each in steps)
        typer.echo(f"{time.strftime('%H:%M:%S')} {what}", err=True)
