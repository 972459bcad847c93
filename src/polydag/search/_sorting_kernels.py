"""A compiled sort."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index, Int
from polydag.compilation import inner


@inner
def descending(gain: Array) -> Index:
    """The order from the largest to the smallest, ties by place; a heap sort, quick to compile."""
    n = len(gain)
    heap = np.arange(n)
    for start in range(n // 2 - 1, -1, -1):
        _sink(heap, gain, start, n)
    for end in range(n - 1, 0, -1):
        heap[0], heap[end] = heap[end], heap[0]
        _sink(heap, gain, 0, end)
    return heap


@inner
def _sink(heap: Index, gain: Array, at: Int, end: Int) -> None:
    """Restore the heap below one place; the root is what comes last in the order."""
    item = heap[at]
    while 2 * at + 1 < end:
        child = 2 * at + 1
        if child + 1 < end and _later(gain, heap[child + 1], heap[child]):
            child += 1
        if not _later(gain, heap[child], item):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = item


@inner
def _later(gain: Array, a: Int, b: Int) -> bool:
    return bool(gain[a] < gain[b] or (gain[a] == gain[b] and a > b))
