"""The families of each node that contain a given parent, sorted by score.

When one variable moves and the others stay, the sums of a node change only by its families that contain that
variable. These are a small part of all families and are listed here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.posterior.families.sorted_families import SortedFamilies, cut_into_blocks


class FamiliesByParent(NamedTuple):
    """As `SortedFamilies`, with the families of node u that contain parent v as list number `u · n + v`."""

    first: Index
    start: Index
    masks: NDArray[np.uint64]
    values: Array
    reference: Array
    tail: Array

    def log_sums(self, n: int) -> Array:
        """The log of the sum over the families of u that contain v, at `[u, v]`."""
        there = self.first[1:] > self.first[:-1]
        result = np.full(n * n, -np.inf)
        result[there] = self.tail[self.first[:-1][there]]
        return result.reshape(n, n)


def group_by_parent(families: SortedFamilies) -> FamiliesByParent:
    """List the families of every node by each of their parents."""
    from polydag.posterior.families._families_by_parent_kernels import count, gather

    n = len(families.candidates)
    begin = np.concatenate([[0], np.cumsum(count(families, n))])
    masks, scores = gather(families, n, begin)
    blocks = cut_into_blocks(scores, begin)
    return FamiliesByParent(
        blocks.first, blocks.start, masks, blocks.values, blocks.reference, blocks.tail
    )  # fmt: skip
