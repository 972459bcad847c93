"""Progress reports: computations call `report`, and a listener, if there is one, displays them.

>>> seen = []
>>> with listening(seen.append):
...     report("scores", 3, 10)
>>> seen[0].done
3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Step(NamedTuple):
    """How far a task has come: `done` of `total` (None if unknown), with a short note on its state."""

    task: str
    done: int
    total: int | None
    note: str


Listener = Callable[[Step], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def report(task: str, done: int, total: int | None = None, note: str = "") -> None:
    """Send a progress report to the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(Step(task, done, total, note))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send the reports made inside the block to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
