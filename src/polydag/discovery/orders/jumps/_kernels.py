"""The compiled part of jumps: a part of an order taken out and put back."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def put_back(order, sequence, parents, later, drawn, rng, line):  # type: ignore[no-untyped-def]
    """Fill `line` with an order in which a part has new places, or its old ones; the log chance of these.

    `-inf` where the old places cannot have come about in this way.
    """
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
    shares = np.empty(n + 1)
    chance = 0.0
    for i in range(len(sequence)):
        v, low = sequence[i], 0
        for k in range(parents.shape[1]):
            if parents[i, k] >= 0:
                low = max(low, place[parents[i, k]] + 1)
        total = _ways(size - low, later[i], shares)
        if drawn:
            left, room = rng.random() * total, 0
            while room < size - low and left >= shares[room]:
                left -= shares[room]
                room += 1
            spot = size - room
        else:
            spot = 0
            for p in range(size):
                spot += was[line[p]] < was[v]
            if spot < low:
                return -np.inf
        chance += math.log(shares[size - spot] / total)
        for p in range(size, spot, -1):
            line[p] = line[p - 1]
            place[line[p]] = p
        line[spot] = v
        place[v] = spot
        size += 1
    return chance


@njit(cache=True, nogil=True)
def _ways(most, later, shares):  # type: ignore[no-untyped-def]
    """In how many ways `later` others fit into a room of 0, 1, … places, relative to the most; their sum."""
    log = 0.0
    for room in range(most + 1):
        if room:
            log += math.log1p(later / room)
        shares[room] = log
    total = 0.0
    for room in range(most + 1):
        shares[room] = math.exp(shares[room] - log)
        total += shares[room]
    return total
