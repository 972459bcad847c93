"""Compiled sums over the lattice of subsets, block by block.

A set S of n variables is a number of n bits: its `low` lower bits are the place in a block, the others are
the index of the block. `α_i(U) = Σ_{π ⊆ U} β_i(π)` is never stored: the part of each block is computed when
needed, within the cache, from the families whose upper part is contained (families are grouped by their upper
part) and a zeta transform over the lower bits. Sets U without i are written with bit i removed.

Sums over orders are unbounded, so F and B are kept as a mantissa in [2^-500, 2^500) and a *band*, a power of
2^1000. α is a plain number where its logs span less than one band, and has bands otherwise. Zero is a
mantissa of 0 in the band `NOTHING`.

Shapes of arguments that several kernels share:

blocks : int array
    The blocks to compute.
begin, group_mask, group_begin, place
    The families, as in `Lattice`.
value, band, wide
    Their scores, as in `Values`.
F, Fb, B, Bb : arrays of shape (2^n,)
    Mantissas (float64) and bands (int32).
a, ab : arrays of one block, or half of one
    Mantissas and bands of α.
weight, weight_b : arrays of shape (families,)
    Mantissas and bands of the families' weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Mask
from polydag.compilation import inner, kernel

NOTHING = -(1 << 24)
_UP, _DOWN = 2.0**1000, 2.0**-1000
_HIGH, _LOW = 2.0**500, 2.0**-500
_CHUNK = 4  # bits of a chunk: loops over 16 neighbours are vectorised


@inner
def _sum(v: float, b: int, t: float, tb: int) -> tuple[float, int]:
    """`v·2^(1000 b) + t·2^(1000 tb)`, normalised, without branches.

    v is normalised, and t lies within [2^-1000, 2^1000].
    """
    b = b if v > 0.0 else NOTHING  # a zero must not hide values in lower bands
    tb = tb if t > 0.0 else NOTHING
    d = tb - b
    keep = 1.0 if d <= 0 else (_DOWN if d == 1 else 0.0)
    take = 1.0 if d >= 0 else (_DOWN if d == -1 else 0.0)
    v = v * keep + t * take
    b = max(b, tb)
    b = b + 1 if v >= _HIGH else (b - 1 if v < _LOW else b)
    v = v * (_DOWN if v >= _HIGH else (_UP if v < _LOW else 1.0))
    return v, b


@inner
def _without(number: int, bit: int) -> int:
    """The number with one bit, which is zero, removed."""
    return ((number >> (bit + 1)) << bit) | (number & ((1 << bit) - 1))


@inner
def _zeta(a: Array) -> None:
    """Sums over subsets, in place; `a` has 2^k entries."""
    size = len(a)
    step = 1
    if size >= 8:
        for s in range(0, size, 8):
            x0, x1, x2, x3 = a[s], a[s + 1], a[s + 2], a[s + 3]
            x4, x5, x6, x7 = a[s + 4], a[s + 5], a[s + 6], a[s + 7]
            x1 += x0
            x3 += x2
            x5 += x4
            x7 += x6
            x2 += x0
            x3 += x1
            x6 += x4
            x7 += x5
            a[s + 1], a[s + 2], a[s + 3] = x1, x2, x3
            a[s + 4], a[s + 5], a[s + 6], a[s + 7] = x4 + x0, x5 + x1, x6 + x2, x7 + x3
        step = 8
    while step < size:
        for start in range(0, size, 2 * step):
            lower, upper = a[start : start + step], a[start + step : start + 2 * step]
            for k in range(step):
                upper[k] += lower[k]
        step *= 2


@inner
def _zeta_up(a: Array) -> None:
    """Sums over supersets, in place; `a` has 2^k entries."""
    size = len(a)
    step = 1
    if size >= 8:
        for s in range(0, size, 8):
            x0, x1, x2, x3 = a[s], a[s + 1], a[s + 2], a[s + 3]
            x4, x5, x6, x7 = a[s + 4], a[s + 5], a[s + 6], a[s + 7]
            x0 += x1
            x2 += x3
            x4 += x5
            x6 += x7
            x0 += x2
            x1 += x3
            x4 += x6
            x5 += x7
            a[s], a[s + 1], a[s + 2], a[s + 3] = x0 + x4, x1 + x5, x2 + x6, x3 + x7
            a[s + 4], a[s + 5], a[s + 6] = x4, x5, x6
        step = 8
    while step < size:
        for start in range(0, size, 2 * step):
            lower, upper = a[start : start + step], a[start + step : start + 2 * step]
            for k in range(step):
                lower[k] += upper[k]
        step *= 2


@inner
def _zeta_wide(a: Array, ab: NDArray[np.int32], up: bool) -> None:
    """Sums over subsets, or over supersets if `up`, of numbers with bands."""
    size = len(a)
    step = 1
    while step < size:
        for start in range(0, size, 2 * step):
            to, of = (start, start + step) if up else (start + step, start)
            x, xb, y, yb = a[to : to + step], ab[to : to + step], a[of : of + step], ab[of : of + step]
            for k in range(step):
                x[k], xb[k] = _sum(x[k], xb[k], y[k], yb[k])
        step *= 2


@inner
def _alpha(
    upper: int,
    node: int,
    begin: Index,
    group_mask: Index,
    group_begin: Index,
    place: NDArray[np.int32],
    value: Array,
    band: NDArray[np.int32],
    wide: bool,
    a: Array,
    ab: NDArray[np.int32],
) -> None:
    """α of a node over one block, whose upper part without the node is `upper`."""
    a[:] = 0.0
    ab[:] = NOTHING if wide else 0
    for g in range(begin[node], begin[node + 1]):
        if group_mask[g] & ~upper:
            continue
        for s in range(group_begin[g], group_begin[g + 1]):
            p = place[s]
            if wide:
                a[p], ab[p] = _sum(a[p], ab[p], value[s], band[s])
            else:
                a[p] += value[s]
    if wide:
        _zeta_wide(a, ab, False)
    else:
        _zeta(a)


@inner
def _add_products(
    v: Array, b: NDArray[np.int32], a: Array, ab: NDArray[np.int32], f: Array, fb: NDArray[np.int32]
) -> None:
    """`v += a · f`, element by element, with bands."""
    for k in range(len(v)):
        v[k], b[k] = _sum(v[k], b[k], a[k] * f[k], ab[k] + fb[k])


@kernel
def forward(
    blocks: Index,
    n: int,
    low: int,
    begin: Index,
    group_mask: Index,
    group_begin: Index,
    place: NDArray[np.int32],
    value: Array,
    band: NDArray[np.int32],
    wide: Mask,
    F: Array,
    Fb: NDArray[np.int32],
) -> None:
    """`F(S) = Σ_{i ∈ S} α_i(S - i) F(S - i)` over some blocks, after those of their subsets."""
    size = 1 << low
    half = max(size >> 1, 1)
    alpha, alpha_b = np.empty((low, half)), np.empty((low, half), np.int32)
    a, ab = np.empty(size), np.empty(size, np.int32)
    chunk = min(_CHUNK, low)
    width = 1 << chunk
    for block in blocks:
        v, b = F[block * size : (block + 1) * size], Fb[block * size : (block + 1) * size]
        v[:] = 0.0
        b[:] = NOTHING
        if block == 0:
            v[0], b[0] = 1.0, 0
        for i in range(low, n):
            bit = i - low
            if not (block >> bit) & 1:
                continue
            other = block ^ (1 << bit)
            _alpha(
                _without(other, bit), i, begin, group_mask, group_begin, place, value, band, wide[i], a, ab
            )
            f, fb = F[other * size : (other + 1) * size], Fb[other * size : (other + 1) * size]
            _add_products(v, b, a, ab, f, fb)
        for i in range(low):
            _alpha(
                block, i, begin, group_mask, group_begin, place, value, band, wide[i], alpha[i], alpha_b[i]
            )
        for s in range(0, size, width):
            x, xb = v[s : s + width], b[s : s + width]
            for i in range(chunk, low):
                if (s >> i) & 1:
                    o, p = s ^ (1 << i), _without(s ^ (1 << i), i)
                    _add_products(
                        x,
                        xb,
                        alpha[i, p : p + width],
                        alpha_b[i, p : p + width],
                        v[o : o + width],
                        b[o : o + width],
                    )
            for k in range(s + 1, s + width):
                for i in range(chunk):
                    if (k >> i) & 1:
                        o = k ^ (1 << i)
                        p = _without(o, i)
                        v[k], b[k] = _sum(v[k], b[k], alpha[i, p] * v[o], alpha_b[i, p] + b[o])


@kernel
def backward(
    blocks: Index,
    n: int,
    low: int,
    begin: Index,
    group_mask: Index,
    group_begin: Index,
    place: NDArray[np.int32],
    value: Array,
    band: NDArray[np.int32],
    wide: Mask,
    F: Array,
    Fb: NDArray[np.int32],
    B: Array,
    Bb: NDArray[np.int32],
    weight: Array,
    weight_b: NDArray[np.int32],
) -> None:
    """`B(S) = Σ_{i ∉ S} α_i(S) B(S + i)` over some blocks, after those of their supersets.

    At the same time `Σ_{U ⊇ π} F(U) B(U + i) / F(V)` is added to the weight of each family (i, π).
    """
    size = 1 << low
    half = max(size >> 1, 1)
    alpha, alpha_b = np.empty((low, half)), np.empty((low, half), np.int32)
    a, ab = np.empty(size), np.empty(size, np.int32)
    chunk = min(_CHUNK, low)
    width = 1 << chunk
    last = len(F) - 1
    scale, scale_b = 1.0 / F[last], Fb[last]
    for block in blocks:
        v, b = B[block * size : (block + 1) * size], Bb[block * size : (block + 1) * size]
        f, fb = F[block * size : (block + 1) * size], Fb[block * size : (block + 1) * size]
        v[:] = 0.0
        b[:] = NOTHING
        if (block + 1) * size == len(B):
            v[size - 1], b[size - 1] = 1.0, 0
        for i in range(low, n):
            bit = i - low
            if (block >> bit) & 1:
                continue
            other = block | (1 << bit)
            w, wb = B[other * size : (other + 1) * size], Bb[other * size : (other + 1) * size]
            upper = _without(block, bit)
            _alpha(upper, i, begin, group_mask, group_begin, place, value, band, wide[i], a, ab)
            _add_products(v, b, a, ab, w, wb)
            for k in range(size):
                a[k], ab[k] = _share(f[k], fb[k], w[k], wb[k], scale, scale_b)
            _collect(upper, i, begin, group_mask, group_begin, place, wide[i], a, ab, weight, weight_b)
        for i in range(low):
            _alpha(
                block, i, begin, group_mask, group_begin, place, value, band, wide[i], alpha[i], alpha_b[i]
            )
        for s in range(size - width, -1, -width):
            x, xb = v[s : s + width], b[s : s + width]
            for i in range(chunk, low):
                if not (s >> i) & 1:
                    o, p = s | (1 << i), _without(s, i)
                    _add_products(
                        x,
                        xb,
                        alpha[i, p : p + width],
                        alpha_b[i, p : p + width],
                        v[o : o + width],
                        b[o : o + width],
                    )
            for k in range(s + width - 2, s - 1, -1):
                for i in range(chunk):
                    if not (k >> i) & 1:
                        o = k | (1 << i)
                        p = _without(k, i)
                        v[k], b[k] = _sum(v[k], b[k], alpha[i, p] * v[o], alpha_b[i, p] + b[o])
        for i in range(low):
            c, cb = alpha[i], alpha_b[i]
            step = 1 << i
            for s in range(0, size, 2 * step):
                p = s >> 1
                for k in range(step):
                    o = s + step + k
                    c[p + k], cb[p + k] = _share(f[s + k], fb[s + k], v[o], b[o], scale, scale_b)
            _collect(block, i, begin, group_mask, group_begin, place, wide[i], c, cb, weight, weight_b)


@inner
def _share(f: float, fb: int, w: float, wb: int, scale: float, scale_b: int) -> tuple[float, int]:
    """`f · w / F(V)`, normalised, with bands; `scale` and `scale_b` are 1 / F(V) and its band."""
    b = fb + wb - scale_b
    v = f * scale
    b = b + 1 if v >= _HIGH else (b - 1 if v < _LOW else b)
    v = v * (_DOWN if v >= _HIGH else (_UP if v < _LOW else 1.0)) * w
    b = b + 1 if v >= _HIGH else (b - 1 if v < _LOW else b)
    v = v * (_DOWN if v >= _HIGH else (_UP if v < _LOW else 1.0))
    return v, b


@inner
def _collect(
    upper: int,
    node: int,
    begin: Index,
    group_mask: Index,
    group_begin: Index,
    place: NDArray[np.int32],
    wide: bool,
    a: Array,
    ab: NDArray[np.int32],
    weight: Array,
    weight_b: NDArray[np.int32],
) -> None:
    """Add the sums over supersets of one block to the weights of a node's families."""
    if wide:
        _zeta_wide(a, ab, True)
    else:
        for k in range(len(a)):
            # Beyond one band no score of a family makes a difference.
            d = ab[k]
            a[k] = a[k] * (1.0 if d == 0 else (_UP if d == 1 else (_DOWN if d == -1 else 0.0)))
        _zeta_up(a)
    for g in range(begin[node], begin[node + 1]):
        if group_mask[g] & ~upper:
            continue
        for s in range(group_begin[g], group_begin[g + 1]):
            p = place[s]
            if wide:
                weight[s], weight_b[s] = _sum(weight[s], weight_b[s], a[p], ab[p])
            else:
                weight[s] += a[p]


