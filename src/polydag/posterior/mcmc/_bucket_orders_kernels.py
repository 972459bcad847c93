"""Compiled weights, draws and edge probabilities of bucket orders.

A bucket order divides the variables into buckets, one after the other. `order` lists the variables bucket by
bucket, and bucket k has the places `begin[k], …, begin[k + 1] - 1`. All orders within a bucket are summed
over. For a node i of the bucket, with E the variables of earlier buckets and U any of its bucket mates,

    α_i(E ∪ U) = Σ_{T ⊆ U} g_i(T)

with the sums g of `_bucket_families_kernels`. A bucket thus takes one pass over the allowed families, a zeta
transform for each member, and a sum over the orders of its members by subsets, with bands as in
`polydag.posterior.exact.subset_lattice`.

Shapes of arguments that several kernels share:

order : int array of shape (n,)
begin : int array of shape (buckets + 1,)
families : ScaledFamilies
work : Workspace
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.compilation import inner, kernel
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
    NO_EXPONENT,
    SHARE,
    SHARE_BLOCK,
    TOP,
    assign_buckets,
    classify_candidates,
    plain_sums,
    visit_families,
    visit_family,
    workspace,
)

if TYPE_CHECKING:
    from polydag.posterior.mcmc._bucket_families_kernels import ScaledFamilies, Workspace

_SAFE = 2.0**900  # plain sums are kept within this and its inverse
_LOG2 = math.log(2.0)


@inner
def _alpha(node: int, families: ScaledFamilies, work: Workspace, a: Array, ab: NDArray[np.int32]) -> int:
    """Fill in α of a node over the subsets of its bucket mates, as mantissas a and bands ab.

    `a`: array of shape (2^(members - 1),), `ab`: int32 of the same shape. Returns 0 if the node has no
    allowed family, 1 for plain sums, 2 for sums with exponents of their own.
    """
    n_allowed = classify_candidates(node, families, work)
    plain_sums(node, n_allowed, families, work, a)
    if families.wide[node] and not (a[0] >= 1.0 / _SAFE and a.sum() <= _SAFE):
        ab[:] = NO_EXPONENT
        visit_families(TOP, node, n_allowed, families, work, a, ab)
        a[:] = 0.0
        visit_families(BLOCK, node, n_allowed, families, work, a, ab)
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


@inner
def _bucket(k: int, order: Index, begin: Index, families: ScaledFamilies, work: Workspace) -> float:
    """The log weight of bucket k, the sum over the orders of its members; leaves α and F in the workspace."""
    size = begin[k + 1] - begin[k]
    half = 1 << (size - 1)
    log_scale = 0.0
    for m in range(size):
        node = order[begin[k] + m]
        kind = _alpha(node, families, work, work.alpha[m, :half], work.alpha_b[m, :half])
        if kind == 0:
            return -math.inf
        work.blocked[m] = kind == 2
        log_scale += families.level[node] * _LOG2
    _forward(size, work)
    last = (1 << size) - 1
    if work.F[last] == 0.0:
        return -math.inf
    return math.log(work.F[last]) + BAND * _LOG2 * work.Fb[last] + log_scale


@inner
def _forward(size: int, work: Workspace) -> None:
    """`F(S) = Σ_{m ∈ S} α_m(S - m) F(S - m)`."""
    F, Fb, alpha, alpha_b = work.F, work.Fb, work.alpha, work.alpha_b
    F[0], Fb[0] = 1.0, 0
    for S in range(1, 1 << size):
        v, b = 0.0, NOTHING
        for m in range(size):
            if (S >> m) & 1:
                o = S ^ (1 << m)
                p = _without(o, m)
                v, b = _sum(v, b, alpha[m, p] * F[o], alpha_b[m, p] + Fb[o])
        F[S], Fb[S] = v, b


@inner
def _backward(size: int, work: Workspace) -> None:
    """`B(S) = Σ_{m ∉ S} α_m(S) B(S + m)`."""
    B, Bb, alpha, alpha_b = work.B, work.Bb, work.alpha, work.alpha_b
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


@kernel
def log_weight(order: Index, begin: Index, families: ScaledFamilies) -> float:
    """The log weight of a bucket order, up to the scores' references."""
    work = workspace(families, begin)
    assign_buckets(order, begin, work.where, work.slot)
    total = 0.0
    for k in range(len(begin) - 1):
        total += _bucket(k, order, begin, families, work)
    return total


