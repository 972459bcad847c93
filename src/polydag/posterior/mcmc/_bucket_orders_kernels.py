"""Compiled weights, draws and edge probabilities of bucket orders.

A state puts the variables into buckets, one after the other; `order` lists them bucket by bucket and bucket k
has the places `begin[k], …, begin[k + 1] - 1`. Inside a bucket every order counts. For a node i in it, with E
the variables of earlier buckets, and U any of its bucket mates,

    α_i(E + U) = Σ_{T ⊆ U} g_i(T)

with the sums g of `_bucket_families_kernels`, so that a bucket costs one walk over the families that
fit, a zeta transform for each member, and a sum over the orders of its members by their subsets, with bands
as in `polydag.posterior.exact.subset_lattice`.
"""

from __future__ import annotations

import math

from numba import njit

from polydag.posterior.exact._subset_lattice_kernels import (
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
from polydag.posterior.mcmc._bucket_families_kernels import (
    BAND,
    BLOCK,
    LOWEST,
    NONE,
    SHARE,
    SHARE_BLOCK,
    TOP,
    look,
    one,
    settle,
    sums,
    walk,
)

_SAFE = 2.0**900  # plain sums are kept within this and its inverse
_LOG2 = math.log(2.0)


@njit(cache=True, nogil=True)
def _alpha(node, families, room, a, ab):  # type: ignore[no-untyped-def]
    """α of a node over the subsets of its bucket mates; 0 if impossible, 1 for plain sums, 2 for others."""
    n_able = look(node, families, room)
    sums(node, n_able, families, room, a)
    if families.wide[node] and not (a[0] >= 1.0 / _SAFE and a.sum() <= _SAFE):
        ab[:] = NONE
        walk(TOP, node, n_able, families, room, a, ab)
        a[:] = 0.0
        walk(BLOCK, node, n_able, families, room, a, ab)
        for k in range(len(a)):
            if a[k] > 0.0:
                exponent = ab[k] - families.level[node]
                ab[k] = (exponent + BAND // 2) // BAND
                a[k] *= families.powers[exponent - ab[k] * BAND - LOWEST]
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
    return math.log(room.F[last]) + BAND * _LOG2 * room.Fb[last] + log_scale


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
def weigh(order, begin, families, room):  # type: ignore[no-untyped-def]
    """The log weight of a state."""
    settle(order, begin, room.where, room.slot)
    total = 0.0
    for k in range(len(begin) - 1):
        total += _bucket(k, order, begin, families, room)
    return total


@njit(cache=True, nogil=True)
def redraw(order, begin, chance, families, room, logs):  # type: ignore[no-untyped-def]
    """Draw an order of every bucket's members from its distribution; changes `order`.

    `logs[i]` becomes the logarithm of the sum of the families of i that fit the new order.
    """
    settle(order, begin, room.where, room.slot)
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
            node = order[begin[k] + member]
            S ^= 1 << member
            p = _without(S, member)
            exponent = BAND * room.alpha_b[member, p] + families.level[node]
            drawn[place], logs[node] = node, math.log(room.alpha[member, p]) + exponent * _LOG2
    order[:] = drawn


@njit(cache=True, nogil=True)
def edge_shares(order, begin, families, room, edges):  # type: ignore[no-untyped-def]
    """Add the probability of each edge `[i, j]`, `i -> j`, given the state; its log weight."""
    settle(order, begin, room.where, room.slot)
    total = 0.0
    for k in range(len(begin) - 1):
        size = begin[k + 1] - begin[k]
        total += _bucket(k, order, begin, families, room)
        _backward(size, room)
        for place in range(begin[k], begin[k + 1]):
            node = order[place]
            h, hb = _factors(room.slot[node], size, room)
            n_able = look(node, families, room)
            mode = SHARE_BLOCK if room.blocked[room.slot[node]] else SHARE
            walk(mode, node, n_able, families, room, h, hb)
            for t in range(n_able):
                edges[families.candidates[node, room.able[t]], node] += room.single[room.able[t]]
    return total


@njit(cache=True, nogil=True)
def family_shares(node, order, begin, families, room, out):  # type: ignore[no-untyped-def]
    """Add the probability of each family of a node given the state."""
    settle(order, begin, room.where, room.slot)
    k = room.where[node]
    size = begin[k + 1] - begin[k]
    _bucket(k, order, begin, families, room)
    _backward(size, room)
    h, hb = _factors(room.slot[node], size, room)
    look(node, families, room)
    mode = SHARE_BLOCK if room.blocked[room.slot[node]] else SHARE
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
            out[s] += one(mode, s, T, value, mantissa, exponent, level, families.powers, h, hb)


@njit(cache=True, nogil=True)
def _factors(m, size, room):  # type: ignore[no-untyped-def]
    """`Σ_{U ⊇ T} F(U) B(U + i) / F(all)` for the member i at place m: what β_i(π) is multiplied with."""
    last, half = (1 << size) - 1, 1 << (size - 1)
    # Each α is read once more before its place is taken.
    h, hb = room.alpha[m, :half], room.alpha_b[m, :half]
    scale, scale_b = 1.0 / room.F[last], room.Fb[last]
    for p in range(half):
        U = ((p >> m) << (m + 1)) | (p & ((1 << m) - 1))
        o = U | (1 << m)
        v, b = _share(room.F[U], room.Fb[U], room.B[o], room.Bb[o], scale, scale_b)
        if h[p] == 0.0:
            # No family of i fits, so that no order puts U just before it: without that limit the factor may
            # overflow, and families that are ruled out would multiply infinity by zero.
            v = 0.0
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
