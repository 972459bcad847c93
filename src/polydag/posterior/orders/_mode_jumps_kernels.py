"""The compiled part of jumps: a part of an order taken out and put back. `here` and `there` are `Side`s."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from polydag.posterior.orders._moves_kernels import score


@njit(cache=True, nogil=True)
def propose(ranked, order, here, there, backwards, rng, new, place, logs, room):  # type: ignore[no-untyped-def]
    """Fill in the state that a part's other places lead to; the log ratio of the chances back and forth.

    `-inf` where the part is not as it is `here`.
    """
    old = order[::-1].copy() if backwards else order.copy()
    rooms = np.empty((len(here.sequence), 2))
    back = put_back(old, here, False, rng, new, rooms)
    if back == -np.inf:
        return -np.inf
    forth = put_back(old, there, True, rng, new, rooms)
    if backwards:
        new[:] = new[::-1].copy()
    score(ranked, new, place, logs, room)
    return back - forth


@njit(cache=True, nogil=True)
def put_back(order, side, drawn, rng, line, rooms):  # type: ignore[no-untyped-def]
    """Fill `line` with an order in which a part has new places, or its old ones; the log chance of these.

    Of each variable `rooms` gets how many places there were behind its parents, and how many it left behind
    itself. The chance is `-inf` where the old places cannot have come about in this way.
    """
    sequence, parents, shapes = side.sequence, side.parents, side.shapes
    n, size = len(order), len(order) - len(sequence)
    inside = np.zeros(n, np.bool_)
    inside[sequence] = True
    was, place = np.empty(n, np.int64), np.full(n, -1)
    filled = 0
    for p in range(n):
        was[order[p]] = p
        if not inside[order[p]]:
            line[filled] = order[p]
            place[order[p]] = filled
            filled += 1
    chance = 0.0
    for i in range(len(sequence)):
        v, low = sequence[i], 0
        for k in range(parents.shape[1]):
            if parents[i, k] >= 0:
                low = max(low, place[parents[i, k]] + 1)
        most, a, b = size - low, shapes[i, 0], shapes[i, 1]
        if drawn:
            spot = size - rng.binomial(most, rng.beta(a, b))
        else:
            spot = 0
            for p in range(size):
                spot += was[line[p]] < was[v]
            if spot < low:
                return -np.inf
        rooms[i, 0], rooms[i, 1] = most, size - spot
        chance += _log_chance(most, size - spot, a, b)
        for p in range(size, spot, -1):
            line[p] = line[p - 1]
            place[line[p]] = p
        line[spot] = v
        place[v] = spot
        size += 1
    return chance


@njit(cache=True, nogil=True)
def _log_chance(most, room, a, b):  # type: ignore[no-untyped-def]
    """Of a beta-binomial variable."""
    rest = most - room
    return (
        math.lgamma(most + 1.0) - math.lgamma(room + 1.0) - math.lgamma(rest + 1.0)
        + math.lgamma(room + a) + math.lgamma(rest + b) - math.lgamma(most + a + b)
        - math.lgamma(a) - math.lgamma(b) + math.lgamma(a + b)
    )  # fmt: skip
