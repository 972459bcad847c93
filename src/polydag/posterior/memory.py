"""Available memory, checked before it is needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from polydag.errors import UsageError

_SHARE = 0.9  # of the available memory may be used
_ASTRONOMIC = 1e15  # bytes, from which on only the order of magnitude is reported


def available_memory() -> float:
    """Bytes that can be used without swapping."""
    file = Path("/proc/meminfo")
    if file.exists():
        for line in file.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return float(line.split()[1]) * 1024
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def usable_memory() -> float:
    """Bytes that a computation may use."""
    return _SHARE * available_memory()


def require_memory(need: float, what: str, fits: Callable[[float], str], limit: float | None = None) -> None:
    """Raise if `need` bytes are more than can be used; `fits(bytes)` says what would fit instead."""
    have = usable_memory() if limit is None else limit
    if need > have:
        raise UsageError(f"{what} needs {in_words(need)}; {in_words(have)} can be used. {fits(have)}.")


def in_words(size: float) -> str:
    """A number of bytes with its unit."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return f"{size / factor:.{'1f' if size < _ASTRONOMIC else '1e'}} {unit}"
    return f"{size / 1e3:.0f} kB"
