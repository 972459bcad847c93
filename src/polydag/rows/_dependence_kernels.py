"""Compiled loops over permutations of rows: how much linked rows have in common."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index
from polydag.compilation import kernel


@kernel
def link_statistics(U: Array, Q: Array, orders: Index, pairs: Index, weights: Array) -> Array:
    """For each order of the rows: the mean product along links, that of its squares, that of columns squared.

    After a permutation the columns are made orthogonal to the design Q again, and scaled to unit variance.
    """
    n, p = U.shape
    result = np.empty((len(orders), 3))
    V = np.empty((n, p))
    by_column = np.empty(p)
    for b in range(len(orders)):
        for i in range(n):
            V[i] = U[orders[b, i]]
        if Q.shape[1] > 0:
            V -= np.dot(Q, np.dot(Q.T, V))
            for j in range(p):
                total = 0.0
                for i in range(n):
                    total += V[i, j] * V[i, j]
                scale = np.sqrt(n / total) if total > 0.0 else 1.0
                for i in range(n):
                    V[i, j] *= scale
        by_column[:] = 0.0
        mean = 0.0
        squares = 0.0
        for e in range(len(pairs)):
            first, second = pairs[e, 0], pairs[e, 1]
            w = weights[e]
            total = 0.0
            for j in range(p):
                product = V[first, j] * V[second, j]
                total += product
                by_column[j] += w * product
            total *= w / p
            mean += total
            squares += total * total
        columns = 0.0
        for j in range(p):
            columns += by_column[j] * by_column[j]
        result[b, 0] = mean
        result[b, 1] = squares
        result[b, 2] = columns
    return result
