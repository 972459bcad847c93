"""The causal order under equal error variances, by conditional variance (Chen, Drton and Wang 2019).

Given all variables before it, a variable whose parents are among them has exactly the error variance; any
other variable has a larger variance. The next variable in the order is therefore the one with the smallest
conditional variance. Each variable needs one rank-one update of the covariance, so the total cost is d³.
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Mask
from polydag.knowledge import Masks
from polydag.losses import LeastSquares

_SINGULAR = 1e-10
_TIE = 1e-9


def preferred_before(masks: Masks) -> Mask:
    """`[i, j]` is true if i should precede j: an edge between them is allowed only as `i -> j`."""
    result: Mask = masks.forbidden.T & ~masks.forbidden
    return result


def eligible_next(remaining: Mask, before: Mask, required: Mask) -> Mask:
    """Which of the remaining variables may come next, given `preferred_before` and the required edges.

    If the preferences of the remaining variables form a cycle, only the required edges count.
    """
    eligible = remaining & ~before[remaining].any(axis=0)
    return eligible if eligible.any() else remaining & ~required[remaining].any(axis=0)


def conditional_variance_order(loss: LeastSquares, masks: Masks) -> tuple[list[int], bool]:
    """The order, consistent with knowledge, and whether all conditional variances were positive."""
    C = loss.grams.copy()
    start = np.array([C[g, j, j] for j, g in enumerate(loss.group)])
    before = preferred_before(masks)
    remaining = np.ones(loss.d, dtype=bool)
    order: list[int] = []
    regular = True
    while remaining.any():
        eligible = eligible_next(remaining, before, masks.required)
        variance = np.where(eligible, C[loss.group, range(loss.d), range(loss.d)], np.inf)
        # The first among ties up to rounding: standardised columns all have the same variance.
        least = variance.min()
        k = int(np.argmax(variance <= least + _TIE * abs(least)))
        order.append(k)
        remaining[k] = False
        for g in range(len(C)):
            pivot = C[g, k, k]
            if pivot > _SINGULAR * start[k]:
                C[g] -= np.outer(C[g, :, k], C[g, k] / pivot)
            else:
                regular = False
    return order, regular


def predecessors(order: list[int]) -> Mask:
    """`[i, j]` is true if i comes before j."""
    position = np.empty(len(order), dtype=int)
    position[order] = np.arange(len(order))
    result: Mask = position[:, None] < position[None, :]
    return result
