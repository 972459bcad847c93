"""Compiled passes over the families of a node that a bucket order allows: sums, and shares of edges.

For a node i, with E the variables of earlier buckets and T some of its bucket mates, a pass computes

    g_i(T) = Σ {β_i(π): π ⊆ E ∪ T, π ⊇ T},

or gives every family its share of a factor that depends on T. β is `mantissa · 2^exponent`; `value` holds it
as plain numbers relative to `2^level` of the node. Where plain numbers cannot hold the sums of a state, each
g has an exponent of its own.

Sets are numbered as in `posterior.families.subsets`. Those that differ in their smallest members only are
contiguous, so that a pass has two levels: the larger members, and lists of what is allowed below them.

Shapes of arguments that several kernels share:

families : ScaledFamilies
work : Workspace
n_allowed : int
    How many candidates of the node are allowed, from `classify_candidates`.
g : array of shape (2^(members - 1),)
    Sums, or factors, by T.
gb : int32 array of shape (2^(members - 1),)
    Their exponents, or bands.
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.compilation import inner, kernel

NO_EXPONENT = -(1 << 30)
BAND = 1000  # bits
TOP, BLOCK, SHARE, SHARE_BLOCK = 0, 1, 2, 3  # what families are visited for
LOWEST, HIGHEST = -1100, 600  # exponents of the tabulated powers of two


class ScaledFamilies(NamedTuple):
    """Scores of families as `mantissa · 2^exponent` with a factor of its own for each node; read only."""

    candidates: Any  # int (n, c)
    sets: Any  # int16 (sets, max_parents): positions among the candidates, padded with -1
    start: Any  # int (max_parents + 2,): where the sets of each size begin
    choose: Any  # int (c + 1, max(max_parents, 2) + 1): binomial coefficients
    mantissa: Any  # (n, sets)
    exponent: Any  # int32 (n, sets)
    value: Any  # (n, sets): the scores as plain numbers relative to `2^level`
    level: Any  # int (n,)
    wide: Any  # bool (n,): nodes whose scores do not all fit into plain numbers
    powers: Any  # (HIGHEST - LOWEST + 1,): powers of two


class Workspace(NamedTuple):
    """Memory for one call; buckets have at most b variables, w is the number of pairs of candidates."""

    where: Any  # int (n,): the bucket of each variable
    slot: Any  # int (n,): its place in the bucket
    alpha: Any  # (b, 2^(b-1)): α of each member by subsets of the others, as mantissas
    alpha_b: Any  # int32 (b, 2^(b-1)): and bands
    F: Any  # (2^b,)
    Fb: Any  # int32 (2^b,)
    B: Any  # (2^b,)
    Bb: Any  # int32 (2^b,)
    blocked: Any  # bool (b,): whether the sums of a member needed exponents of their own
    allowed: Any  # int (c + 1,): candidates in this or an earlier bucket, ascending
    bit: Any  # int (c + 1,): of each candidate, the bit of a bucket mate, 0 for an earlier variable
    early: Any  # int (c + 1,): candidates in earlier buckets
    early_below: Any  # int (c + 1,): how many of them come before each candidate
    mates: Any  # int (c + 1,): candidates in the same bucket
    mates_below: Any  # int (c + 1,)
    early_pairs: Any  # int (w,): indices of pairs of early candidates
    mixed_pairs: Any  # int (b, c + 1): of a mate and an early candidate
    mate_pairs: Any  # int (b²,): of two mates
    chosen: Any  # int (max(max_parents, 1),): the larger members of the sets that are being visited
    single: Any  # (c + 1,): shares by candidate
    pair: Any  # (w,): and by pair of candidates


@inner
def workspace(families: ScaledFamilies, begin: Index) -> Workspace:
    """A workspace for the buckets that begin at `begin`, an int array of shape (buckets + 1,)."""
    n, c = families.candidates.shape
    most, b = families.sets.shape[1], 1
    for k in range(len(begin) - 1):
        b = max(b, begin[k + 1] - begin[k])
    w = c * (c - 1) // 2 + 1 if most > 2 else 1
    half, full = 1 << (b - 1), 1 << b
    return Workspace(
        np.empty(n, np.int64), np.empty(n, np.int64), np.empty((b, half)), np.empty((b, half), np.int32),
        np.empty(full), np.empty(full, np.int32), np.empty(full), np.empty(full, np.int32),
        np.empty(b, np.bool_), np.empty(c + 1, np.int64), np.empty(c + 1, np.int64),
        np.empty(c + 1, np.int64), np.empty(c + 1, np.int64), np.empty(c + 1, np.int64),
        np.empty(c + 1, np.int64), np.empty(w, np.int64), np.empty((b, c + 1), np.int64),
        np.empty(b * b, np.int64), np.empty(max(most, 1), np.int64), np.empty(c + 1), np.empty(w),
    )  # fmt: skip


@inner
def assign_buckets(order: Index, begin: Index, where: Index, slot: Index) -> None:
    """Fill in the bucket and the slot of each variable of an order.

    `order`, `where`, `slot`: int arrays of shape (n,); `begin`: int array of shape (buckets + 1,).
    """
    for k in range(len(begin) - 1):
        for place in range(begin[k], begin[k + 1]):
            where[order[place]] = k
            slot[order[place]] = place - begin[k]


@kernel
def classify_candidates(node: int, families: ScaledFamilies, work: Workspace) -> int:
    """Sort the node's candidates into earlier variables, bucket mates and later ones; list their pairs."""
    candidates, where, slot, allowed, bit = (
        families.candidates[node],
        work.where,
        work.slot,
        work.allowed,
        work.bit,
    )
    early, early_below, mates, mates_below = work.early, work.early_below, work.mates, work.mates_below
    n_allowed, n_early, n_mates = 0, 0, 0
    for c in range(len(candidates)):
        early_below[c], mates_below[c] = n_early, n_mates
        variable = candidates[c]
        if where[variable] > where[node]:
            continue
        allowed[n_allowed] = c
        n_allowed += 1
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
        _list_pairs(n_early, n_mates, families.choose, early, mates, work)
    return n_allowed


