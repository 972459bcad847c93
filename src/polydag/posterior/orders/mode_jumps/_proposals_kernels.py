"""Compiled proposals of mode jumps: a part of an order is taken out and inserted again (see `Layout`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from polydag.arrays import Array, Index, Int
from polydag.compilation import inner, kernel

if TYPE_CHECKING:
    from polydag.posterior.orders.mode_jumps.moves import Layout


@kernel
def propose_order(
    order: Index, here: Layout, there: Layout, backwards: bool, rng: np.random.Generator, new: Index
) -> float:
    """Fill in `new` with an order that has the part in the layout `there` instead of `here`.

    Returns the log of the ratio of the probabilities of the reverse proposal and of this one; -inf where
    the part is not in the layout `here`.

    Parameters
    ----------
    order, new : int arrays of shape (n,)
    here, there : Layout
    backwards : bool
        Whether orders are read from their end.
    """
    old = order[::-1].copy() if backwards else order.copy()
    places = np.empty((len(here.sequence), 2))
    back = insert_part(old, here, False, rng, new, places)
    if back == -np.inf:
        return -np.inf
    forth = insert_part(old, there, True, rng, new, places)
    if backwards:
        new[:] = new[::-1].copy()
    return back - forth


@kernel
def insert_part(
    order: Index, layout: Layout, drawn: bool, rng: np.random.Generator, new: Index, places: Array
) -> float:
    """Fill in `new` with an order whose part has random places (`drawn`) or its present ones.

    Returns the log probability of these places; -inf where the present places cannot come about this way.

    Parameters
    ----------
    order, new : int arrays of shape (n,)
    layout : Layout
        Of a part of k variables.
    places : array of shape (k, 2)
        For each variable, gets the number of places after its parents, and how many it left behind itself.
    """
    sequence, parents, shapes = layout.sequence, layout.parents, layout.shapes
    n, size = len(order), len(order) - len(sequence)
    inside = np.zeros(n, np.bool_)
    inside[sequence] = True
    was, place = np.empty(n, np.int64), np.full(n, -1)
    filled = 0
    for p in range(n):
        was[order[p]] = p
        if not inside[order[p]]:
            new[filled] = order[p]
            place[order[p]] = filled
            filled += 1
    log_probability = 0.0
    for i in range(len(sequence)):
        v, low = sequence[i], 0
        for k in range(parents.shape[1]):
            if parents[i, k] >= 0:
                low = max(low, place[parents[i, k]] + 1)
        available, a, b = size - low, shapes[i, 0], shapes[i, 1]
        if drawn:
            spot = size - rng.binomial(available, rng.beta(a, b))
        else:
            spot = 0
            for p in range(size):
                spot += was[new[p]] < was[v]
            if spot < low:
                return -np.inf
        places[i, 0], places[i, 1] = available, size - spot
        log_probability += _log_beta_binomial(available, size - spot, a, b)
        for p in range(size, spot, -1):
            new[p] = new[p - 1]
            place[new[p]] = p
        new[spot] = v
        place[v] = spot
        size += 1
    return log_probability


@inner
def _log_beta_binomial(n: Int, k: Int, a: float, b: float) -> float:
    """The log probability of k out of n."""
    rest = n - k
    return (
        math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(rest + 1.0)
        + math.lgamma(k + a) + math.lgamma(rest + b) - math.lgamma(n + a + b)
        - math.lgamma(a) - math.lgamma(b) + math.lgamma(a + b)
    )  # fmt: skip
