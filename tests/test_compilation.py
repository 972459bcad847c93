"""Kernels are compiled once: constants and narrow integers do not call for versions of their own."""

from __future__ import annotations

from typing import Any

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
