"""Compiled weights, moves and edge probabilities of bucket orders.

A state puts the variables into buckets, one after the other; `order` lists them bucket by bucket and bucket k
has the places `begin[k], …, begin[k + 1] - 1`. Inside a bucket every order counts. For a node i in it, with E
the variables of earlier buckets, and U any of its bucket mates,

    α_i(E + U) = Σ_{T ⊆ U} g_i(T),    g_i(T) = Σ {β_i(π): π within E + T, π has all of T},

so that a bucket costs one walk over the families that fit, a zeta transform for each member, and a sum over
the orders of its members by their subsets. β is `mantissa · 2^exponent`; `value` holds it as plain numbers
relative to `2^level` of the node. Where a state needs more than plain numbers can hold, each g has an
exponent of its own; sums over orders have bands as in `polydag.discovery.lattice`.

Sets are numbered as in `polydag.discovery.subsets`: those that differ in their smallest members only lie in
one stretch, so that a walk has two levels: larger members, and lists of what fits below them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from polydag.discovery.lattice._kernels import (
    _DOWN,
    _HIGH,
    _LOW,
    _UP,
    NOTHING,
    _share,
    _sum,
    _without,
    _zeta,
    _zeta_up,
    _zeta_wide,
)

_NONE = -(1 << 30)
_SAFE = 2.0**900  # plain sums are kept within this and its inverse
_BAND = 1000
_LOG2 = math.log(2.0)
_TOP, _BLOCK, _SHARE, _SHARE_BLOCK = 0, 1, 2, 3  # what a walk is for
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
def _settle(order, begin, where, slot):  # type: ignore[no-untyped-def]
    for k in range(len(begin) - 1):
        for place in range(begin[k], begin[k + 1]):
            where[order[place]] = k
            slot[order[place]] = place - begin[k]


@njit(cache=True, nogil=True)
def _look(node, families, room):  # type: ignore[no-untyped-def]
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
def _sums(node, n_able, families, room, g):  # type: ignore[no-untyped-def]
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
def _one(mode, s, T, value, mantissa, exponent, level, powers, g, gb):  # type: ignore[no-untyped-def]
    """One family with the bucket mates T: what the walk is for; its share."""
    if mode == _TOP:
        gb[T] = max(gb[T], exponent[s])
    elif mode == _BLOCK:
        g[T] += mantissa[s] * powers[max(exponent[s] - gb[T] - LOWEST, 0)]
    elif mode == _SHARE:
        return value[s] * g[T]
    else:
        place = exponent[s] - level + _BAND * gb[T] - LOWEST
        return mantissa[s] * g[T] * powers[min(max(place, 0), HIGHEST - LOWEST)]
    return 0.0


@njit(cache=True, nogil=True)
def _stretch(mode, base, T, listed, count, value, mantissa, exponent, level, powers, g, gb, shares):  # type: ignore[no-untyped-def]
    """Families `base + listed[…]`, all with the same bucket mates; the sum of their shares."""
    total = 0.0
    if mode == _TOP:
        top = gb[T]
        for t in range(count):
            top = max(top, exponent[base + listed[t]])
        gb[T] = top
    elif mode == _BLOCK:
        low = gb[T] + LOWEST
        for t in range(count):
            s = base + listed[t]
            total += mantissa[s] * powers[max(exponent[s] - low, 0)]
        g[T] += total
    elif mode == _SHARE:
        factor = g[T]
        for t in range(count):
            share = value[base + listed[t]] * factor
            shares[listed[t]] += share
            total += share
    else:
        for t in range(count):
            share = _one(mode, base + listed[t], T, value, mantissa, exponent, level, powers, g, gb)
            shares[listed[t]] += share
            total += share
    return total


@njit(cache=True, nogil=True)
def _walk(mode, node, n_able, families, room, g, gb):  # type: ignore[no-untyped-def]
    """Go through the families that fit.

    Sums: into g, as mantissas (_BLOCK) that belong to the exponents gb, the largest that occur (_TOP).
    Shares: of each family with the factor g (and its band gb), into `room.single`, by member.
    """
    value, mantissa, exponent = families.value[node], families.mantissa[node], families.exponent[node]
    level, powers, start, choose = families.level[node], families.powers, families.start, families.choose
    able, bit, chosen, single, pair = room.able, room.bit, room.chosen, room.single, room.pair
    early, early_below, mates, mates_below = room.early, room.early_below, room.mates, room.mates_below
    early_pairs, mixed_pairs, mate_pairs = room.early_pairs, room.mixed_pairs, room.mate_pairs
    width = len(bit) - 1
    sharing = mode == _SHARE or mode == _SHARE_BLOCK
    if sharing:
        single[:] = 0.0
        pair[:] = 0.0
    _one(mode, 0, 0, value, mantissa, exponent, level, powers, g, gb)
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
                        share = _one(mode, base + c, both, value, mantissa, exponent, level, powers, g, gb)
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
                    share = _one(
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


@njit(cache=True, nogil=True)
def _alpha(node, families, room, a, ab):  # type: ignore[no-untyped-def]
    """α of a node over the subsets of its bucket mates; 0 if impossible, 1 for plain sums, 2 for others."""
    n_able = _look(node, families, room)
    _sums(node, n_able, families, room, a)
    if families.wide[node] and not (a[0] >= 1.0 / _SAFE and a.sum() <= _SAFE):
        ab[:] = _NONE
        _walk(_TOP, node, n_able, families, room, a, ab)
        a[:] = 0.0
        _walk(_BLOCK, node, n_able, families, room, a, ab)
        for k in range(len(a)):
            if a[k] > 0.0:
                exponent = ab[k] - families.level[node]
                ab[k] = (exponent + _BAND // 2) // _BAND
                a[k] *= families.powers[exponent - ab[k] * _BAND - LOWEST]
            else:
                ab[k] = NOTHING
        _zeta_wide(a, ab, False)
        return 2 if a[len(a) - 1] > 0.0 else 0
    _zeta(a)
    for k in range(len(a)):
        v = a[k]
        big, small = v >= _HIGH, v < _LOW
        ab[k] = (1 if big else (-1 if small else 0)) if v > 0.0 else NOTHING
        a[k] = v * (_DOWN if big else (_UP if small else 1.0))
    return 1 if a[len(a) - 1] > 0.0 else 0


@njit(cache=True, nogil=True)
def _bucket(k, order, begin, families, room):  # type: ignore[no-untyped-def]
    """The log weight of a bucket: the sum over the orders of its members; leaves α and F behind."""
    size = begin[k + 1] - begin[k]
    half = 1 << (size - 1)
    log_scale = 0.0
    for m in range(size):
        node = order[begin[k] + m]
        kind = _alpha(node, families, room, room.alpha[m, :half], room.alpha_b[m, :half])
        if kind == 0:
            return -math.inf
        room.blocked[m] = kind == 2
        log_scale += families.level[node] * _LOG2
    _forward(size, room)
    last = (1 << size) - 1
    if room.F[last] == 0.0:
        return -math.inf
    return math.log(room.F[last]) + _BAND * _LOG2 * room.Fb[last] + log_scale


@njit(cache=True, nogil=True)
def _forward(size, room):  # type: ignore[no-untyped-def]
    """`F(S) = Σ_{m ∈ S} α_m(S - m) F(S - m)`."""
    F, Fb, alpha, alpha_b = room.F, room.Fb, room.alpha, room.alpha_b
    F[0], Fb[0] = 1.0, 0
    for S in range(1, 1 << size):
        v, b = 0.0, NOTHING
        for m in range(size):
            if (S >> m) & 1:
                o = S ^ (1 << m)
                p = _without(o, m)
                v, b = _sum(v, b, alpha[m, p] * F[o], alpha_b[m, p] + Fb[o])
        F[S], Fb[S] = v, b


@njit(cache=True, nogil=True)
def _backward(size, room):  # type: ignore[no-untyped-def]
    """`B(S) = Σ_{m ∉ S} α_m(S) B(S + m)`."""
    B, Bb, alpha, alpha_b = room.B, room.Bb, room.alpha, room.alpha_b
    last = (1 << size) - 1
    B[last], Bb[last] = 1.0, 0
    for S in range(last - 1, -1, -1):
        v, b = 0.0, NOTHING
        for m in range(size):
            if not (S >> m) & 1:
                o = S | (1 << m)
                p = _without(S, m)
                v, b = _sum(v, b, alpha[m, p] * B[o], alpha_b[m, p] + Bb[o])
        B[S], Bb[S] = v, b


@njit(cache=True, nogil=True)
def weigh(order, begin, first, last, families, room, logs):  # type: ignore[no-untyped-def]
    """Fill in the log weights of the buckets from `first` to `last`; False as soon as one is impossible."""
    _settle(order, begin, room.where, room.slot)
    for k in range(first, last + 1):
        logs[k] = _bucket(k, order, begin, families, room)
        if logs[k] == -math.inf:
            return False
    return True


@njit(cache=True, nogil=True)
def swaps(order, begin, logs, power, places, log_chance, families, room):  # type: ignore[no-untyped-def]
    """Propose to swap the variables at pairs of places; how many proposals were accepted.

    The target is the weight to a power, 1 but for tempered chains. Changes `order` and `logs`.
    """
    accepted = 0
    proposed = np.empty_like(logs)
    for step in range(len(places)):
        a, b = min(places[step]), max(places[step])
        first = np.searchsorted(begin, a, side="right") - 1
        last = np.searchsorted(begin, b, side="right") - 1
        if first == last:
            continue
        order[a], order[b] = order[b], order[a]
        gain = -math.inf
        if weigh(order, begin, first, last, families, room, proposed):
            gain = proposed[first : last + 1].sum() - logs[first : last + 1].sum()
        if log_chance[step] < power * gain:
            logs[first : last + 1] = proposed[first : last + 1]
            accepted += 1
        else:
            order[a], order[b] = order[b], order[a]
    return accepted


@njit(cache=True, nogil=True)
def redraw(order, begin, chance, families, room):  # type: ignore[no-untyped-def]
    """Draw an order of every bucket's members from its distribution; changes `order`."""
    _settle(order, begin, room.where, room.slot)
    drawn = order.copy()
    for k in range(len(begin) - 1):
        size = begin[k + 1] - begin[k]
        _bucket(k, order, begin, families, room)
        S = (1 << size) - 1
        for place in range(begin[k + 1] - 1, begin[k] - 1, -1):
            # From the back: the last of S has the probability of its term in F(S).
            left, member = chance[place], -1
            for m in range(size):
                if not (S >> m) & 1:
                    continue
                o = S ^ (1 << m)
                p = _without(o, m)
                share, band = _share(
                    room.alpha[m, p], room.alpha_b[m, p], room.F[o], room.Fb[o], 1.0 / room.F[S], room.Fb[S]
                )
                share = share * (1.0 if band == 0 else (_UP if band > 0 else (_DOWN if band == -1 else 0.0)))
                if share > 0.0:
                    member = m
                    left -= share
                    if left < 0.0:
                        break
            drawn[place] = order[begin[k] + member]
            S ^= 1 << member
    order[:] = drawn


