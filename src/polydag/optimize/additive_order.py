"""A starting order for additive noise models with equal noise variances (Gao, Ding and Aragam 2020).

As in `variance_order.conditional_variance_order`, but with a few smooth functions of each predecessor instead
of the predecessor itself: the next variable is the one with the smallest variance given functions of all
variables before it. This needs only second moments of the columns and the functions, which can be merged over
parties once mean and scale are common.
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array
from polydag.knowledge import Masks
from polydag.optimize.variance_order import eligible_next, preferred_before
from polydag.stats import GaussianStats

_BENDS = (-1.5, -0.5, 0.5, 1.5)  # where the functions are steepest, in standard deviations
_FUNCTIONS = 1 + len(_BENDS)
_RIDGE = 1e-3


def with_functions(rows: Array, mean: Array, scale: Array) -> Array:
    """The rows, followed by each variable's standardised values and sigmoid functions of them."""
    Z = (rows - mean) / scale
    functions = np.stack([Z, *(np.tanh(Z - bend) for bend in _BENDS)], axis=2)
    return np.column_stack([rows, functions.reshape(len(rows), -1)])


def additive_order(stats: GaussianStats, masks: Masks) -> list[int]:
    """The order from the statistics of `with_functions`, root causes first, consistent with knowledge."""
    d = len(masks.required)
    scale = np.sqrt(stats.covariance.diagonal())
    scale[:d] = 1.0
    C = stats.covariance / np.outer(scale, scale)
    before = preferred_before(masks)
    remaining = np.ones(d, dtype=bool)
    order: list[int] = []
    while remaining.any():
        eligible = eligible_next(remaining, before, masks.required)
        k = int(np.argmin(np.where(eligible, C.diagonal()[:d], np.inf)))
        order.append(k)
        remaining[k] = False
        own = slice(d + k * _FUNCTIONS, d + (k + 1) * _FUNCTIONS)
        C = C - C[:, own] @ np.linalg.solve(C[own, own] + _RIDGE * np.eye(_FUNCTIONS), C[own])
    return order
