"""Compiled walks over the families of a node that fit into a bucket order, as sums and as shares.

For a node i, with E the variables of earlier buckets and T some of its bucket mates, a walk adds up

    g_i(T) = Σ {β_i(π): π within E + T, π has all of T},

or gives every family its share of a factor by T. β is `mantissa · 2^exponent`; `value` holds it as plain
numbers relative to `2^level` of the node. Where a state needs more than plain numbers can hold, each g has an
exponent of its own.

Sets are numbered as in `posterior.families.subsets`: those that differ in their smallest members only lie in
one stretch, so that a walk has two levels: larger members, and lists of what fits below them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import njit

NONE = -(1 << 30)
BAND = 1000
TOP, BLOCK, SHARE, SHARE_BLOCK = 0, 1, 2, 3  # what a walk is for
LOWEST, HIGHEST = -1100, 600  # exponents that powers of two are looked up for


class Families(NamedTuple):
    """Scores as the kernels take them, read only."""

    candidates: Any
    sets: Any
    start: Any
    choose: Any
    mantissa: Any
    exponent: Any
    value: Any
    level: Any
    wide: Any
    powers: Any


class Room(NamedTuple):
    """Memory that is used again for every bucket."""

    where: Any  # bucket of each variable
    slot: Any  # place of each variable in its bucket
    alpha: Any
    alpha_b: Any
    F: Any
    Fb: Any
    B: Any
    Bb: Any
    blocked: Any  # whether a member's sums needed exponents of their own
    able: Any  # candidates in this or an earlier bucket, ascending
    bit: Any  # of each candidate: the bit of a bucket mate, 0 of an earlier variable
    early: Any  # candidates in earlier buckets, and how many of them come before each
    early_below: Any
    mates: Any  # candidates in the same bucket
    mates_below: Any
    early_pairs: Any  # numbers of pairs
    mixed_pairs: Any
    mate_pairs: Any
    chosen: Any
    single: Any  # shares by candidate, and by pair of candidates
    pair: Any


@njit(cache=True, nogil=True)
def settle(order, begin, where, slot):  # type: ignore[no-untyped-def]
    for k in range(len(begin) - 1):
        for place in range(begin[k], begin[k + 1]):
            where[order[place]] = k
            slot[order[place]] = place - begin[k]


@njit(cache=True, nogil=True)
def look(node, families, room):  # type: ignore[no-untyped-def]
    """Sort the node's candidates into earlier ones, bucket mates and later ones; list their pairs."""
    candidates, where, slot, able, bit = families.candidates[node], room.where, room.slot, room.able, room.bit
    early, early_below, mates, mates_below = room.early, room.early_below, room.mates, room.mates_below
    n_able, n_early, n_mates = 0, 0, 0
    for c in range(len(candidates)):
        early_below[c], mates_below[c] = n_early, n_mates
        variable = candidates[c]
        if where[variable] > where[node]:
            continue
        able[n_able] = c
        n_able += 1
        if where[variable] < where[node]:
            bit[c] = 0
            early[n_early] = c
            n_early += 1
        else:
            bit[c] = 1 << (slot[variable] - 1 if slot[variable] > slot[node] else slot[variable])
            mates[n_mates] = c
            n_mates += 1
    early_below[len(candidates)], mates_below[len(candidates)] = n_early, n_mates
    if len(families.start) > 4:
        _list_pairs(n_early, n_mates, families.choose, early, mates, room)
    return n_able


@njit(cache=True, nogil=True)
def _list_pairs(n_early, n_mates, choose, early, mates, room):  # type: ignore[no-untyped-def]
    """Numbers of pairs of candidates: those below a candidate come first."""
    pairs, found = room.early_pairs, 0
    for t in range(n_early):
        offset = choose[early[t], 2]
        for u in range(t):
            pairs[found] = offset + early[u]
            found += 1
    for j in range(n_mates):
        mixed, mate = room.mixed_pairs[j], mates[j]
        for t in range(n_early):
            low, high = min(mate, early[t]), max(mate, early[t])
            mixed[t] = choose[high, 2] + low
    pairs, found = room.mate_pairs, 0
    for j in range(n_mates):
        for i in range(j):
            pairs[found] = choose[mates[j], 2] + mates[i]
            found += 1


