"""Ctrl-C: one message, exit code 130, nothing half written, whatever the program is doing.

SIGINT is blocked in the main thread, and so in every worker process, which inherits this: workers neither
stop halfway nor print tracebacks. One thread receives it and wakes the main thread by another signal, whose
handler raises `KeyboardInterrupt`. A search takes it, and the run is written with the best graph until then.
If nothing comes of it (a library may swallow the exception), or at a second Ctrl-C, the process ends at once.
Finished pieces of a run are safe (`polydag.computing.checkpoint`).
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from polydag.computing.interruption import was_taken

INTERRUPTED = 130
_PATIENCE = (3.0, 10.0)  # seconds until the main thread is woken again, and until the process is ended
_LOOK = 0.2  # seconds between two looks at what has happened
_ENDING = (
    "Interrupted: the search ends with the best graph found so far. Press Ctrl-C again to stop immediately."
)
_asked, _told = threading.Event(), threading.Event()


def was_asked() -> bool:
    """Whether Ctrl-C was pressed."""
    return _asked.is_set()


def tell() -> None:
    """Say that the program was interrupted, once."""
    if not _told.is_set():
        _told.set()
        print("Interrupted.", file=sys.stderr)  # noqa: T201


@contextmanager
def handled_interruption() -> Iterator[None]:
    """End the process with code 130 if Ctrl-C is pressed inside the block."""
    if not hasattr(signal, "pthread_sigmask") or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield  # on Windows; or in the background, where Ctrl-C is meant for others
        return
    received, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _ignore)
    signal.signal(signal.SIGUSR1, _raise)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    _keep_quiet()
    threading.Thread(target=_wait, args=(received,), daemon=True).start()
    try:
        yield
    finally:  # whatever has come of it: imports turn an interruption into other errors
        if _asked.is_set():
            tell()
            _leave()


def _keep_quiet() -> None:
    """Let no library undo the above, or talk about its consequences."""
    change_mask = signal.pthread_sigmask

    def without_sigint(how: int, mask: Iterable[int]) -> set[int | signal.Signals]:
        """Starting a worker unblocks SIGINT, once Python's resource tracker runs; it must stay blocked."""
        main = threading.current_thread() is threading.main_thread()
        return change_mask(how, set(mask) - {signal.SIGINT} if main and how == signal.SIG_UNBLOCK else mask)

    signal.pthread_sigmask = without_sigint
    report = sys.unraisablehook

    def unless_interrupted(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):  # swallowed, and raised again later
            report(unraisable)

    sys.unraisablehook = unless_interrupted
    ignored = "ignore:resource_tracker:UserWarning"  # of what workers that were killed have left behind
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), ignored)))


def _raise(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _ignore(number: int, frame: FrameType | None) -> None:
    """Nothing: the thread that reads the numbers of signals does the rest."""


def _wait(received: int) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _arrives(received, None)
    _asked.set()
    main = threading.main_thread().ident
    assert main is not None
    for seconds in _PATIENCE:
        signal.pthread_kill(main, signal.SIGUSR1)
        if _arrives(received, seconds, unless=was_taken):
            break
        if was_taken():
            print(_ENDING, file=sys.stderr, flush=True)  # noqa: T201
            _arrives(received, None)
            break
    os._exit(INTERRUPTED)


def _arrives(received: int, seconds: float | None, unless: Callable[[], bool] = bool) -> bool:
    """Whether Ctrl-C is pressed within this time, and before something else happens."""
    end = math.inf if seconds is None else time.monotonic() + seconds
    while not unless():
        left = end - time.monotonic()
        if left <= 0:
            return False
        if not select.select([received], [], [], min(left, _LOOK))[0]:
            continue
        if signal.SIGINT in os.read(received, 1):
            return True
    return False


def _leave() -> NoReturn:
    """End the process without the interpreter's own end, in which threads of libraries can crash."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    _end_workers()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # a closed pipe
            continue
    os._exit(INTERRUPTED)


def _end_workers() -> None:
    """Kill joblib's worker processes, which would otherwise wait for work."""
    loky = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(loky, "_executor", None)
    if executor is not None:
        executor.shutdown(wait=True, kill_workers=True)
