"""Compiled expectations of missing values, row by row, under a Gaussian."""

from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array, Index, Int, Mask
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
    right = np.empty(d)
    b = np.empty(d)
    for r in range(n):
        m = given_rest(R[r], missing[r], K, where, right, b, A)
        for a in range(m):
            R[r, where[a]] = b[a]
        for a in range(m):
            for c in range(a + 1):
                extra[where[a], where[c]] += A[a, c]
                if c < a:
                    extra[where[c], where[a]] += A[a, c]


@inner
def given_rest(row: Array, missing: Mask, K: Array, where: Index, right: Array, b: Array, A: Array) -> int:
    """How many deviations of a row are missing, with their distribution given the others.

    `where` (d,) holds their places, `b` (d,) their expectations, and the lower triangle of `A` (d, d) their
    covariance. They are set to zero in `row` (d,). `right` (d,) is a workspace.
    """
    m = 0
    for j in range(len(row)):
        if missing[j]:
            where[m] = j
            m += 1
            row[j] = 0.0
    for a in range(m):
        line = K[where[a]]
        total = 0.0
        for j in range(len(row)):
            total -= line[j] * row[j]
        right[a] = total
        for c in range(a + 1):
            A[a, c] = line[where[c]]
    _cholesky_inverse(A, m)
    for a in range(m):
        b[a] = 0.0
        for c in range(m):
            b[a] += (A[a, c] if c <= a else A[c, a]) * right[c]
    return m


@inner
def _cholesky_inverse(A: Array, m: Int) -> None:
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
