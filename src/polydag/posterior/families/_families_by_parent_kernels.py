"""Compiled grouping of sorted families by parent (see `FamiliesByParent`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Int
from polydag.compilation import kernel

if TYPE_CHECKING:
    from polydag.posterior.families.sorted_families import SortedFamilies


@kernel
def count(families: SortedFamilies, n: Int) -> Index:
    """The number of families of u that contain v, at `u · n + v`: an int array of shape (n²,)."""
    sets, number = families.sets, families.number
    counts = np.zeros(n * n, dtype=np.int64)
    for u in range(n):
        for f in range(families.start[families.first[u]], families.start[families.first[u + 1]]):
            for k in range(sets.shape[1]):
                c = sets[number[f], k]
                if c >= 0:
                    counts[u * n + families.candidates[u, c]] += 1
    return counts


@kernel
def gather(families: SortedFamilies, n: Int, begin: Index) -> tuple[NDArray[np.uint64], Array]:
    """Masks and log scores of the families of each pair, in decreasing order of score.

    Parameters
    ----------
    families : SortedFamilies
    begin : int array of shape (n² + 1,)
        Where the families of each pair begin.

    Returns
    -------
    masks : uint64 array of shape (words, begin[-1])
    scores : array of shape (begin[-1],)
    """
    sets, number, words = families.sets, families.number, len(families.masks)
    masks = np.empty((words, begin[-1]), dtype=np.uint64)
    scores = np.empty(begin[-1])
    at = begin.copy()
    for u in range(n):
        for b in range(families.first[u], families.first[u + 1]):
            for f in range(families.start[b], families.start[b + 1]):
                score = families.reference[b] + math.log(families.values[f])
                for k in range(sets.shape[1]):
                    c = sets[number[f], k]
                    if c >= 0:
                        pair = u * n + families.candidates[u, c]
                        scores[at[pair]] = score
                        for w in range(words):
                            masks[w, at[pair]] = families.masks[w, f]
                        at[pair] += 1
    return masks, scores
