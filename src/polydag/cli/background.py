"""Commands that go on in the background."""

from __future__ import annotations

import atexit
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from polydag.errors import UsageError

_PAUSE = 0.05


def started(
    words: Sequence[str],
    options: Mapping[str, object],
    output: Path,
    *,
    is_running: Callable[[], bool],
) -> int:
    """Start a command with those options that are given; returns its process when it has begun its work.

    What it prints is in `output`. Where it ends at once, the error says what it printed.
    """
    command = [sys.executable, "-m", "polydag", *words]
    for name, value in options.items():
        if value is not None:
            command += [name] if value is True else [name, str(value)]
    with output.open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    atexit.register(process.poll)  # Python warns of a process that was never asked whether it has ended
    while process.poll() is None and not is_running():
        time.sleep(_PAUSE)
    if process.poll() not in (None, 0):
        said = output.read_text(encoding="utf-8", errors="replace").strip()
        raise UsageError(f"It ended immediately: {said.removeprefix('Error: ')}")
    return process.pid
