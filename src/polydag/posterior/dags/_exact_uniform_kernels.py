"""Compiled sums over all DAGs, by inclusion and exclusion over sources.

Let `α_j(S)` be the sum over the families of j with parents in S, and B(S) the sum over all acyclic choices of
families for the variables outside S, which may also have parents in S. In each of these choices some variable
has all its parents in S, so that

    B(S) = Σ_{∅ ≠ T ⊆ V - S} (-1)^(|T| + 1) Π_{j ∈ T} α_j(S) B(S + T),    B(V) = 1.

No term exceeds B(S), since it is a sum over some of the same choices: cancellation costs only a few digits.

Numbers are a mantissa in [2^-500, 2^500), here with a sign, and a band, as in `exact.subset_lattice`. Within
one S, terms are plain numbers relative to the largest band: terms that vanish beside it are less than 2^-1000
of B(S), and of every probability that they contribute to.

Shapes of arguments that several kernels share:

alpha, alpha_b : arrays of shape (n, 2^(n-1))
    Mantissas and bands (int32) of `α_i(U)`, with bit i removed from U.
B, Bb : arrays of shape (2^n,)
    Mantissas and bands (int64).
sets : int array of shape (2^n,)
products, terms : arrays of shape (2^n,)
products_b, terms_b : int arrays of shape (2^n,)
S, T : int
    Sets of variables as bits.
"""

from __future__ import annotations

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
    _without,
    _zeta_wide,
)

_RARE = 1e-12  # relative probability below which layers are not drawn: they may be rounding errors


@inner
def _normalised(v: float, b: int) -> tuple[float, int]:
    """A number within 2^±1500 as a mantissa and a band."""
    size = abs(v)
    if size == 0.0:
        return 0.0, NOTHING
    if size >= _HIGH:
        return v * _DOWN, b + 1
    if size < _LOW:
        return v * _UP, b - 1
    return v, b


@inner
def _plain(v: float, d: int) -> float:
    """`v·2^(1000 d)` as a plain number, for d up to 0; below -1 it is negligible beside a mantissa."""
    return v if d == 0 else (v * _DOWN if d == -1 else 0.0)


@inner
def _add(v: float, b: int, t: float, tb: int) -> tuple[float, int]:
    """The sum of two numbers with signs."""
    top = max(b, tb)
    return _normalised(_plain(v, b - top) + _plain(t, tb - top), top)


@kernel
def sums_within(
    masks: Index, scores: Array, reference: float, band_width: float, a: Array, ab: NDArray[np.int32]
) -> None:
    """Fill in α of one node over all sets of the others, relative to `exp(reference)`.

    `masks`: int array, `scores`: array, both of shape (families,); `a`, `ab`: of shape (2^(n-1),).
    """
    a[:] = 0.0
    ab[:] = NOTHING
    for s in range(len(masks)):
        own = scores[s] - reference
        b = np.round(own / band_width)
        a[masks[s]], ab[masks[s]] = _normalised(np.exp(own - b * band_width), int(b))
    _zeta_wide(a, ab, False)


@inner
def _terms(
    S: int,
    n: int,
    alpha: Array,
    alpha_b: NDArray[np.int32],
    B: Array,
    Bb: Index,
    sets: Index,
    products: Array,
    products_b: Index,
    terms: Array,
    terms_b: Index,
) -> tuple[int, int]:
    """Fill in the terms of B(S) by the indices of T among the variables outside S.

    `terms[0]` is 0; `products` gets `(-1)^(|T| + 1) Π α_j(S)`, `sets` gets S + T. Returns the number of
    variables outside S, and the highest band.
    """
    k, top = 0, NOTHING
    sets[0], products[0], products_b[0] = S, -1.0, 0
    terms[0], terms_b[0] = 0.0, NOTHING
    for j in range(n):
        if (S >> j) & 1:
            continue
        U = _without(S, j)
        a, ab = -alpha[j, U], alpha_b[j, U]
        size = 1 << k
        for t in range(size):
            T = size + t
            sets[T] = sets[t] | (1 << j)
            v, b = _normalised(products[t] * a, products_b[t] + ab)
            products[T], products_b[T] = v, b
            v, b = _normalised(v * B[sets[T]], b + Bb[sets[T]])
            terms[T], terms_b[T] = v, b
            top = max(top, b)
        k += 1
    return k, top


@inner
def _scale(terms: Array, terms_b: Index, count: int, top: int) -> float:
    """Make `count` terms plain numbers relative to the highest band; returns their sum."""
    total = 0.0
    for t in range(count):
        terms[t] = _plain(terms[t], terms_b[t] - top)
        total += terms[t]
    return total


@kernel
def backward(n: int, alpha: Array, alpha_b: NDArray[np.int32], B: Array, Bb: Index) -> None:
    """Fill in B of all sets; that of the empty set is the sum over all DAGs."""
    full = 1 << n
    sets, products, products_b = np.empty(full, np.int64), np.empty(full), np.empty(full, np.int64)
    terms, terms_b = np.empty(full), np.empty(full, np.int64)
    B[full - 1], Bb[full - 1] = 1.0, 0
    for S in range(full - 2, -1, -1):
        k, top = _terms(S, n, alpha, alpha_b, B, Bb, sets, products, products_b, terms, terms_b)
        B[S], Bb[S] = _normalised(_scale(terms, terms_b, 1 << k, top), top)


@inner
def _by_member(terms: Array, k: int, sums: Array) -> None:
    """Fill in `sums`, of shape (n,): the sum of the terms whose T has each of k members; changes terms."""
    for m in range(k - 1, -1, -1):
        size = 1 << m
        total = 0.0
        for t in range(size):
            total += terms[size + t]
            terms[t] += terms[size + t]
        sums[m] = total


