"""Worker processes: one that is killed is an error that says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polydag.errors import PolydagError


@contextmanager
def reporting_lost_workers() -> Iterator[None]:
    """Turn joblib's error about a lost worker process into one that says what to do."""
    from concurrent.futures.process import BrokenProcessPool

    try:
        yield
    except BrokenProcessPool:
        raise PolydagError(
            "A worker process was killed, most likely because there was not enough memory. Use fewer "
            "processes (n_jobs; on the command line --jobs), or a machine with more memory."
        ) from None
