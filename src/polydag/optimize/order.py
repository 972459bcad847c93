"""The order of variables when error variances are equal: sources first, by conditional variance.

A variable whose parents all stand before it has, given those, just its error's variance; any other has more.
So the next in order is the one with the smallest variance given all before it (Chen, Drton and Wang 2019).
One rank-one update of the covariance a variable: d³ in all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polydag.knowledge import Masks
from polydag.losses import LeastSquares

_SINGULAR = 1e-10
_TIE = 1e-9


def conditional_variance_order(loss: LeastSquares, masks: Masks) -> tuple[list[int], bool]:
    """The order, and whether every conditional variance was away from zero.

    Of two variables of which only one may point at the other, that one comes first, unless such wishes form
    a cycle; required edges are always followed.
    """
    C = loss.grams.copy()
    start = np.array([C[g, j, j] for j, g in enumerate(loss.group)])
    waits_for = masks.forbidden.T & ~masks.forbidden
    remaining = np.ones(loss.d, dtype=bool)
    order: list[int] = []
    sound = True
    while remaining.any():
        free = remaining & ~waits_for[remaining].any(axis=0)
        if not free.any():
            free = remaining & ~masks.required[remaining].any(axis=0)
        variance = np.where(free, C[loss.group, range(loss.d), range(loss.d)], np.inf)
        # Of equals the first, whatever rounding says: standardised columns all have the same variance.
        least = variance.min()
        k = int(np.argmax(variance <= least + _TIE * abs(least)))
        order.append(k)
        remaining[k] = False
        for g in range(len(C)):
            pivot = C[g, k, k]
            if pivot > _SINGULAR * start[k]:
                C[g] -= np.outer(C[g, :, k], C[g, k] / pivot)
            else:
                sound = False
    return order, sound


def predecessors(order: list[int]) -> NDArray[np.bool_]:
    """`[i, j]`: i stands before j."""
    place = np.empty(len(order), dtype=int)
    place[order] = np.arange(len(order))
    result: NDArray[np.bool_] = place[:, None] < place[None, :]
    return result
