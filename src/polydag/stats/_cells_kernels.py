"""Compiled counts and scatter per cell of label columns."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index, Int
from polydag.compilation import kernel


@kernel
def cells(
    codes: Index, X: Array, arities: Index, labels: Index, numbers: Index, least: Int
) -> tuple[Array, Array, Array]:
    """Counts of the cells that occur, and sizes and scatter of those with at least `least` rows."""
    n, k = codes.shape[1], len(numbers)
    cell = np.zeros(n, np.int64)
    size = 1
    for label in labels:
        place = np.full(size * arities[label], -1, np.int64)
        found = 0
        for row in range(n):
            key = cell[row] * arities[label] + codes[label, row]
            if place[key] < 0:
                place[key] = found
                found += 1
            cell[row] = place[key]
        size = found
    counts = np.zeros(size)
    for row in range(n):
        counts[cell[row]] += 1.0
    own = np.full(size, -1, np.int64)
    m = 0
    for c in range(size):
        if counts[c] >= least:
            own[c] = m
            m += 1
    sizes, mean, scatter = np.zeros(m), np.zeros((m, k)), np.zeros((m, k, k))
    for c in range(size):
        if own[c] >= 0:
            sizes[own[c]] = counts[c]
    for row in range(n):
        c = own[cell[row]]
        if c >= 0:
            for i in range(k):
                mean[c, i] += X[numbers[i], row] / sizes[c]
    for row in range(n):
        c = own[cell[row]]
        if c >= 0:
            for i in range(k):
                left = X[numbers[i], row] - mean[c, i]
                for j in range(i + 1):
                    scatter[c, i, j] += left * (X[numbers[j], row] - mean[c, j])
    for c in range(m):
        for i in range(k):
            for j in range(i):
                scatter[c, j, i] = scatter[c, i, j]
    return counts, sizes, scatter
