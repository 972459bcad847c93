"""Ctrl-C in computations that end with what they have, instead of passing it on.

The command line ends a process that does not react to Ctrl-C. It lets one go on that has taken it.
"""

from __future__ import annotations

import threading
from typing import Any

INTERRUPTED = (
    "The search was interrupted: the graph is the best found so far, not where the search would have ended."
)
_taken = threading.Event()


def take() -> None:
    """Say that Ctrl-C has been noticed, and that the computation ends with what there is."""
    _taken.set()


def was_taken() -> bool:
    """Whether a computation has said so."""
    return _taken.is_set()


def require_whole(model: Any) -> None:
    """Pass Ctrl-C on where a fitted learner has ended with what it had, and that is of no use."""
    if INTERRUPTED in getattr(model, "notes_", ()):
        raise KeyboardInterrupt
