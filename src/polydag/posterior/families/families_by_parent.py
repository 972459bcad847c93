"""The families of each node that have a certain parent, from the best to the worst.

Where one variable moves and others stay, the sums of a node change by its families with that variable alone:
a small part of them all, which are looked up here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.posterior.families.sorted_families import Ranked, blocks

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Pairs(NamedTuple):
    """As `Ranked`, with the families of u that have v at number `u · n + v`."""

    first: Index
    start: Index
    masks: NDArray[np.uint64]
    values: Array
    reference: Array
    tail: Array

    def sums(self, n: int) -> Array:
        """The logarithm of the sum of the families of u that have v, `[u, v]`."""
        there = self.first[1:] > self.first[:-1]
        result = np.full(n * n, -np.inf)
        result[there] = self.tail[self.first[:-1][there]]
        return result.reshape(n, n)


def pairs(ranked: Ranked) -> Pairs:
    """Gather the families of every pair of variables."""
    from polydag.posterior.families._families_by_parent_kernels import count, gather

    n = len(ranked.candidates)
    begin = np.concatenate([[0], np.cumsum(count(ranked, n))])
    masks, scores = gather(ranked, n, begin)
    first, start, values, reference, tail = blocks(scores, begin)
    return Pairs(first, start, masks, values, reference, tail)
