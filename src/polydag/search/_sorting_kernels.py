"""A compiled sort."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index
from polydag.compilation import inner

_RUN = 8  # so few are sorted by insertion


@inner
def descending(gain: Array) -> Index:
    """The order from the largest to the smallest, ties by place; a merge sort from short runs."""
    n = len(gain)
    key, order = np.empty((2, n)), np.empty((2, n), np.int64)
    now = 0
    for start in range(0, n, _RUN):
        for i in range(start, min(start + _RUN, n)):
            own, at = gain[i], i
            while at > start and key[0, at - 1] < own:
                key[0, at], order[0, at] = key[0, at - 1], order[0, at - 1]
                at -= 1
            key[0, at], order[0, at] = own, i
    width = _RUN
    while width < n:
        then = 1 - now
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            i, j = start, middle
            for k in range(start, end):
                if j >= end or (i < middle and key[now, i] >= key[now, j]):
                    key[then, k], order[then, k] = key[now, i], order[now, i]
                    i += 1
                else:
                    key[then, k], order[then, k] = key[now, j], order[now, j]
                    j += 1
        now = then
        width *= 2
    found: Index = order[now]
    return found
