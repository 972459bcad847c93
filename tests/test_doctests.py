"""Every example in a docstring runs; only modules that have one are imported."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import polydag

ROOT = Path(polydag.__file__).parent


def modules_with_examples() -> list[str]:
    files = (path for path in sorted(ROOT.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8"))
    parts = (path.relative_to(ROOT.parent).with_suffix("").parts for path in files)
    return [".".join(part[:-1] if part[-1] == "__init__" else part) for part in parts]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    results = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert results.attempted > 0
    assert results.failed == 0
