"""Compiled functions of the normal distribution: its quantiles, draws between two bounds, and two at once."""

from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array
from polydag.compilation import inner, kernel

_FAR = 8.0  # beyond it, a truncated normal is drawn as an exponential


@inner
def cdf(x: float) -> float:
    """Φ(x)."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


@inner
def quantile(p: float) -> float:
    """Φ⁻¹(p), by Acklam's rational functions and one step of Halley's method."""
    if p <= 0.0:
        return -math.inf
    if p >= 1.0:
        return math.inf
    tail = min(p, 1.0 - p)
    if tail < 0.02425:
        q = math.sqrt(-2.0 * math.log(tail))
        top = -7.784894002430293e-03
        for c in (
            -3.223964580411365e-01,
            -2.400758277161838e00,
            -2.549732539343734e00,
            4.374664141464968e00,
            2.938163982698783e00,
        ):
            top = top * q + c
        low = 7.784695709041462e-03
        for c in (3.224671290700398e-01, 2.445134137142996e00, 3.754408661907416e00, 1.0):
            low = low * q + c
        x = top / low
        if p > 0.5:
            x = -x
    else:
        q = p - 0.5
        r = q * q
        top = -3.969683028665376e01
        for c in (
            2.209460984245205e02,
            -2.759285104469687e02,
            1.383577518672690e02,
            -3.066479806614716e01,
            2.506628277459239e00,
        ):
            top = top * r + c
        low = -5.447609879822406e01
        for c in (
            1.615858368580409e02,
            -1.556989798598866e02,
            6.680131188771972e01,
            -1.328068155288572e01,
            1.0,
        ):
            low = low * r + c
        x = top * q / low
    error = (cdf(x) - p) * math.sqrt(2.0 * math.pi) * math.exp(0.5 * x * x)
    return x - error / (1.0 + 0.5 * x * error)


@inner
def between(low: float, high: float, u: float) -> float:
    """A standard normal draw between two bounds, from a uniform one."""
    if low > 0.0:  # the lower tail keeps more digits
        return -between_below(-high, -low, 1.0 - u)
    return between_below(low, high, u)


@inner
def between_below(low: float, high: float, u: float) -> float:
    """The same where `low` is not positive."""
    if high < -_FAR:
        rate = -high
        span = 1.0 - math.exp(-rate * (high - low)) if low > -math.inf else 1.0
        return high + math.log(1.0 - (1.0 - u) * span) / rate
    first = cdf(low)
    x = quantile(first + u * (cdf(high) - first))
    return min(max(x, low), high)


@kernel
def quantiles(p: Array) -> Array:
    """Φ⁻¹ of each value."""
    result = np.empty_like(p)
    for i in range(len(p)):
        result[i] = quantile(p[i])
    return result


@kernel
def truncated(low: Array, high: Array, u: Array) -> Array:
    """Standard normal draws between bounds."""
    result = np.empty_like(u)
    for i in range(len(u)):
        result[i] = between(low[i], high[i], u[i])
    return result


@kernel
def rectangles(cuts: Array, angles: Array, nodes: Array, weights: Array) -> Array:
    """The probabilities of two labels with the same cuts, at correlations `sin(angles)`.

    `Φ₂(h, k, sin t) = Φ(h) Φ(k) + ∫₀ᵗ exp(−(h² + k² − 2hk sin s) / (2 cos² s)) ds / 2π`, by the given rule on
    [0, 1]. The result (levels, levels, angles) holds each pair of levels.
    """
    m = len(cuts)
    result = np.zeros((m + 1, m + 1, len(angles)))
    both = np.zeros((m + 2, m + 2))
    for g in range(len(angles)):
        t = angles[g]
        for a in range(m):
            both[a + 1, m + 1] = cdf(cuts[a])
            both[m + 1, a + 1] = both[a + 1, m + 1]
            for b in range(a + 1):
                h, k = cuts[a], cuts[b]
                total = 0.0
                for e in range(len(nodes)):
                    s = math.sin(t * nodes[e])
                    total += weights[e] * math.exp(-0.5 * (h * h + k * k - 2.0 * h * k * s) / (1.0 - s * s))
                both[a + 1, b + 1] = cdf(h) * cdf(k) + total * t / (2.0 * math.pi)
                both[b + 1, a + 1] = both[a + 1, b + 1]
        both[m + 1, m + 1] = 1.0
        for a in range(m + 1):
            for b in range(m + 1):
                result[a, b, g] = both[a + 1, b + 1] - both[a, b + 1] - both[a + 1, b] + both[a, b]
    return result
