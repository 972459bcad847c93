"""A place for compiled kernels where neither the package nor the home directory can be written to.

numba keeps what it compiles beside the source, or in the user's cache, and fails where both are read-only, as
in many containers. Then a temporary folder of this process takes their place: kernels are compiled anew each
time. To compile once, set NUMBA_CACHE_DIR to a folder that can be written to.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path


def ensure_writable_cache() -> None:
    """Choose a temporary folder for compiled kernels, if there is no other place for them."""
    if os.environ.get("NUMBA_CACHE_DIR") or _can_write(Path(__file__).parent) or _can_write(_user_cache()):
        return
    folder = tempfile.mkdtemp(prefix="polydag-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder  # also for worker processes
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = folder


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "numba"  # noqa: PTH111


def _can_write(folder: Path) -> bool:
    """Whether files can be written to a folder, which is created if necessary."""
    existing = next((each for each in (folder, *folder.parents) if each.exists()), folder)
    return os.access(existing, os.W_OK)
