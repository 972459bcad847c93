"""An order of variables to start from, when each is an additive function of others plus noise of one size.

As `order.conditional_variance_order`, with a few smooth functions of every predecessor in the place of the
predecessor itself (Gao, Ding and Aragam 2020): the next variable is the one with the smallest variance given
functions of all before it. Only second moments of the columns and the functions are needed; those merge over
parties once mean and scale are common.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polydag.knowledge import Masks
from polydag.stats import GaussianStats

Array = NDArray[np.float64]

_BENDS = (-1.5, -0.5, 0.5, 1.5)  # where the functions are steepest, in standard deviations
_FUNCTIONS = 1 + len(_BENDS)
_RIDGE = 1e-3


def with_functions(rows: Array, mean: Array, scale: Array) -> Array:
    """The rows, then for each variable its standardised value and sigmoids of it."""
    Z = (rows - mean) / scale
    functions = np.stack([Z, *(np.tanh(Z - bend) for bend in _BENDS)], axis=2)
    return np.column_stack([rows, functions.reshape(len(rows), -1)])


def additive_order(stats: GaussianStats, masks: Masks) -> list[int]:
    """Sources first, from the statistics of `with_functions`; what knowledge demands comes before all.

    Of two variables of which only one may point at the other, that one comes first, unless such wishes form
    a cycle; required edges are always followed.
    """
    d = len(masks.required)
    scale = np.sqrt(stats.covariance.diagonal())
    scale[:d] = 1.0
    C = stats.covariance / np.outer(scale, scale)
    waits_for = masks.forbidden.T & ~masks.forbidden
    remaining = np.ones(d, dtype=bool)
    order: list[int] = []
    while remaining.any():
        free = remaining & ~waits_for[remaining].any(axis=0)
        if not free.any():
            free = remaining & ~masks.required[remaining].any(axis=0)
        k = int(np.argmin(np.where(free, C.diagonal()[:d], np.inf)))
        order.append(k)
        remaining[k] = False
        own = slice(d + k * _FUNCTIONS, d + (k + 1) * _FUNCTIONS)
        C = C - C[:, own] @ np.linalg.solve(C[own, own] + _RIDGE * np.eye(_FUNCTIONS), C[own])
    return order