@njit(cache=True, nogil=True)
def shift(order, begin, other, logs, power, chance, log_chance, families, room):  # type: ignore[no-untyped-def]
    """Draw an order from the state, draw it anew inside other buckets, and go back; whether accepted.

    Reversible with respect to the weight, so that only a tempered chain (power below 1) ever rejects.
    """
    proposed, new = order.copy(), np.empty_like(logs)
    redraw(proposed, begin, chance[0], families, room)
    redraw(proposed, other, chance[1], families, room)
    if not weigh(proposed, begin, 0, len(logs) - 1, families, room, new):
        return False
    if log_chance >= (power - 1.0) * (new.sum() - logs.sum()):
        return False
    order[:] = proposed
    logs[:] = new
    return True


@njit(cache=True, nogil=True)
def edge_shares(order, begin, families, room, edges):  # type: ignore[no-untyped-def]
    """Add the probability of each edge `[i, j]`, `i -> j`, given the state."""
    _settle(order, begin, room.where, room.slot)
    for k in range(len(begin) - 1):
        size = begin[k + 1] - begin[k]
        _bucket(k, order, begin, families, room)
        _backward(size, room)
        for place in range(begin[k], begin[k + 1]):
            node = order[place]
            h, hb = _factors(room.slot[node], size, room)
            n_able = _look(node, families, room)
            mode = _SHARE_BLOCK if room.blocked[room.slot[node]] else _SHARE
            _walk(mode, node, n_able, families, room, h, hb)
            for t in range(n_able):
                edges[families.candidates[node, room.able[t]], node] += room.single[room.able[t]]