@njit(cache=True, nogil=True)
def _next(chosen, size, n):  # type: ignore[no-untyped-def]
    """The next ascending choice of `size` places out of n; False after the last."""
    for j in range(size):
        limit = chosen[j + 1] if j + 1 < size else n
        if chosen[j] + 1 < limit:
            chosen[j] += 1
            for i in range(j):
                chosen[i] = i
            return True
    return False


@njit(cache=True, nogil=True)
def sums(node, n_able, families, room, g):  # type: ignore[no-untyped-def]
    """g as plain numbers: the walk that steps wait for, written out."""
    value, start, choose = families.value[node], families.start, families.choose
    able, bit, chosen = room.able, room.bit, room.chosen
    early, early_below, mates, mates_below = room.early, room.early_below, room.mates, room.mates_below
    early_pairs, mixed_pairs, mate_pairs = room.early_pairs, room.mixed_pairs, room.mate_pairs
    width = len(bit) - 1
    g[:] = 0.0
    g[0] = value[0]
    for size in range(1, len(start) - 1):
        by_pair = size > 2
        larger = size - 2 if by_pair else size - 1
        for j in range(larger):
            chosen[j] = j
        more = larger <= n_able
        while more:
            base, inside = start[size], 0
            for j in range(larger):
                c = able[chosen[j]]
                base += choose[c, size - larger + j + 1]
                inside |= bit[c]
            below = able[chosen[0]] if larger else width
            n_early, n_mates = early_below[below], mates_below[below]
            listed = early_pairs if by_pair else early
            count = n_early * (n_early - 1) // 2 if by_pair else n_early
            # Four sums side by side, since an addition waits for the one before.
            a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
            whole = count - count % 4
            for t in range(0, whole, 4):
                a0 += value[base + listed[t]]
                a1 += value[base + listed[t + 1]]
                a2 += value[base + listed[t + 2]]
                a3 += value[base + listed[t + 3]]
            for t in range(whole, count):
                a0 += value[base + listed[t]]
            g[inside] += (a0 + a1) + (a2 + a3)
            found = 0
            for j in range(n_mates):
                T = inside | bit[mates[j]]
                if not by_pair:
                    g[T] += value[base + mates[j]]
                    continue
                a0, a1 = 0.0, 0.0
                for t in range(0, n_early - 1, 2):
                    a0 += value[base + mixed_pairs[j, t]]
                    a1 += value[base + mixed_pairs[j, t + 1]]
                if n_early % 2:
                    a0 += value[base + mixed_pairs[j, n_early - 1]]
                g[T] += a0 + a1
                for i in range(j):
                    g[T | bit[mates[i]]] += value[base + mate_pairs[found]]
                    found += 1
            more = _next(chosen, larger, n_able)


@njit(cache=True, nogil=True)
def one(mode, s, T, value, mantissa, exponent, level, powers, g, gb):  # type: ignore[no-untyped-def]
    """One family with the bucket mates T: what the walk is for; its share."""
    if mode == TOP:
        gb[T] = max(gb[T], exponent[s])
    elif mode == BLOCK:
        g[T] += mantissa[s] * powers[max(exponent[s] - gb[T] - LOWEST, 0)]
    elif mode == SHARE:
        return value[s] * g[T]
    else:
        place = exponent[s] - level + BAND * gb[T] - LOWEST
        return mantissa[s] * g[T] * powers[min(max(place, 0), HIGHEST - LOWEST)]
    return 0.0


