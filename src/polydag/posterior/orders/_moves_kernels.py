"""Compiled moves between linear orders.

`order` lists the variables, `place[v]` is where v stands, `logs[v]` the logarithm of the sum of its families
whose parents come before it: the log weight of an order is the sum of these. Moves change all three in
place; `power` flattens the target.

To draw the place of v anew, its weight at every place is needed. With v taken out, another variable u has one
sum without v and one with it, whichever side of v it is on. One of them is known; the other is more or less
by u's families with v (`pairs`), and where all these together (`most[u, v]`) are nothing beside u's sum, the
same. So a move costs as many short sums as there are variables for which v matters.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from polydag.posterior.families._sorted_families_kernels import log_sum, log_sum_before, predecessors

_NOTHING = 34.0  # logarithms below a sum, beyond which a part of it does not matter: 2e-15
_LARGE = 0.9  # share of a sum that is not subtracted from it, for rounding
_NEVER = 45.0  # and below the best place, beyond which a place is never drawn


class Room(NamedTuple):
    """Memory that is used again for every move."""

    rest: Any  # the order without the variable that moves
    without: Any  # sums of the others' families without it, and with it
    beside: Any
    weights: Any  # of its places
    total: Any  # its own sums by the last parent's place: numbers, and the logarithms they are relative to
    scale: Any
    part: Any  # the same of one block of families
    least: Any  # what its own sum is at least, at every place
    after: Any  # the first place after each candidate; the last of them for no candidate
    outside: Any
    wanted: Any


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
def _other_sum(ranked, pairs, position, place, node, u, p, after, log, room):  # type: ignore[no-untyped-def]
    """The sum of u, which has place p among the others, on the other side of the variable.

    `log` is its sum after the variable, or before. Where most of the sum goes away, the rest is summed anew.
    """
    predecessors(ranked.candidates, u, place, p, room.outside, room.wanted)
    word, bit = position[u, node] >> 6, np.uint64(1) << np.uint64(position[u, node] & 63)
    room.outside[word] &= ~bit
    change = log_sum(pairs, u * len(place) + node, room.outside, room.wanted, log - _NOTHING)
    if not after:
        return np.logaddexp(log, change)
    share = math.exp(change - log)
    if share < _LARGE:
        return log + math.log1p(-share)
    room.outside[word] |= bit
    return log_sum(ranked, u, room.outside, room.wanted)


@njit(cache=True, nogil=True)
def _weigh_others(ranked, pairs, most, position, place, logs, node, old, room):  # type: ignore[no-untyped-def]
    """Sums of the others without the variable and with it; what they weigh together at each of its places.

    The variable was at the place `old`.
    """
    n = len(logs)
    without, beside, rest, weights = room.without, room.beside, room.rest, room.weights
    total = 0.0
    for p in range(n - 1):
        u = rest[p]
        without[u] = beside[u] = logs[u]
        if most[u, node] > logs[u] - _NOTHING:
            other = _other_sum(ranked, pairs, position, place, node, u, p, p >= old, logs[u], room)
            if p >= old:
                without[u] = other
            else:
                beside[u] = other
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
    n, width = len(place), ranked.candidates.shape[1]
    weights, total, scale, least = room.weights, room.total, room.scale, room.least
    part, after = room.part, room.after
    sets, number = ranked.sets, ranked.number
    for c in range(width):
        after[c] = place[ranked.candidates[node, c]] + 1
    after[width] = 0  # where a set has no member
    for p in range(n):
        total[p], part[p], least[p] = 0.0, 0.0, -np.inf
    best, open_ = -np.inf, n  # places before `open_` have no family yet
    for b in range(ranked.first[node], ranked.first[node + 1]):
        if best > -np.inf and _settled(ranked.tail[b], power, best, weights, least):
            break
        for f in range(ranked.start[b], ranked.start[b + 1]):
            last = 0
            for k in range(sets.shape[1]):
                last = max(last, after[sets[number[f], k]])
            part[last] += ranked.values[f]
        reference = ranked.reference[b]
        for p in range(n):
            if part[p] == 0.0:
                continue
            if total[p] == 0.0:  # relative to itself, as the best of a block may be far above it
                total[p], scale[p] = 1.0, reference + math.log(part[p])
            elif reference > scale[p] - _NEVER:
                total[p] += part[p] * math.exp(reference - scale[p])
            if p < open_:
                found = reference + math.log(part[p])
                for q in range(p, open_):
                    least[q] = found
                    best = max(best, weights[q] + found)
                open_ = p
            part[p] = 0.0
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
def weigh_places(ranked, pairs, most, position, order, place, logs, node, power, room):  # type: ignore[no-untyped-def]
    """Take a variable out, and weigh all its places (`room.weights`)."""
    old = place[node]
    take_out(order, place, node, room)
    _weigh_others(ranked, pairs, most, position, place, logs, node, old, room)
    _weigh_own(ranked, place, node, power, room)


@njit(cache=True, nogil=True)
def relocations(ranked, pairs, most, position, order, place, logs, count, power, rng, room):  # type: ignore[no-untyped-def]
    """Draw the place of random variables anew, one after the other; how many went elsewhere."""
    n, moved = len(order), 0
    for _ in range(count):
        node = int(rng.random() * n)
        old = place[node]
        weigh_places(ranked, pairs, most, position, order, place, logs, node, power, room)
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