@kernel
def best(
    blocks: Index,
    n: int,
    low: int,
    begin: Index,
    group_mask: Index,
    group_begin: Index,
    place: NDArray[np.int32],
    score: Array,
    H: Array,
) -> None:
    """`H(S) = max_{i ∈ S} max_{π ⊆ S - i} log β_i(π) + H(S - i)` (Silander and Myllymäki 2006).

    `score`, of shape (families,), are log scores; H has the shape (2^n,).
    """
    size = 1 << low
    half = max(size >> 1, 1)
    top = np.empty((low, half))
    a = np.empty(size)
    for block in blocks:
        v = H[block * size : (block + 1) * size]
        v[:] = -np.inf
        if block == 0:
            v[0] = 0.0
        for i in range(low, n):
            bit = i - low
            if (block >> bit) & 1:
                other = block ^ (1 << bit)
                _highest(_without(other, bit), i, begin, group_mask, group_begin, place, score, a)
                h = H[other * size : (other + 1) * size]
                for k in range(size):
                    v[k] = max(v[k], a[k] + h[k])
        for i in range(low):
            _highest(block, i, begin, group_mask, group_begin, place, score, top[i])
        for s in range(1, size):
            value = v[s]
            for i in range(low):
                if (s >> i) & 1:
                    o = s ^ (1 << i)
                    value = max(value, top[i, _without(o, i)] + v[o])
            v[s] = value


@inner
def _highest(
    upper: int,
    node: int,
    begin: Index,
    group_mask: Index,
    group_begin: Index,
    place: NDArray[np.int32],
    score: Array,
    a: Array,
) -> None:
    """The highest log score of a node's families within each set of one block."""
    a[:] = -np.inf
    for g in range(begin[node], begin[node + 1]):
        if group_mask[g] & ~upper:
            continue
        for s in range(group_begin[g], group_begin[g + 1]):
            a[place[s]] = max(a[place[s]], score[s])
    step = 1
    while step < len(a):
        for start in range(0, len(a), 2 * step):
            lower, upper_half = a[start : start + step], a[start + step : start + 2 * step]
            for k in range(step):
                upper_half[k] = max(upper_half[k], lower[k])
        step *= 2