@njit(cache=True, nogil=True)
def family_shares(node, order, begin, families, room, out):  # type: ignore[no-untyped-def]
    """Add the probability of each family of a node given the state."""
    _settle(order, begin, room.where, room.slot)
    k = room.where[node]
    size = begin[k + 1] - begin[k]
    _bucket(k, order, begin, families, room)
    _backward(size, room)
    h, hb = _factors(room.slot[node], size, room)
    _look(node, families, room)
    mode = _SHARE_BLOCK if room.blocked[room.slot[node]] else _SHARE
    sets, where, candidates = families.sets, room.where, families.candidates[node]
    value, mantissa, exponent = families.value[node], families.mantissa[node], families.exponent[node]
    level = families.level[node]
    for s in range(len(sets)):
        T, fits = 0, True
        for j in range(sets.shape[1]):
            c = sets[s, j]
            if c < 0:
                break
            fits = fits and where[candidates[c]] <= k
            T |= room.bit[c]
        if fits:
            out[s] += _one(mode, s, T, value, mantissa, exponent, level, families.powers, h, hb)


@njit(cache=True, nogil=True)
def _factors(m, size, room):  # type: ignore[no-untyped-def]
    """`Σ_{U ⊇ T} F(U) B(U + i) / F(all)` for the member i at place m: what β_i(π) is multiplied with."""
    last, half = (1 << size) - 1, 1 << (size - 1)
    # α has done its work, and its place is free.
    h, hb = room.alpha[m, :half], room.alpha_b[m, :half]
    scale, scale_b = 1.0 / room.F[last], room.Fb[last]
    for p in range(half):
        U = ((p >> m) << (m + 1)) | (p & ((1 << m) - 1))
        o = U | (1 << m)
        v, b = _share(room.F[U], room.Fb[U], room.B[o], room.Bb[o], scale, scale_b)
        if room.blocked[m]:
            hb[p] = b if v > 0.0 else NOTHING
        else:
            v = v * (1.0 if b == 0 else (_UP if b == 1 else (_DOWN if b == -1 else 0.0)))
        h[p] = v
    if room.blocked[m]:
        _zeta_wide(h, hb, True)
    else:
        _zeta_up(h)
    return h, hb
