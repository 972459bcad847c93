"""Compiled draws of missing values, row by row, under a Gaussian whose indicators stay labels."""

from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import inner, kernel
from polydag.stats.gaps._incomplete_kernels import given_rest


@kernel
def draw_missing(
    R: Array,
    missing: Mask,
    mean: Array,
    K: Array,
    variable: Index,
    labels: Mask,
    normal: Array,
    uniform: Array,
) -> None:
    """Draw missing deviations from the mean given the others of a row, variable by variable, in place.

    `R` (n, d) and `missing` are as for `fill_expected`, `K` is the inverse of the covariance. Column j
    belongs to `variable[j]` and is an indicator where `labels[j]`; all indicators of a label are missing
    together. `normal` and `uniform` (n, d) are the random numbers.
    """
    n, d = R.shape
    C = np.empty((d, d))
    where = np.empty(d, np.int64)
    b = np.empty(d)
    right = np.empty(d)
    for r in range(n):
        m = given_rest(R[r], missing[r], K, where, right, b, C)
        for a in range(m):
            for c in range(a):
                C[c, a] = C[a, c]
        a = 0
        while a < m:
            j = where[a]
            if not labels[j]:
                R[r, j] = b[a] + math.sqrt(max(C[a, a], 0.0)) * normal[r, j]
                _condition(C, b, m, a, R[r, j])
                a += 1
                continue
            end = a
            while end < m and variable[where[end]] == variable[j]:
                end += 1
            level = _drawn_level(b, mean, where, a, end, uniform[r, j])
            for c in range(a, end):
                R[r, where[c]] = (1.0 if c - a + 1 == level else 0.0) - mean[where[c]]
                _condition(C, b, m, c, R[r, where[c]])
            a = end


@inner
def _drawn_level(b: Array, mean: Array, where: Index, first: Int, end: Int, u: float) -> Int:
    """A level by the expectations of its indicators; 0 is the one without an indicator."""
    rest, total = 1.0, 0.0
    for c in range(first, end):
        share = mean[where[c]] + b[c]
        rest -= share
        total += max(share, 0.0)
    total += max(rest, 0.0)
    point = u * total - max(rest, 0.0)
    for c in range(first, end):
        if point < 0:
            return c - first
        point -= max(mean[where[c]] + b[c], 0.0)
    return end - first


@inner
def _condition(C: Array, b: Array, m: Int, a: Int, value: float) -> None:
    """Expectations and covariances of the entries after `a`, once that is known."""
    if C[a, a] <= 1e-12:
        return
    for c in range(a + 1, m):
        gain = C[c, a] / C[a, a]
        b[c] += gain * (value - b[a])
        for e in range(a + 1, m):
            C[c, e] -= gain * C[a, e]
