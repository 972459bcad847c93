"""Compiled moves between linear orders.

`order` lists the variables, `place[v]` is where v stands, `logs[v]` the logarithm of the sum of its families
whose parents come before it: the log weight of an order is the sum of these. Moves change all three in
place; `power` flattens the target.

To draw the place of v anew, its weight at every place is needed. With v taken out, another variable u has one
sum without v and one with it, whichever side of v it is on; where all families of u with v together
(`most[u, v]`) are nothing beside u's sum, both are that sum. So a move costs as many sums as there are
variables for which v matters.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from polydag.discovery.ranked._kernels import log_apart, log_sum, log_sum_before, predecessors

_NOTHING = 34.0  # logarithms below a sum, beyond which a part of it does not matter: 2e-15
_NEVER = 45.0  # and below the best place, beyond which a place is never drawn


class Room(NamedTuple):
    """Memory that is used again for every move."""

    rest: Any  # the order without the variable that moves
    without: Any  # sums of the others' families without it, and with it
    beside: Any
    weights: Any  # of its places
    total: Any  # its own sums by the last parent's place: numbers, and the logarithms they are relative to
    scale: Any
    least: Any  # what its own sum is at least, at every place
    outside: Any
    wanted: Any


@njit(cache=True, nogil=True)
def shares_of_pairs(ranked, n):  # type: ignore[no-untyped-def]
    """The logarithm of the sum of the families of u that have v, `[u, v]`."""
    result = np.full((n, n), -np.inf)
    sets, number = ranked.sets, ranked.number
    for u in range(n):
        for b in range(ranked.first[u], ranked.first[u + 1]):
            for f in range(ranked.start[b], ranked.start[b + 1]):
                score = ranked.reference[b] + math.log(ranked.values[f])
                for k in range(sets.shape[1]):
                    if sets[number[f], k] >= 0:
                        v = ranked.candidates[u, sets[number[f], k]]
                        result[u, v] = np.logaddexp(result[u, v], score)
    return result


@njit(cache=True, nogil=True)
def score(ranked, order, place, logs, room):  # type: ignore[no-untyped-def]
    """Fill in the places and the log sums of an order."""
    for p in range(len(order)):
        place[order[p]] = p
    for v in range(len(order)):
        if ranked.start[ranked.first[v + 1]] - ranked.start[ranked.first[v]] < len(order):
            logs[v] = log_sum_before(ranked, v, place)
        else:
            predecessors(ranked.candidates, v, place, place[v], room.outside, room.wanted)
            logs[v] = log_sum(ranked, v, room.outside, room.wanted)


@njit(cache=True, nogil=True)
def _weigh_others(ranked, most, position, place, logs, node, room):  # type: ignore[no-untyped-def]
    """Sums of the others without the variable and with it; what they weigh together at each of its places."""
    n = len(logs)
    without, beside, rest, weights = room.without, room.beside, room.rest, room.weights
    total = 0.0
    for p in range(n - 1):
        u = rest[p]
        without[u] = beside[u] = logs[u]
        if most[u, node] > logs[u] - _NOTHING:
            predecessors(ranked.candidates, u, place, p, room.outside, room.wanted)
            without[u], beside[u] = log_apart(ranked, u, room.outside, room.wanted, position[u, node])
        total += beside[u]
    weights[0] = total
    for p in range(1, n):
        # What cannot be without the variable makes all later places impossible.
        total += without[rest[p - 1]] - beside[rest[p - 1]]
        weights[p] = total


@njit(cache=True, nogil=True)
def _settled(rest, power, best, weights, least):  # type: ignore[no-untyped-def]
    """Whether families of this sum change nothing any more at any place that can be drawn."""
    for p in range(len(weights)):
        if rest > least[p] - _NOTHING and power * (weights[p] + max(rest, least[p]) - best) > -_NEVER:
            return False
    return True


@njit(cache=True, nogil=True)
def _weigh_own(ranked, place, node, power, room):  # type: ignore[no-untyped-def]
    """Add the variable's own sums to the weights of its places; `room.total` gets their logarithms."""
    n = len(place)
    weights, total, scale, least = room.weights, room.total, room.scale, room.least
    sets, number, candidates = ranked.sets, ranked.number, ranked.candidates[node]
    for p in range(n):
        total[p], least[p] = 0.0, -np.inf
    best, open_ = -np.inf, n  # places before `open_` have no family yet
    for b in range(ranked.first[node], ranked.first[node + 1]):
        if best > -np.inf and _settled(ranked.tail[b], power, best, weights, least):
            break
        reference = ranked.reference[b]
        for f in range(ranked.start[b], ranked.start[b + 1]):
            after = 0
            for k in range(sets.shape[1]):
                c = sets[number[f], k]
                if c >= 0:
                    after = max(after, place[candidates[c]] + 1)
            value = ranked.values[f]
            if total[after] == 0.0:
                total[after], scale[after] = value, reference
            elif scale[after] == reference:
                total[after] += value
            elif reference > scale[after] - _NEVER:
                total[after] += value * math.exp(reference - scale[after])
            if after < open_:
                found = reference + math.log(value)
                for p in range(after, open_):
                    least[p] = found
                    best = max(best, weights[p] + found)
                open_ = after
    so_far = -np.inf
    for p in range(n):
        if total[p] > 0.0:
            so_far = np.logaddexp(so_far, math.log(total[p]) + scale[p])
        total[p] = so_far
        weights[p] += so_far


