"""Compiled regressions between blocks of columns: what is left of one block given others.

`C` is a matrix of (co)variances; block `j` has the columns `start[j]` to `start[j + 1]`.
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import inner, kernel

LEAST = 1e-10  # what is left of a column that others determine


@kernel
def log_left(C: Array, start: Index, node: Int, parents: Index) -> float:
    """The log-determinant of a block's covariance after regression on the blocks of its parents."""
    size = start[node + 1] - start[node]
    for parent in parents:
        size += start[parent + 1] - start[parent]
    columns = np.empty(size, np.int64)
    end = 0
    for parent in parents:
        for column in range(start[parent], start[parent + 1]):
            columns[end] = column
            end += 1
    given = end
    for column in range(start[node], start[node + 1]):
        columns[end] = column
        end += 1
    L = np.empty((size, size))
    total = 0.0
    for k in range(size):
        left = _factor_row(C, columns, L, k)
        if k >= given:
            total += math.log(left)
    return total


@inner
def _factor_row(C: Array, columns: Index, L: Array, k: Int) -> float:
    """Row k of the Cholesky factor; the variance left."""
    s = columns[k]
    left = C[s, s]
    for i in range(k):
        value = C[s, columns[i]]
        for j in range(i):
            value -= L[k, j] * L[i, j]
        value /= L[i, i]
        L[k, i] = value
        left -= value * value
    left = max(left, LEAST)
    L[k, k] = math.sqrt(left)
    return left


@kernel
def block_gains(
    C: Array,
    start: Index,
    y: Int,
    candidates: Index,
    root: Index,
    element: Index,
    depth: Index,
    wanted: Mask,
    half_n: float,
    price: float,
    edge: float,
    most: Int,
) -> Array:
    """Gains of candidate blocks as parents of block y beside each set of a tree, in depth-first order.

    A parameter costs `price`, a parent `edge` besides. A family of more than `most` columns is not allowed.
    Row k of W is what column k of the current set explains of each column of the candidates and of y (a
    Cholesky row), so that a set costs the elimination of one block more than the set above it.
    """
    m, fixed = len(candidates), len(root)
    ky = start[y + 1] - start[y]
    place = np.empty(m + 1, np.int64)
    width = 0
    for c in range(m):
        place[c] = width
        width += start[candidates[c] + 1] - start[candidates[c]]
    place[m] = width
    columns = np.empty(width + ky, np.int64)
    for c in range(m):
        for k in range(start[candidates[c] + 1] - start[candidates[c]]):
            columns[place[c] + k] = start[candidates[c]] + k
    for k in range(ky):
        columns[width + k] = start[y] + k
    deepest = fixed + (depth.max() if len(depth) else 0)
    largest = 0
    for j in range(len(start) - 1):
        largest = max(largest, start[j + 1] - start[j])
    capacity = max(1, deepest * largest)
    W = np.empty((capacity, width + ky))
    L = np.empty((capacity, capacity))
    member = np.empty(capacity, np.int64)
    used = np.zeros(deepest + 1, np.int64)  # columns of the set, by level
    left = np.empty((largest + ky, largest + ky))
    gains = np.zeros((len(element), m))
    for step in range(fixed + len(element)):
        row = step - fixed
        if row >= 0 and depth[row] == 0:
            level = fixed
        else:
            level = step + 1 if row < 0 else fixed + depth[row]
            s = root[step] if row < 0 else element[row]
            used[level] = used[level - 1]
            for column in range(start[s], start[s + 1]):
                _eliminate(C, column, used[level], columns, member, W, L)
                used[level] += 1
        if row < 0:
            continue
        k = used[level]
        base = 0.0
        _residual(C, columns, W, k, width, width, ky, 0, left)
        for a in range(ky):
            base += math.log(_pivot(left, a))
        for c in range(m):
            if not wanted[row, c]:
                continue
            kx = start[candidates[c] + 1] - start[candidates[c]]
            if k + kx + ky > most:
                gains[row, c] = -np.inf
                continue
            _residual(C, columns, W, k, place[c], width, kx, ky, left)
            after = 0.0
            for a in range(kx + ky):
                value = _pivot(left, a)
                if a >= kx:
                    after += math.log(value)
            gains[row, c] = half_n * (base - after) - price * kx * ky - edge
    return gains


@inner
def _eliminate(C: Array, s: Int, k: Int, columns: Index, member: Index, W: Array, L: Array) -> None:
    """Column s of the set as row k of W."""
    member[k] = s
    left = _factor_row(C, member, L, k)
    inverse = 1.0 / math.sqrt(left)
    line, row = C[s], W[k]
    for c in range(len(columns)):
        row[c] = line[columns[c]]
    for i in range(k):
        factor, above = L[k, i], W[i]
        for c in range(len(columns)):
            row[c] -= factor * above[c]
    for c in range(len(columns)):
        row[c] *= inverse


@inner
def _residual(
    C: Array, columns: Index, W: Array, k: Int, x: Int, y: Int, kx: Int, ky: Int, left: Array
) -> None:
    """The lower triangle of what is left of kx columns from x on, and of ky from y on, given the set."""
    for a in range(kx + ky):
        i = x + a if a < kx else y + a - kx
        for b in range(a + 1):
            j = x + b if b < kx else y + b - kx
            value = C[columns[i], columns[j]]
            for r in range(k):
                value -= W[r, i] * W[r, j]
            left[a, b] = value


@inner
def _pivot(left: Array, a: Int) -> float:
    """Turn row a of a lower triangle into that of its Cholesky factor, in place; the pivot."""
    for b in range(a):
        value = left[a, b]
        for j in range(b):
            value -= left[a, j] * left[b, j]
        left[a, b] = value / left[b, b]
    value = left[a, a]
    for j in range(a):
        value -= left[a, j] * left[a, j]
    value = max(value, LEAST)
    left[a, a] = math.sqrt(value)
    return value
