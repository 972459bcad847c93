"""Compiled likelihoods of pairs of linked rows."""

from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array, Index
from polydag.compilation import inner, kernel


@inner
def of_numbers(x: float, y: float, r: float) -> float:
    """The log-density of two numbers with a correlation, relative to independent ones."""
    own = 1.0 - r * r
    return -0.5 * math.log(own) + 0.5 * (2.0 * r * x * y - r * r * (x * x + y * y)) / own


@kernel
def of_columns(
    X: Array, pairs: Index, r: Array, levels: Index, starts: Index, table: Array, step: float, points: int
) -> Array:
    """The sum over pairs of each column's log-likelihood, at a correlation for each pair.

    `table` holds the logarithms of the labels' probabilities, over angles from −`step` (points − 1)/2 on; the
    cubic through the four nearest ones gives those between. Columns without levels hold numbers.
    """
    p = X.shape[1]
    result = np.zeros(p)
    for e in range(len(pairs)):
        i, k = pairs[e, 0], pairs[e, 1]
        x = math.asin(r[e]) / step + (points - 1) / 2.0
        first = min(max(int(x), 1), points - 3)
        f = x - first
        a = -f * (f - 1.0) * (f - 2.0) / 6.0
        b = (f + 1.0) * (f - 1.0) * (f - 2.0) / 2.0
        c = -(f + 1.0) * f * (f - 2.0) / 2.0
        d = (f + 1.0) * f * (f - 1.0) / 6.0
        for j in range(p):
            if levels[j] > 0:
                g = starts[j] + (int(X[i, j]) * levels[j] + int(X[k, j])) * points + first
                result[j] += a * table[g - 1] + b * table[g] + c * table[g + 1] + d * table[g + 2]
            else:
                result[j] += of_numbers(X[i, j], X[k, j], r[e])
    return result


@kernel
def by_class(
    X: Array,
    pairs: Index,
    which: Index,
    count: int,
    levels: Index,
    starts: Index,
    table: Array,
    step: float,
    points: int,
) -> Array:
    """For each class of pairs, the log-likelihood of all columns at every angle of the table."""
    p = X.shape[1]
    result = np.zeros((count, points))
    centre = step * (points - 1) / 2.0
    for e in range(len(pairs)):
        i, k = pairs[e, 0], pairs[e, 1]
        for j in range(p):
            if levels[j] > 0:
                place = starts[j] + (int(X[i, j]) * levels[j] + int(X[k, j])) * points
                for g in range(points):
                    result[which[e], g] += table[place + g]
            else:
                for g in range(points):
                    r = math.sin(g * step - centre)
                    result[which[e], g] += of_numbers(X[i, j], X[k, j], r)
    return result
