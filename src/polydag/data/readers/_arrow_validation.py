"""A program of its own: read an Arrow file to its end and validate every value.

Arrow's readers trust the offsets and sizes in a file, so a damaged one can end the process that reads it.
This program takes that risk in place of the caller: `python _arrow_validation.py <file>` exits with 0 if the
file can be read safely; otherwise it fails in one way or another.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any


def open_reader(path: str) -> Any:
    """The reader of a file or stream; not memory-mapped, as a wrong offset would then end the process."""
    import pyarrow as pa

    file = pa.OSFile(path)
    try:
        return pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
    return pa.ipc.open_stream(file)


def batches(reader: Any) -> Iterator[Any]:
    """The record batches of a file or stream."""
    if hasattr(reader, "num_record_batches"):
        for i in range(reader.num_record_batches):
            yield reader.get_batch(i)
    else:
        yield from reader


def _limit_memory() -> None:
    """Let absurd sizes fail at once, and without a core dump."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _limit_memory()
    for batch in batches(open_reader(sys.argv[1])):
        batch.validate(full=True)
