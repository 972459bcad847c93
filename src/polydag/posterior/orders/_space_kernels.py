"""Compiled weights of orders and best families within them.

Shapes of arguments that the kernels share:

families : SortedFamilies
order, place : int arrays of shape (n,)
log_sums : array of shape (n,)
    As in `OrderState`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from polydag.arrays import Array, Index
from polydag.compilation import kernel
from polydag.posterior.families._sorted_families_kernels import log_sum, log_sum_before, order_constraint

if TYPE_CHECKING:
    from polydag.posterior.families.sorted_families import SortedFamilies


@kernel
def score(families: SortedFamilies, order: Index, place: Index, log_sums: Array) -> None:
    """Fill in `place` and `log_sums` of an order."""
    words = len(families.masks)
    excluded, required = np.empty(words, np.uint64), np.empty(words, np.uint64)
    for p in range(len(order)):
        place[order[p]] = p
    for v in range(len(order)):
        if families.start[families.first[v + 1]] - families.start[families.first[v]] < len(order):
            log_sums[v] = log_sum_before(families, v, place)
        else:
            order_constraint(families.candidates, v, place, place[v], excluded, required)
            log_sums[v] = log_sum(families, v, excluded, required)


@kernel
def best_families(families: SortedFamilies, place: Index, chosen: Index, scores: Array) -> None:
    """Fill in the best family of each variable in an order.

    `chosen` (int) and `scores`, both of shape (n,), get the index of its parent set in the table and its log
    score.
    """
    sets, number = families.sets, families.number
    for v in range(len(place)):
        b = families.first[v]
        for f in range(families.start[b], families.start[families.first[v + 1]]):
            while f >= families.start[b + 1]:
                b += 1
            fits = True
            for k in range(sets.shape[1]):
                c = sets[number[f], k]
                fits = fits and (c < 0 or place[families.candidates[v, c]] < place[v])
            if fits:
                chosen[v], scores[v] = number[f], families.reference[b] + math.log(families.values[f])
                break
