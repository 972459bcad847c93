"""Every example in a docstring runs; only modules that have one are imported."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import polydag
from printed import run_doctest

pytestmark = pytest.mark.portable

ROOT = Path(polydag.__file__).parent


def modules_with_examples() -> list[str]:
    files = (path for path in sorted(ROOT.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8"))
    parts = (path.relative_to(ROOT.parent).with_suffix("").parts for path in files)
    return [".".join(part[:-1] if part[-1] == "__init__" else part) for part in parts]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name: str) -> None:
    tests = [test for test in doctest.DocTestFinder().find(importlib.import_module(name)) if test.examples]
    assert tests
    for test in tests:
        results, report = run_doctest(test)
        assert results.failed == 0, report
