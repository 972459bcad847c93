"""Compiled gathering of families by pairs (see `Pairs`)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def count(ranked, n):  # type: ignore[no-untyped-def]
    """How many families of u have v, at `u · n + v`."""
    sets, number = ranked.sets, ranked.number
    counts = np.zeros(n * n, dtype=np.int64)
    for u in range(n):
        for f in range(ranked.start[ranked.first[u]], ranked.start[ranked.first[u + 1]]):
            for k in range(sets.shape[1]):
                c = sets[number[f], k]
                if c >= 0:
                    counts[u * n + ranked.candidates[u, c]] += 1
    return counts


@njit(cache=True, nogil=True)
def gather(ranked, n, begin):  # type: ignore[no-untyped-def]
    """The masks and log scores of each pair's families, from `begin` on; falling, as they were."""
    sets, number, words = ranked.sets, ranked.number, len(ranked.masks)
    masks = np.empty((words, begin[-1]), dtype=np.uint64)
    scores = np.empty(begin[-1])
    at = begin.copy()
    for u in range(n):
        for b in range(ranked.first[u], ranked.first[u + 1]):
            for f in range(ranked.start[b], ranked.start[b + 1]):
                score = ranked.reference[b] + math.log(ranked.values[f])
                for k in range(sets.shape[1]):
                    c = sets[number[f], k]
                    if c >= 0:
                        pair = u * n + ranked.candidates[u, c]
                        scores[at[pair]] = score
                        for w in range(words):
                            masks[w, at[pair]] = ranked.masks[w, f]
                        at[pair] += 1
    return masks, scores


@njit(cache=True, nogil=True)
def cut(scores, begin, shortest, longest, span):  # type: ignore[no-untyped-def]
    """Blocks of each pair: the first ones short, none too long, scores within `span`; see `Ranked`."""
    first = np.zeros(len(begin), dtype=np.int64)
    start = np.zeros(len(scores) + 1, dtype=np.int64)
    blocks = 0
    for pair in range(len(begin) - 1):
        most = shortest
        f = begin[pair]
        while f < begin[pair + 1]:
            top, end = scores[f], min(f + most, begin[pair + 1])
            f += 1
            while f < end and scores[f] >= top - span:
                f += 1
            blocks += 1
            start[blocks] = f
            most = min(2 * most, longest)
        first[pair + 1] = blocks
    return first, start[: blocks + 1].copy()


@njit(cache=True, nogil=True)
def scale(scores, first, start):  # type: ignore[no-untyped-def]
    """Values relative to the best of a block, these, and the log sums from each block on."""
    values = np.empty(len(scores))
    reference, tail = np.empty(len(start) - 1), np.empty(len(start) - 1)
    for pair in range(len(first) - 1):
        rest = -np.inf
        for b in range(first[pair + 1] - 1, first[pair] - 1, -1):
            reference[b] = scores[start[b]]
            total = 0.0
            for f in range(start[b], start[b + 1]):
                values[f] = math.exp(scores[f] - reference[b])
                total += values[f]
            rest = np.logaddexp(rest, math.log(total) + reference[b])
            tail[b] = rest
    return values, reference, tail
