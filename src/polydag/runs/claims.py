"""A folder that one process at a time may write to.

The claim is a lock on a file in the folder. The operating system releases it when the process ends, however
it ends, so a killed run leaves nothing that would keep the next one out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from polydag.errors import UsageError

LOCK = ".lock"


@contextmanager
def claimed(folder: Path, out: Path) -> Iterator[None]:
    """Hold a folder, which is made if necessary, for a run that writes `out`.

    Another process that holds it raises `UsageError`. The caller deletes the folder, or leaves it.
    """
    handle = _claim(folder, out)
    try:
        yield
    finally:
        os.close(handle)


def _claim(folder: Path, out: Path) -> int:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # a run that ended has just deleted the folder
            continue
        if not _lock(handle):
            os.close(handle)
            raise UsageError(
                f"Another run is writing {out} now. Wait until it has ended, or choose another folder with "
                "--out."
            )
        try:
            if os.fstat(handle).st_ino == (folder / LOCK).stat().st_ino:
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)


def _lock(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # on Windows two runs into one folder are not noticed
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