@inner
def _list_pairs(
    n_early: int, n_mates: int, choose: Index, early: Index, mates: Index, work: Workspace
) -> None:
    """Fill in the indices of pairs of candidates; pairs below a candidate come first."""
    pairs, found = work.early_pairs, 0
    for t in range(n_early):
        offset = choose[early[t], 2]
        for u in range(t):
            pairs[found] = offset + early[u]
            found += 1
    for j in range(n_mates):
        mixed, mate = work.mixed_pairs[j], mates[j]
        for t in range(n_early):
            low, high = min(mate, early[t]), max(mate, early[t])
            mixed[t] = choose[high, 2] + low
    pairs, found = work.mate_pairs, 0
    for j in range(n_mates):
        for i in range(j):
            pairs[found] = choose[mates[j], 2] + mates[i]
            found += 1


@inner
def _next(chosen: Index, size: int, n: int) -> bool:
    """The next ascending choice of `size` out of n; False after the last. `chosen`: int array."""
    for j in range(size):
        limit = chosen[j + 1] if j + 1 < size else n
        if chosen[j] + 1 < limit:
            chosen[j] += 1
            for i in range(j):
                chosen[i] = i
            return True
    return False


@inner
def plain_sums(node: int, n_allowed: int, families: ScaledFamilies, work: Workspace, g: Array) -> None:
    """Fill in g as plain numbers. Most of the time of a step is spent here, hence the explicit loops."""
    value, start, choose = families.value[node], families.start, families.choose
    allowed, bit, chosen = work.allowed, work.bit, work.chosen
    early, early_below, mates, mates_below = work.early, work.early_below, work.mates, work.mates_below
    early_pairs, mixed_pairs, mate_pairs = work.early_pairs, work.mixed_pairs, work.mate_pairs
    width = len(bit) - 1
    g[:] = 0.0
    g[0] = value[0]
    for size in range(1, len(start) - 1):
        by_pair = size > 2
        larger = size - 2 if by_pair else size - 1
        for j in range(larger):
            chosen[j] = j
        more = larger <= n_allowed
        while more:
            base, inside = start[size], 0
            for j in range(larger):
                c = allowed[chosen[j]]
                base += choose[c, size - larger + j + 1]
                inside |= bit[c]
            below = allowed[chosen[0]] if larger else width
            n_early, n_mates = early_below[below], mates_below[below]
            listed = early_pairs if by_pair else early
            count = n_early * (n_early - 1) // 2 if by_pair else n_early
            # Four sums side by side, since an addition has to wait for the one before.
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
            more = _next(chosen, larger, n_allowed)