@njit(cache=True, nogil=True)
def _stretch(mode, base, T, listed, count, value, mantissa, exponent, level, powers, g, gb, shares):  # type: ignore[no-untyped-def]
    """Families `base + listed[…]`, all with the same bucket mates; the sum of their shares."""
    total = 0.0
    if mode == TOP:
        top = gb[T]
        for t in range(count):
            top = max(top, exponent[base + listed[t]])
        gb[T] = top
    elif mode == BLOCK:
        low = gb[T] + LOWEST
        for t in range(count):
            s = base + listed[t]
            total += mantissa[s] * powers[max(exponent[s] - low, 0)]
        g[T] += total
    elif mode == SHARE:
        factor = g[T]
        for t in range(count):
            share = value[base + listed[t]] * factor
            shares[listed[t]] += share
            total += share
    else:
        for t in range(count):
            share = one(mode, base + listed[t], T, value, mantissa, exponent, level, powers, g, gb)
            shares[listed[t]] += share
            total += share
    return total


@njit(cache=True, nogil=True)
def walk(mode, node, n_able, families, room, g, gb):  # type: ignore[no-untyped-def]
    """Go through the families that fit.

    Sums: into g, as mantissas (BLOCK) that belong to the exponents gb, the largest that occur (TOP).
    Shares: of each family with the factor g (and its band gb), into `room.single`, by member.
    """
    value, mantissa, exponent = families.value[node], families.mantissa[node], families.exponent[node]
    level, powers, start, choose = families.level[node], families.powers, families.start, families.choose
    able, bit, chosen, single, pair = room.able, room.bit, room.chosen, room.single, room.pair
    early, early_below, mates, mates_below = room.early, room.early_below, room.mates, room.mates_below
    early_pairs, mixed_pairs, mate_pairs = room.early_pairs, room.mixed_pairs, room.mate_pairs
    width = len(bit) - 1
    sharing = mode == SHARE or mode == SHARE_BLOCK
    if sharing:
        single[:] = 0.0
        pair[:] = 0.0
    one(mode, 0, 0, value, mantissa, exponent, level, powers, g, gb)
    for size in range(1, len(start) - 1):
        by_pair = size > 2
        larger = size - 2 if by_pair else size - 1
        for j in range(larger):
            chosen[j] = j
        more = larger <= n_able
        while more:
            base, inside = start[size], 0
            for j in range(larger):
                c = able[chosen[j]]
                base += choose[c, size - larger + j + 1]
                inside |= bit[c]
            below = able[chosen[0]] if larger else width
            n_early, n_mates = early_below[below], mates_below[below]
            if by_pair:
                total = _stretch(
                    mode, base, inside, early_pairs, n_early * (n_early - 1) // 2,
                    value, mantissa, exponent, level, powers, g, gb, pair,
                )  # fmt: skip
                found = 0
                for j in range(n_mates):
                    T = inside | bit[mates[j]]
                    total += _stretch(
                        mode, base, T, mixed_pairs[j], n_early,
                        value, mantissa, exponent, level, powers, g, gb, pair,
                    )  # fmt: skip
                    for i in range(j):
                        both, c = T | bit[mates[i]], mate_pairs[found]
                        share = one(mode, base + c, both, value, mantissa, exponent, level, powers, g, gb)
                        found += 1
                        if sharing:
                            pair[c] += share
                            total += share
            else:
                total = _stretch(
                    mode, base, inside, early, n_early,
                    value, mantissa, exponent, level, powers, g, gb, single,
                )  # fmt: skip
                for j in range(n_mates):
                    c = mates[j]
                    share = one(
                        mode, base + c, inside | bit[c], value, mantissa, exponent, level, powers, g, gb
                    )
                    if sharing:
                        single[c] += share
                        total += share
            if sharing:
                for j in range(larger):
                    single[able[chosen[j]]] += total
            more = _next(chosen, larger, n_able)
    if sharing and len(start) > 4:
        for t in range(n_able):
            high = able[t]
            for u in range(t):
                share = pair[choose[high, 2] + able[u]]
                single[high] += share
                single[able[u]] += share
