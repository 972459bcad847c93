"""Compilation on first use is reported, so that nobody takes it for reading or for a slow search.

numba compiles a kernel when it is first called and keeps it on disk: it costs time once in an installation.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from polydag.computing.progress import report

COMPILING = "compiling"
NOTE = "once, about 20 s"
_SECONDS = 3.0  # what takes no longer is not worth a word


@contextmanager
def compilation_reported() -> Iterator[None]:
    """Report what numba compiles inside the block to the listener of the block, from any thread."""
    events: Any = importlib.import_module("numba.core.event")
    waiting = _Waiting()

    class Listener(events.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            waiting.start()

        def on_end(self, event: Any) -> None:
            waiting.end()

    listener = Listener()
    events.register("numba:compile", listener)
    try:
        yield
    finally:
        events.unregister("numba:compile", listener)


class _Waiting:
    """The time spent so far. A kernel may be compiled on behalf of another; numba compiles one at a time."""

    def __init__(self) -> None:
        self._context = copy_context()  # threads do not share that of the block
        self._depth = 0
        self._spent = self._began = 0.0

    def start(self) -> None:
        now = time.monotonic()
        if self._depth == 0:
            self._began = now
        self._depth += 1
        self._report(now, None)

    def end(self) -> None:
        now = time.monotonic()
        self._depth -= 1
        if self._depth == 0:
            self._report(now, 0)
            self._spent += now - self._began

    def _report(self, now: float, total: int | None) -> None:
        if self._spent + now - self._began >= _SECONDS:
            self._context.run(report, COMPILING, 0, total, NOTE)