@inner
def visit_family(
    mode: int,
    s: int,
    T: int,
    value: Array,
    mantissa: Array,
    exponent: NDArray[np.int32],
    level: int,
    powers: Array,
    g: Array,
    gb: NDArray[np.int32],
) -> float:
    """One family s with the bucket mates T: adds to g or gb, or returns its share, depending on the mode.

    `value`, `mantissa` and `exponent` are those of the node, of shape (sets,).
    """
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


@inner
def _visit_stretch(
    mode: int,
    base: int,
    T: int,
    listed: Index,
    count: int,
    value: Array,
    mantissa: Array,
    exponent: NDArray[np.int32],
    level: int,
    powers: Array,
    g: Array,
    gb: NDArray[np.int32],
    shares: Array,
) -> float:
    """The families `base + listed[:count]`, which share the bucket mates T; returns their shares' sum."""
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
            share = visit_family(mode, base + listed[t], T, value, mantissa, exponent, level, powers, g, gb)
            shares[listed[t]] += share
            total += share
    return total


@inner
def visit_families(
    mode: int,
    node: int,
    n_allowed: int,
    families: ScaledFamilies,
    work: Workspace,
    g: Array,
    gb: NDArray[np.int32],
) -> None:
    """Visit all allowed families of a node.

    Sums go into g, as mantissas (BLOCK) of the exponents gb, which are the largest that occur (TOP). Shares
    of each family with the factor g (SHARE) and its band gb (SHARE_BLOCK) go into `work.single`, by member.
    """
    value, mantissa, exponent = families.value[node], families.mantissa[node], families.exponent[node]
    level, powers, start, choose = families.level[node], families.powers, families.start, families.choose
    allowed, bit, chosen, single, pair = work.allowed, work.bit, work.chosen, work.single, work.pair
    early, early_below, mates, mates_below = work.early, work.early_below, work.mates, work.mates_below
    early_pairs, mixed_pairs, mate_pairs = work.early_pairs, work.mixed_pairs, work.mate_pairs
    width = len(bit) - 1
    sharing = mode == SHARE or mode == SHARE_BLOCK
    if sharing:
        single[:] = 0.0
        pair[:] = 0.0
    visit_family(mode, 0, 0, value, mantissa, exponent, level, powers, g, gb)
    for size in range(1, len(start) - 1):
        by_pair = size > 2
        larger = size - 2 if by_pair else size - 1
        for j in range(larger):
            chosen[j] = j
        more = larger <= n_allowed
        while more:
            base, inside = start[size], 0
            for j in range(larger):
                c = allowed[chosen[j]]
                base += choose[c, size - larger + j + 1]
                inside |= bit[c]
            below = allowed[chosen[0]] if larger else width
            n_early, n_mates = early_below[below], mates_below[below]
            if by_pair:
                total = _visit_stretch(
                    mode, base, inside, early_pairs, n_early * (n_early - 1) // 2,
                    value, mantissa, exponent, level, powers, g, gb, pair,
                )  # fmt: skip
                found = 0
                for j in range(n_mates):
                    T = inside | bit[mates[j]]
                    total += _visit_stretch(
                        mode, base, T, mixed_pairs[j], n_early,
                        value, mantissa, exponent, level, powers, g, gb, pair,
                    )  # fmt: skip
                    for i in range(j):
                        both, c = T | bit[mates[i]], mate_pairs[found]
                        share = visit_family(
                            mode, base + c, both, value, mantissa, exponent, level, powers, g, gb
                        )
                        found += 1
                        if sharing:
                            pair[c] += share
                            total += share
            else:
                total = _visit_stretch(
                    mode, base, inside, early, n_early,
                    value, mantissa, exponent, level, powers, g, gb, single,
                )  # fmt: skip
                for j in range(n_mates):
                    c = mates[j]
                    share = visit_family(
                        mode, base + c, inside | bit[c], value, mantissa, exponent, level, powers, g, gb
                    )
                    if sharing:
                        single[c] += share
                        total += share
            if sharing:
                for j in range(larger):
                    single[allowed[chosen[j]]] += total
            more = _next(chosen, larger, n_allowed)
    if sharing and len(start) > 4:
        for t in range(n_allowed):
            high = allowed[t]
            for u in range(t):
                share = pair[choose[high, 2] + allowed[u]]
                single[high] += share
                single[allowed[u]] += share