@kernel
def redraw(order: Index, begin: Index, uniform: Array, families: ScaledFamilies, log_sums: Array) -> None:
    """Draw an order of the members of every bucket from its distribution; changes `order`.

    `uniform`, of shape (n,), are uniform random numbers; `log_sums[i]` gets the log of the sum over the
    families of i that the new order allows.
    """
    work = workspace(families, begin)
    assign_buckets(order, begin, work.where, work.slot)
    drawn = order.copy()
    for k in range(len(begin) - 1):
        size = begin[k + 1] - begin[k]
        _bucket(k, order, begin, families, work)
        S = (1 << size) - 1
        for place in range(begin[k + 1] - 1, begin[k] - 1, -1):
            # From the back: the last of S has the probability of its term in F(S).
            left, member = uniform[place], -1
            for m in range(size):
                if not (S >> m) & 1:
                    continue
                o = S ^ (1 << m)
                p = _without(o, m)
                share, band = _share(
                    work.alpha[m, p], work.alpha_b[m, p], work.F[o], work.Fb[o], 1.0 / work.F[S], work.Fb[S]
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
            exponent = BAND * work.alpha_b[member, p] + families.level[node]
            drawn[place], log_sums[node] = node, math.log(work.alpha[member, p]) + exponent * _LOG2
    order[:] = drawn


@kernel
def edge_probabilities(order: Index, begin: Index, families: ScaledFamilies, edges: Array) -> float:
    """Add the probability of each edge given the bucket order; returns the log weight.

    `edges`: array of shape (n, n); `edges[i, j]` is that of `i -> j`.
    """
    work = workspace(families, begin)
    assign_buckets(order, begin, work.where, work.slot)
    total = 0.0
    for k in range(len(begin) - 1):
        size = begin[k + 1] - begin[k]
        total += _bucket(k, order, begin, families, work)
        _backward(size, work)
        for place in range(begin[k], begin[k + 1]):
            node = order[place]
            h, hb = _factors(work.slot[node], size, work)
            n_allowed = classify_candidates(node, families, work)
            mode = SHARE_BLOCK if work.blocked[work.slot[node]] else SHARE
            visit_families(mode, node, n_allowed, families, work, h, hb)
            for t in range(n_allowed):
                edges[families.candidates[node, work.allowed[t]], node] += work.single[work.allowed[t]]
    return total


@kernel
def family_probabilities(node: int, order: Index, begin: Index, families: ScaledFamilies, out: Array) -> None:
    """Add the probability of each family of a node given the bucket order to `out`, of shape (sets,)."""
    work = workspace(families, begin)
    assign_buckets(order, begin, work.where, work.slot)
    k = work.where[node]
    size = begin[k + 1] - begin[k]
    _bucket(k, order, begin, families, work)
    _backward(size, work)
    h, hb = _factors(work.slot[node], size, work)
    classify_candidates(node, families, work)
    mode = SHARE_BLOCK if work.blocked[work.slot[node]] else SHARE
    sets, where, candidates = families.sets, work.where, families.candidates[node]
    value, mantissa, exponent = families.value[node], families.mantissa[node], families.exponent[node]
    level = families.level[node]
    for s in range(len(sets)):
        T, fits = 0, True
        for j in range(sets.shape[1]):
            c = sets[s, j]
            if c < 0:
                break
            fits = fits and where[candidates[c]] <= k
            T |= work.bit[c]
        if fits:
            out[s] += visit_family(mode, s, T, value, mantissa, exponent, level, families.powers, h, hb)


@inner
def _factors(m: int, size: int, work: Workspace) -> tuple[Array, NDArray[np.int32]]:
    """`Σ_{U ⊇ T} F(U) B(U + i) / F(all)` for the member i in slot m: the factor of β_i(π).

    Returns mantissas and bands, both of shape (2^(size - 1),).
    """
    last, half = (1 << size) - 1, 1 << (size - 1)
    # The memory of α is used again; each α is read once more before it is overwritten.
    h, hb = work.alpha[m, :half], work.alpha_b[m, :half]
    scale, scale_b = 1.0 / work.F[last], work.Fb[last]
    for p in range(half):
        U = ((p >> m) << (m + 1)) | (p & ((1 << m) - 1))
        o = U | (1 << m)
        v, b = _share(work.F[U], work.Fb[U], work.B[o], work.Bb[o], scale, scale_b)
        if h[p] == 0.0:
            # No family of i is allowed, so that no order has U just before it. Otherwise the factor might
            # overflow, and families that are ruled out would multiply infinity by zero.
            v = 0.0
        if work.blocked[m]:
            hb[p] = b if v > 0.0 else NOTHING
        else:
            v = v * (1.0 if b == 0 else (_UP if b == 1 else (_DOWN if b == -1 else 0.0)))
        h[p] = v
    if work.blocked[m]:
        _zeta_wide(h, hb, True)
    else:
        _zeta_up(h)
    return h, hb