@njit(cache=True, nogil=True)
def drawn(weights, power, rng):  # type: ignore[no-untyped-def]
    """A place in proportion to `exp(power · weight)`."""
    best = weights.max()
    total = 0.0
    for p in range(len(weights)):
        share = power * (weights[p] - best)
        total += math.exp(share) if share > -_NEVER else 0.0
    left, last = rng.random() * total, 0
    for p in range(len(weights)):
        share = power * (weights[p] - best)
        if share > -_NEVER:
            last = p
            left -= math.exp(share)
            if left < 0.0:
                break
    return last


@njit(cache=True, nogil=True)
def take_out(order, place, node, room):  # type: ignore[no-untyped-def]
    """The others move up; the variable is nowhere."""
    n, old = len(order), place[node]
    for p in range(old):
        room.rest[p] = order[p]
    for p in range(old + 1, n):
        room.rest[p - 1] = order[p]
        place[order[p]] = p - 1
    place[node] = n


@njit(cache=True, nogil=True)
def weigh_places(ranked, most, position, order, place, logs, node, power, room):  # type: ignore[no-untyped-def]
    """Take a variable out, and weigh all its places (`room.weights`)."""
    take_out(order, place, node, room)
    _weigh_others(ranked, most, position, place, logs, node, room)
    _weigh_own(ranked, place, node, power, room)


@njit(cache=True, nogil=True)
def relocations(ranked, most, position, order, place, logs, count, power, rng, room):  # type: ignore[no-untyped-def]
    """Draw the place of random variables anew, one after the other; how many went elsewhere."""
    n, moved = len(order), 0
    for _ in range(count):
        node = int(rng.random() * n)
        old = place[node]
        weigh_places(ranked, most, position, order, place, logs, node, power, room)
        new = drawn(room.weights, power, rng)
        for p in range(n - 1):
            u = room.rest[p]
            q = p if p < new else p + 1
            order[q], place[u] = u, q
            logs[u] = room.without[u] if p < new else room.beside[u]
        order[new], place[node], logs[node] = node, new, room.total[new]
        moved += new != old
    return moved


@njit(cache=True, nogil=True)
def best_families(ranked, place, chosen, scores):  # type: ignore[no-untyped-def]
    """The best family of each variable in an order, by its number in the table, and its log score."""
    sets, number = ranked.sets, ranked.number
    for v in range(len(place)):
        b = ranked.first[v]
        for f in range(ranked.start[b], ranked.start[ranked.first[v + 1]]):
            while f >= ranked.start[b + 1]:
                b += 1
            fits = True
            for k in range(sets.shape[1]):
                c = sets[number[f], k]
                fits = fits and (c < 0 or place[ranked.candidates[v, c]] < place[v])
            if fits:
                chosen[v], scores[v] = number[f], ranked.reference[b] + math.log(ranked.values[f])
                break
