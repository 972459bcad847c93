"""Fixtures shared by all tests."""

from __future__ import annotations

import os

# Before NumPy is imported, here and in the processes that tests start: the threads of several test processes
# would wait for each other, and take many times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder of reference data; tests that need it are skipped, with the reason, where it is not."""
    folder = os.environ.get("POLYDAG_DATA")
    if not folder:
        pytest.skip("POLYDAG_DATA is not set: reference data is not at hand")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"POLYDAG_DATA is set, but {path} is not a folder")
    return path