@kernel
def family_factors(n: int, alpha: Array, alpha_b: NDArray[np.int32], B: Array, Bb: Index) -> None:
    """Replace `α_i(U)` by the factor of `β_i(π)` in the probability of family (i, π), for π within U.

    With F(S) the sum over the DAGs of the variables in S, the probability of a family is β_i(π) times

        Σ_{S ⊇ π, i ∉ S} F(S) / Z · Σ_{T ∋ i} (term of T in B(S)) / α_i(S).

    F has the same recurrence as B, starting from the empty set. F(S) B(S) / Z is the probability that no
    variable of S has a parent outside S, so that rounding errors of terms are small beside 1.
    """
    full = 1 << n
    F, Fb = np.zeros(full), np.full(full, NOTHING, np.int64)
    sets, products, products_b = np.empty(full, np.int64), np.empty(full), np.empty(full, np.int64)
    terms, terms_b, sums = np.empty(full), np.empty(full, np.int64), np.empty(n)
    inverse, band = 1.0 / B[0], Bb[0]
    F[0], Fb[0] = 1.0, 0
    for S in range(full - 1):
        k, top = _terms(S, n, alpha, alpha_b, B, Bb, sets, products, products_b, terms, terms_b)
        f, fb = F[S], Fb[S]
        if f != 0.0:
            for t in range(1, 1 << k):
                v, b = _normalised(f * products[t], fb + products_b[t])
                T = sets[t]
                F[T], Fb[T] = _add(F[T], Fb[T], v, b)
        _scale(terms, terms_b, 1 << k, top)
        _by_member(terms, k, sums)
        f, fb = _normalised(f * inverse, fb - band)
        m = 0
        for i in range(n):
            if (S >> i) & 1:
                continue
            U = _without(S, i)
            v, b = _normalised(sums[m], top)
            v, b = _normalised(v * f, b + fb)
            m += 1
            a, ab = alpha[i, U], alpha_b[i, U]
            alpha[i, U], alpha_b[i, U] = 0.0, NOTHING
            if a != 0.0 and v != 0.0:
                alpha[i, U], alpha_b[i, U] = _normalised(v / a, b - ab)
    for i in range(n):
        _zeta_up(alpha[i], alpha_b[i])


@inner
def _zeta_up(a: Array, ab: NDArray[np.int32]) -> None:
    """Sums over supersets, in place, with signs, since rounding may leave small numbers of either sign."""
    step = 1
    while step < len(a):
        for start in range(0, len(a), 2 * step):
            for k in range(start, start + step):
                a[k], ab[k] = _add(a[k], ab[k], a[k + step], ab[k + step])
        step *= 2


@kernel
def family_probabilities(
    masks: Index,
    scores: Array,
    reference: float,
    band_width: float,
    h: Array,
    hb: NDArray[np.int32],
    out: Array,
) -> None:
    """Fill in the probability of each family of a node, from the factors that `family_factors` leaves.

    `masks`: int array, `scores`, `out`: arrays, all of shape (families,); `h`, `hb`: of shape (2^(n-1),).
    """
    for s in range(len(masks)):
        own = scores[s] - reference
        b = np.round(own / band_width)
        v, b = _normalised(np.exp(own - b * band_width) * h[masks[s]], int(b) + hb[masks[s]])
        out[s] = _plain(v, b)


@kernel
def exact_sources(
    S: int, n: int, alpha: Array, alpha_b: NDArray[np.int32], B: Array, Bb: Index, sets: Index, shares: Array
) -> None:
    """Fill in the share of B(S) in which T is the set of *all* variables with no parent outside S.

    Sums with at least T become sums with exactly T by inclusion and exclusion over its supersets. `shares`:
    array of shape (2^n,).
    """
    full = 1 << n
    products, products_b = np.empty(full), np.empty(full, np.int64)
    terms_b = np.empty(full, np.int64)
    k, top = _terms(S, n, alpha, alpha_b, B, Bb, sets, products, products_b, shares, terms_b)
    total = _scale(shares, terms_b, 1 << k, top)
    for t in range(1 << k):
        shares[t] = abs(shares[t]) / total
    step = 1
    while step < 1 << k:
        for start in range(0, 1 << k, 2 * step):
            for t in range(start, start + step):
                shares[t] -= shares[t + step]
        step *= 2


@kernel
def layer_weights(
    S: int, before: int, n: int, alpha: Array, alpha_b: NDArray[np.int32], shares: Array, weight: Array
) -> None:
    """Fill in the weight of each T as the layer after S, which is `before` and the last layer.

    T are all further variables with parents in S only, each with at least one outside `before`. `shares`,
    those of `exact_sources`, are therefore multiplied by the share of each member's families that are not
    within `before`. `weight`: array of shape (2^n,).
    """
    count = 1
    weight[0] = 1.0
    for j in range(n):
        if (S >> j) & 1:
            continue
        U, V = _without(S, j), _without(before, j)
        hit = 1.0 if alpha[j, U] > 0.0 else 0.0
        if S and hit:
            v, b = _normalised(alpha[j, V] / alpha[j, U], alpha_b[j, V] - alpha_b[j, U])
            hit -= min(_plain(v, b), 1.0)
        for t in range(count):
            weight[count + t] = weight[t] * hit
        count *= 2
    weight[0] = 0.0  # a layer is not empty
    top = 0.0
    for t in range(count):
        weight[t] *= max(shares[t], 0.0)
        top = max(top, weight[t])
    for t in range(count):
        weight[t] = weight[t] if weight[t] > _RARE * top else 0.0
