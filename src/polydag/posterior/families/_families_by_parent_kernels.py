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
