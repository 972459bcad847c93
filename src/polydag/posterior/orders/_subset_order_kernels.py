"""Compiled draws of the order of a few variables among the places that they hold, given all others.

Let S be k variables, anywhere in an order, and U those of them that stand on the first |U| of their places.
With the others fixed, the sum of a variable of S on the next place depends on U alone, and so does that of
every other variable between two of the places. So the sum over all k! arrangements is one over subsets,

    F(U) = Π_{u between the places |U| and |U| + 1} α_u(U)^power · Σ_{m ∈ U} F(U - m) α_m(U - m)^power,

from which an arrangement is drawn backwards. This turns around edges among variables that belong together,
which takes many draws of single places. Which variables are drawn does not depend on the order (`near` lists
likely neighbours by their scores), so that the draw leaves the posterior as it is.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from polydag.posterior.families._sorted_families_kernels import log_sum, predecessors

_NOTHING = 34.0  # as in `polydag.posterior.orders.moves`
_TRIES = 20  # for each variable, to find it among the neighbours of others


class Desk(NamedTuple):
    """Memory that is used again for every draw."""

    chosen: Any  # the variables
    inside: Any  # their number among these, -1 of all others
    spots: Any  # their places
    before: Any  # how many of these come before a place
    slot: Any  # where sums are kept, by subset and level
    subset: Any  # which of the variables a sum's families have
    level: Any  # and how many places must come before, for the other parents to
    total: Any
    scale: Any
    alpha: Any
    between: Any
    F: Any
    size: Any  # of each subset
    touched: Any  # others that it matters to


@njit(cache=True, nogil=True)
def _choose(near, desk, rng):  # type: ignore[no-untyped-def]
    """Random variables that are likely to be connected."""
    n, k = len(near), len(desk.chosen)
    found, tries = 0, 0
    while found < k:
        v = int(rng.random() * n)
        if 0 < found and tries < _TRIES * k:
            v = near[desk.chosen[int(rng.random() * found)], int(rng.random() * near.shape[1])]
        tries += 1
        if desk.inside[v] < 0:
            desk.chosen[found], desk.inside[v] = v, found
            found += 1


@njit(cache=True, nogil=True)
def _collect(ranked, node, place, own, desk):  # type: ignore[no-untyped-def]
    """The node's families by their members among the variables and by level; how many sums.

    `own` is the place of a node that stays where it is, -1 of one that moves.
    """
    k = len(desk.chosen)
    sets, number, candidates = ranked.sets, ranked.number, ranked.candidates[node]
    slot, total, scale = desk.slot, desk.total, desk.scale
    count = 0
    for b in range(ranked.first[node], ranked.first[node + 1]):
        reference = ranked.reference[b]
        # What fits whatever stands where makes small families negligible.
        if slot[0] >= 0 and ranked.tail[b] < scale[slot[0]] + math.log(total[slot[0]]) - _NOTHING:
            break
        for f in range(ranked.start[b], ranked.start[b + 1]):
            subset, level = 0, 0
            for j in range(sets.shape[1]):
                c = sets[number[f], j]
                if c < 0:
                    continue
                v = candidates[c]
                if desk.inside[v] >= 0:
                    subset |= 1 << desk.inside[v]
                elif own < 0:
                    level = max(level, desk.before[place[v]])
                elif place[v] >= own:
                    level = k
            if level >= k:
                continue
            key = subset * k + level
            s = slot[key]
            if s < 0:
                slot[key], desk.subset[count], desk.level[count] = count, subset, level
                # Relative to itself, as the best of a block may be far above it.
                total[count], scale[count] = 1.0, reference + math.log(ranked.values[f])
                count += 1
            elif reference > scale[s] - _NOTHING:
                total[s] += ranked.values[f] * math.exp(reference - scale[s])
    for s in range(count):
        slot[desk.subset[s] * k + desk.level[s]] = -1
        total[s] = math.log(total[s]) + scale[s]
    return count


@njit(cache=True, nogil=True)
def _fitting(U, count, desk):  # type: ignore[no-untyped-def]
    """The logarithm of the sum of what fits when the variables U come before."""
    top, total = -np.inf, 0.0
    for s in range(count):
        if desk.subset[s] & U == desk.subset[s] and desk.level[s] <= desk.size[U]:
            log = desk.total[s]
            if log > top:
                total = total * math.exp(top - log) + 1.0
                top = log
            else:
                total += math.exp(log - top)
    return top + math.log(total) if total > 0.0 else -np.inf


@njit(cache=True, nogil=True)
def _term(U, m, power, desk):  # type: ignore[no-untyped-def]
    """The logarithm of F(U - m) α_m(U - m)^power."""
    o = U ^ (1 << m)
    return desk.F[o] + power * desk.alpha[m, o]


@njit(cache=True, nogil=True)
def _sum_up(power, desk):  # type: ignore[no-untyped-def]
    k = len(desk.chosen)
    desk.F[0] = 0.0
    for U in range(1, 1 << k):
        top = -np.inf
        for m in range(k):
            if (U >> m) & 1:
                top = max(top, _term(U, m, power, desk))
        total = 0.0
        if top > -np.inf:
            for m in range(k):
                if (U >> m) & 1:
                    total += math.exp(_term(U, m, power, desk) - top)
        desk.F[U] = top + math.log(total) + power * desk.between[U] if total > 0.0 else -np.inf


@njit(cache=True, nogil=True)
def _weigh(ranked, most, order, place, logs, desk):  # type: ignore[no-untyped-def]
    """Fill in the sums by subset; how many others it matters to."""
    n, k = len(order), len(desk.chosen)
    found = 0
    for p in range(n):
        desk.before[p] = found
        if desk.inside[order[p]] >= 0:
            desk.spots[found] = p
            found += 1
    desk.between[:] = 0.0
    for m in range(k):
        count = _collect(ranked, desk.chosen[m], place, -1, desk)
        for U in range(1 << k):
            if not (U >> m) & 1:
                desk.alpha[m, U] = _fitting(U, count, desk)
    touched = 0
    for p in range(desk.spots[0] + 1, desk.spots[k - 1]):
        u = order[p]
        matters = False
        for m in range(k):
            matters = matters or most[u, desk.chosen[m]] > logs[u] - _NOTHING
        if desk.inside[u] >= 0 or not matters:
            continue
        desk.touched[touched] = u
        touched += 1
        count = _collect(ranked, u, place, p, desk)
        for U in range(1 << k):
            if desk.size[U] == desk.before[p]:
                desk.between[U] += _fitting(U, count, desk)
    return touched


@njit(cache=True, nogil=True)
def _draw(order, place, logs, power, rng, desk):  # type: ignore[no-untyped-def]
    """Put the variables on their places, from the last to the first; whether any moved."""
    k = len(desk.chosen)
    U, moved = (1 << k) - 1, False
    for j in range(k - 1, -1, -1):
        whole = desk.F[U] - power * desk.between[U]
        left, last = rng.random(), -1
        for m in range(k):
            if (U >> m) & 1:
                share = math.exp(_term(U, m, power, desk) - whole)
                if share > 0.0:
                    last = m
                    left -= share
                    if left < 0.0:
                        break
        v = desk.chosen[last]
        U ^= 1 << last
        moved = moved or place[v] != desk.spots[j]
        order[desk.spots[j]], place[v], logs[v] = v, desk.spots[j], desk.alpha[last, U]
    return moved


@njit(cache=True, nogil=True)
def arrangements(ranked, most, near, order, place, logs, count, power, rng, desk, outside, wanted):  # type: ignore[no-untyped-def]
    """Draw the arrangements of several sets of variables anew; how many changed."""
    changed = 0
    for _ in range(count):
        _choose(near, desk, rng)
        touched = _weigh(ranked, most, order, place, logs, desk)
        _sum_up(power, desk)
        if _draw(order, place, logs, power, rng, desk):
            changed += 1
            for t in range(touched):
                u = desk.touched[t]
                predecessors(ranked.candidates, u, place, place[u], outside, wanted)
                logs[u] = log_sum(ranked, u, outside, wanted)
        for v in desk.chosen:
            desk.inside[v] = -1
    return changed
