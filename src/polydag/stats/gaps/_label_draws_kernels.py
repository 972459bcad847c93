"""Compiled draws of missing labels, row by row, under a discrete network."""

from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import inner, kernel


@kernel
def draw_labels(
    codes: Index,
    arities: Index,
    families: Index,
    tables: Array,
    start: Index,
    touching: Index,
    draws: int,
    most: int,
    burn_in: int,
    rng: np.random.Generator,
) -> Index:
    """Complete rows `draws` times each; -1 is missing.

    Row j of `families` has the members of family j, the child last, padded with -1; the logs of its table are
    in `tables` from `start[j]` on. Row v of `touching` has the families that hold v, padded with -1. Missing
    labels are drawn jointly in blocks of at most `most` combinations: exactly where a row has one block, with
    draws that are spread evenly, otherwise after `burn_in` sweeps over blocks in random order.
    """
    n, d = codes.shape
    result = np.empty((n, draws, d), np.int64)
    where = np.empty(d, np.int64)
    weights = np.empty(most)
    used = np.zeros(d, np.bool_)
    for r in range(n):
        row = codes[r].copy()
        m, combinations = 0, 1.0
        for v in range(d):
            if row[v] < 0:
                where[m] = v
                m += 1
                combinations *= arities[v]
                row[v] = int(rng.random() * arities[v])
        if combinations <= most:
            size = _weigh(row, where, 0, m, arities, families, tables, start, touching, used, weights)
            shift = rng.random()
            for k in range(draws):
                _choose(row, where, 0, m, arities, weights, size, (k + shift) / draws)
                result[r, k] = row
            continue
        for k in range(burn_in + draws):
            for a in range(m - 1, 0, -1):
                b = int(rng.random() * (a + 1))
                where[a], where[b] = where[b], where[a]
            first = 0
            while first < m:
                end, combinations = first, 1.0
                while end < m and combinations * arities[where[end]] <= most:
                    combinations *= arities[where[end]]
                    end += 1
                end = max(end, first + 1)
                size = _weigh(
                    row, where, first, end, arities, families, tables, start, touching, used, weights
                )
                _choose(row, where, first, end, arities, weights, size, rng.random())
                first = end
            if k >= burn_in:
                result[r, k - burn_in] = row
    return result


@inner
def _weigh(
    row: Index,
    where: Index,
    first: Int,
    end: Int,
    arities: Index,
    families: Index,
    tables: Array,
    start: Index,
    touching: Index,
    used: Mask,
    weights: Array,
) -> int:
    """The cumulative probabilities of the combinations of a block of labels, given the rest of the row."""
    used[:] = False
    size = 1
    for a in range(first, end):
        size *= arities[where[a]]
        for j in touching[where[a]]:
            if j < 0:
                break
            used[j] = True
    top = -math.inf
    for c in range(size):
        _set(row, where, first, end, arities, c)
        total = 0.0
        for j in range(len(used)):
            if used[j]:
                place = 0
                for v in families[j]:
                    if v < 0:
                        break
                    place = place * arities[v] + row[v]
                total += tables[start[j] + place]
        weights[c] = total
        top = max(top, total)
    total = 0.0
    for c in range(size):
        total += math.exp(weights[c] - top)
        weights[c] = total
    return size


@inner
def _choose(
    row: Index, where: Index, first: Int, end: Int, arities: Index, weights: Array, size: Int, u: float
) -> None:
    """Fill in the combination at the share `u` of the cumulative weights."""
    c = min(np.searchsorted(weights[:size], u * weights[size - 1], side="right"), size - 1)
    _set(row, where, first, end, arities, c)


@inner
def _set(row: Index, where: Index, first: Int, end: Int, arities: Index, c: Int) -> None:
    """Fill in combination number c of a block of labels."""
    for a in range(first, end):
        v = where[a]
        row[v] = c % arities[v]
        c //= arities[v]
