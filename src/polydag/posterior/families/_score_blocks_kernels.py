"""Compiled division of lists of falling log scores into blocks (see `Ranked`)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def cut(scores, begin, shortest, longest, span):  # type: ignore[no-untyped-def]
    """Blocks of each list, which begin at `begin`: the first ones short, none too long, scores within `span`.

    Which blocks each list has, and where they start.
    """
    first = np.zeros(len(begin), dtype=np.int64)
    start = np.zeros(len(scores) + 1, dtype=np.int64)
    blocks = 0
    for one in range(len(begin) - 1):
        most = shortest
        f = begin[one]
        while f < begin[one + 1]:
            top, end = scores[f], min(f + most, begin[one + 1])
            f += 1
            while f < end and scores[f] >= top - span:
                f += 1
            blocks += 1
            start[blocks] = f
            most = min(2 * most, longest)
        first[one + 1] = blocks
    return first, start[: blocks + 1].copy()


@njit(cache=True, nogil=True)
def scale(scores, first, start):  # type: ignore[no-untyped-def]
    """Values relative to the best of a block, these, and the log sums of a list from each block on."""
    values = np.empty(len(scores))
    reference, tail = np.empty(len(start) - 1), np.empty(len(start) - 1)
    for one in range(len(first) - 1):
        rest = -np.inf
        for b in range(first[one + 1] - 1, first[one] - 1, -1):
            reference[b] = scores[start[b]]
            total = 0.0
            for f in range(start[b], start[b + 1]):
                values[f] = math.exp(scores[f] - reference[b])
                total += values[f]
            rest = np.logaddexp(rest, math.log(total) + reference[b])
            tail[b] = rest
    return values, reference, tail
