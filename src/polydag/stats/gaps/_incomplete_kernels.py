"""Compiled expectations of missing values, row by row, under a Gaussian."""

from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array, Int, Mask
from polydag.compilation import inner, kernel


@kernel
def fill_expected(R: Array, missing: Mask, K: Array, extra: Array) -> None:
    """Fill missing deviations with their expectations given the others of a row, in place.

    `R` (n, d) are deviations from the mean, anything where `missing`; `K` is the inverse of the covariance.
    The conditional covariances are added up in `extra` (d, d).
    """
    n, d = R.shape
    A = np.empty((d, d))
    where = np.empty(d, np.int64)
    b = np.empty(d)
    for r in range(n):
        m = 0
        for j in range(d):
            if missing[r, j]:
                where[m] = j
                m += 1
                R[r, j] = 0.0
        if m == 0:
            continue
        for a in range(m):
            line = K[where[a]]
            total = 0.0
            for j in range(d):
                total -= line[j] * R[r, j]
            b[a] = total
            for c in range(a + 1):
                A[a, c] = line[where[c]]
        cholesky_inverse(A, m)
        for a in range(m):
            total = 0.0
            for c in range(m):
                total += (A[a, c] if c <= a else A[c, a]) * b[c]
            R[r, where[a]] = total
        for a in range(m):
            for c in range(a + 1):
                extra[where[a], where[c]] += A[a, c]
                if c < a:
                    extra[where[c], where[a]] += A[a, c]


@inner
def cholesky_inverse(A: Array, m: Int) -> None:
    """The inverse of a positive definite matrix, of which the lower triangle is given and returned."""
    for a in range(m):
        for c in range(a + 1):
            value = A[a, c]
            for k in range(c):
                value -= A[a, k] * A[c, k]
            if c < a:
                A[a, c] = value / A[c, c]
            else:
                A[a, a] = math.sqrt(max(value, 1e-12))
    for a in range(m):  # the inverse of the factor, in place
        A[a, a] = 1.0 / A[a, a]
        for c in range(a):
            value = 0.0
            for k in range(c, a):
                value -= A[a, k] * A[k, c]
            A[a, c] = value * A[a, a]
    for a in range(m):  # its transpose times itself
        for c in range(a + 1):
            value = 0.0
            for k in range(a, m):
                value += A[k, a] * A[k, c]
            A[a, c] = value
