"""Progress without plumbing: work reports, whoever listens shows it; nobody listening costs nothing.

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
    """How far a task is: `done` of `total` (None where the end is not known), and a word on how it goes."""

    task: str
    done: int
    total: int | None
    note: str


Listener = Callable[[Step], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def report(task: str, done: int, total: int | None = None, note: str = "") -> None:
    """Tell the listener, if there is one."""
    listener = _listener.get()
    if listener is not None:
        listener(Step(task, done, total, note))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send reports made inside the block to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
