"""Kernels are compiled once: constants and narrow integers do not call for versions of their own."""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from polydag.compilation import inner, kernel


def test_one_version_serves_constants_and_integers_of_any_width() -> None:
    @inner
    def added(x: int, y: int, twice: bool) -> int:
        return x + 2 * y if twice else x + y

    @kernel
    def total(narrow: Any, wide: Any) -> int:
        return added(narrow[0], 0, True) + added(wide[0], wide[0], False) + added(3, narrow[0], True)

    narrow, wide = np.array([5], dtype=np.int32), np.array([7])
    assert total(narrow, wide) == 5 + 14 + 13
    assert len(added.signatures) == 1


def test_unsigned_words_stay_unsigned() -> None:
    @inner
    def half(word: int) -> int:
        return word >> np.uint64(1)

    @kernel
    def halves(words: Any) -> int:
        return half(words[0])

    assert halves(np.array([2**63], dtype=np.uint64)) == 2**62


def test_an_inner_kernel_called_from_python_is_refused() -> None:
    @inner
    def doubled(x: int) -> int:
        return 2 * x

    @kernel
    def twice_doubled(x: int) -> int:
        return 2 * doubled(x)

    for _ in range(2):  # before and after it is compiled
        with pytest.raises(TypeError, match="doubled is compiled for other kernels only"):
            doubled(3)
        assert twice_doubled(3) == 12


CALLED = """
from polydag.compilation import inner

@inner
def called_factor(x: int) -> int:
    return {factor} * x
"""

CALLER = """
from polydag.compilation import kernel
from called_kernels import called_factor

@kernel
def caller_total(x: int) -> int:
    return called_factor(x) + 1
"""

RENAMED = pickle.dumps(numba.__version__) + b"cnowhere\nGone\n."  # a class that has moved


def _total(folder: Path, factor: int) -> tuple[Any, int]:
    """The caller as a new process would import it, and what it computes of 5."""
    (folder / "called_kernels.py").write_text(CALLED.format(factor=factor))
    (folder / "caller_kernels.py").write_text(CALLER)
    importlib.invalidate_caches()
    for name in ("called_kernels", "caller_kernels"):
        sys.modules.pop(name, None)
    total = importlib.import_module("caller_kernels").caller_total
    return total, total(5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")  # beside the source, whatever the environment says
    yield tmp_path
    for name in ("called_kernels", "caller_kernels"):
        sys.modules.pop(name, None)


def test_what_is_compiled_is_used_again_until_a_kernel_that_it_calls_changes(folder: Path) -> None:
    for factor, hits in ((2, 0), (2, 1), (30, 0)):
        total, result = _total(folder, factor)
        assert result == factor * 5 + 1
        assert sum(total.stats.cache_hits.values()) == hits


@pytest.mark.parametrize("pattern", ["caller*.nbi", "caller*.nbc"])
@pytest.mark.parametrize(
    "content", [b"", b"cut short", pickle.dumps(numba.__version__) + b"cnowhere\nGone\n."]
)
def test_what_cannot_be_read_is_compiled_anew(folder: Path, pattern: str, content: bytes) -> None:
    _total(folder, 2)
    (stored,) = folder.rglob(pattern)
    stored.write_bytes(content)
    assert _total(folder, 2)[1] == 11
    total, _ = _total(folder, 2)
    assert sum(total.stats.cache_hits.values()) == 1
