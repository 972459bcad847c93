"""Subsets up to a size, indexed by the combinatorial number system.

Sets are ordered by size, and within a size such that `{a_1 < … < a_k}` has the index `offset[k] + Σ C(a_j,
j)`. Within a size the index of a set does not depend on how many elements there are to choose from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Index


def n_subsets(n: int, size: int) -> int:
    """The number of subsets of n elements with at most `size` members."""
    return sum(math.comb(n, k) for k in range(size + 1))


def offsets(n: int, size: int) -> Index:
    """Where the sets of 0, 1, …, `size` members begin; the last entry is the number of all sets."""
    return np.cumsum([0, *(math.comb(n, k) for k in range(size + 1))], dtype=np.int64)


def binomials(n: int, size: int) -> Index:
    """`C(a, k)` at `[a, k]`, for a up to n and k up to `size`."""
    return np.array([[math.comb(a, k) for k in range(size + 1)] for a in range(n + 1)], dtype=np.int64)


def combinations(n: int, size: int) -> Index:
    """All subsets with `size` members, one row each, in lexicographic order."""
    rows = np.zeros((1, 0), dtype=np.int64)
    for _ in range(size):
        last = rows[:, -1] if rows.shape[1] else np.full(len(rows), -1)
        counts = n - 1 - last
        ends = np.cumsum(counts)
        position = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
        added = np.repeat(last, counts) + 1 + position
        rows = np.column_stack([np.repeat(rows, counts, axis=0), added])
    return rows


def numbered(n: int, size: int) -> NDArray[np.int16]:
    """All subsets up to a size in the order of their indices, of shape (sets, size), padded with -1."""
    table = np.full((n_subsets(n, size), size), -1, dtype=np.int16)
    start, choose = offsets(n, size), binomials(n, size)
    for k in range(1, size + 1):
        rows = combinations(n, k)
        table[start[k] + choose[rows, np.arange(1, k + 1)].sum(axis=1), :k] = rows
    return table


def number(members: Sequence[int], n: int) -> int:
    """The index of a set of elements of 0, …, n - 1."""
    ordered = sorted(members)
    below = sum(math.comb(n, k) for k in range(len(ordered)))
    return below + sum(math.comb(a, k) for k, a in enumerate(ordered, start=1))
