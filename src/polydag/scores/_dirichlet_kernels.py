"""Compiled gains: `local_score(y, B + {x}) - local_score(y, B)` for a tree of sets B and many candidates x.

Sets arrive in depth-first order (`polydag.scores.families.ParentSets`), so each costs one more elimination
step (Gaussian) or one more digit in the rows' configuration (discrete) than the set above it.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Index = NDArray[np.int64]
Codes = NDArray[np.int32]
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Int = int | np.signedinteger

BDEU, BDS, K2 = 0, 1, 2
_FLOOR = 1e-10  # share of variance below which a column counts as determined by those before it


@njit(cache=True)
def gaussian_gains(
    C: Array,
    y: Int,
    candidates: Index,
    root: Index,
    element: Index,
    depth: Index,
    constant: Array,
    slope: Array,
    half: float,
    positive_only: bool,
) -> Array:
    """Gains from a matrix C of (co)variances; gains that are not positive may be left at 0 on request.

    Row k of W is what member k of the current set explains of each candidate (a Cholesky row); V and U are
    the candidates' remaining variance and covariance with y, kept per level so that stepping back is free.
    """
    m, fixed = len(candidates), len(root)
    deepest = fixed + depth.max()
    W = np.empty((deepest, m))
    V = np.empty((deepest + 1, m))
    U = np.empty((deepest + 1, m))
    L = np.zeros((deepest, deepest))
    along = np.empty(deepest)
    left = np.empty(deepest + 1)
    member = np.empty(deepest, np.int64)
    gains = np.zeros((len(element), m))
    left[0] = C[y, y]
    for c in range(m):
        x = candidates[c]
        V[0, c] = C[x, x]
        U[0, c] = C[y, x]
    for step in range(fixed + len(element)):
        row = step - fixed
        if row >= 0 and depth[row] == 0:
            k = fixed
        else:
            k = step + 1 if row < 0 else fixed + depth[row]
            s = root[step] if row < 0 else element[row]
            member[k - 1] = s
            _eliminate(C, y, s, k - 1, candidates, member, W, V, U, L, along, left)
        if row < 0:
            continue
        spare = _FLOOR * C[y, y]
        base, rate = constant[k], slope[k]
        level, cross, out = V[k], U[k], gains[row]
        threshold = -np.inf
        if positive_only and half == 0.0:
            # The logarithm is taken only of partial correlations strong enough to pay.
            threshold = -math.expm1(base / rate)
        rest = max(left[k], spare)
        for c in range(m):
            x = candidates[c]
            share = cross[c] * cross[c] / (max(level[c], _FLOOR * C[x, x]) * rest)
            if share > threshold:
                share = min(share, 1.0 - 1e-12)
                if level[c] <= _FLOOR * C[x, x] or left[k] <= spare:
                    share = 0.0
                out[c] = base - rate * math.log1p(-share)
                if half != 0.0:
                    out[c] -= 0.5 * half * math.log(max(level[c], _FLOOR * C[x, x]) * rest)
    return gains


@njit(cache=True)
def _eliminate(
    C: Array,
    y: Int,
    s: Int,
    k: Int,
    candidates: Index,
    member: Index,
    W: Array,
    V: Array,
    U: Array,
    L: Array,
    along: Array,
    left: Array,
) -> None:
    """Take out what s, as member k of the set, explains of the candidates and of y beyond members 0..k-1."""
    pivot = C[s, s]
    for i in range(k):
        value = C[s, member[i]]
        for j in range(i):
            value -= L[i, j] * L[k, j]
        L[k, i] = value / L[i, i]
        pivot -= L[k, i] * L[k, i]
    # A member that the others determine explains nothing more: dividing by infinity leaves zeros.
    L[k, k] = math.sqrt(pivot) if pivot > _FLOOR * C[s, s] else np.inf
    inverse = 1.0 / L[k, k]
    value = C[s, y]
    for i in range(k):
        value -= L[k, i] * along[i]
    own = value * inverse
    along[k] = own
    left[k + 1] = left[k] - own * own
    row, line = W[k], C[s]
    m = len(candidates)
    for c in range(m):
        row[c] = line[candidates[c]]
    for i in range(k):
        factor, above = L[k, i], W[i]
        for c in range(m):
            row[c] -= factor * above[c]
    before, after, cross, across = V[k], V[k + 1], U[k], U[k + 1]
    for c in range(m):
        value = row[c] * inverse
        row[c] = value
        after[c] = before[c] - value * value
        across[c] = cross[c] - value * own


@njit(cache=True)
def discrete_gains(
    columns: Codes,
    weights: Array,
    arities: Index,
    y: Int,
    candidates: Index,
    root: Index,
    element: Index,
    depth: Index,
    wanted: Mask,
    kind: Int,
    strength: float,
) -> Array:
    """Gains from distinct rows (`columns[variable, row]`) and their weights, where wanted."""
    rows = columns.shape[1]
    fixed = len(root)
    deepest = fixed + depth.max()
    index = np.zeros((deepest + 1, rows), np.int64)
    seen = np.ones(deepest + 1, np.int64)
    size = np.ones(deepest + 1)
    own = arities[y]
    gains = np.zeros(wanted.shape)
    joint = np.empty(rows, np.int64)
    for step in range(fixed + len(element)):
        row = step - fixed
        if row >= 0 and depth[row] == 0:
            k = fixed
        else:
            k = step + 1 if row < 0 else fixed + depth[row]
            s = root[step] if row < 0 else element[row]
            seen[k] = _refine(index[k - 1], seen[k - 1], columns[s], arities[s], index[k])
            size[k] = size[k - 1] * arities[s]
        if row < 0 or not wanted[row].any():
            continue
        before = _family(index[k], seen[k], size[k], columns[y], own, weights, kind, strength)
        for c in range(len(candidates)):
            if not wanted[row, c]:
                continue
            x = candidates[c]
            levels = seen[k] * arities[x]
            if levels * own <= 4 * rows + 4096:
                for r in range(rows):
                    joint[r] = index[k, r] * arities[x] + columns[x, r]
            else:  # too many empty configurations to keep a place for each
                levels = _refine(index[k], seen[k], columns[x], arities[x], joint)
            after = _family(joint, levels, size[k] * arities[x], columns[y], own, weights, kind, strength)
            gains[row, c] = after - before
    return gains


@njit(cache=True)
def _refine(index: Index, seen: Int, column: Codes, arity: Int, out: Index) -> int:
    """Number the configurations of one more variable, counting only those that occur."""
    place = np.full(seen * arity, -1, np.int64)
    count = 0
    for r in range(len(column)):
        cell = index[r] * arity + column[r]
        if place[cell] < 0:
            place[cell] = count
            count += 1
        out[r] = place[cell]
    return count


@njit(cache=True)
def _family(
    index: Index,
    seen: Int,
    size: float,
    column: Codes,
    arity: Int,
    weights: Array,
    kind: Int,
    strength: float,
) -> float:
    """The Dirichlet marginal likelihood of one family, from its rows' parent configurations."""
    table = np.zeros((seen, arity))
    for r in range(len(column)):
        table[index[r], column[r]] += weights[r]
    return _dirichlet(table, size, kind, strength)


@njit(cache=True)
def _dirichlet(table: Array, size: float, kind: Int, strength: float) -> float:
    """The log marginal likelihood of a table (configurations, levels); `size` counts unseen ones too."""
    configurations, arity = table.shape
    totals = np.zeros(configurations)
    occupied = 0
    for j in range(configurations):
        for level in range(arity):
            totals[j] += table[j, level]
        if totals[j] > 0.0:
            occupied += 1
    if kind == K2:
        cell = 1.0
    elif kind == BDS:
        cell = strength / (max(occupied, 1) * arity)
    else:
        cell = strength / (size * arity)
    together = cell * arity
    empty, empty_total = math.lgamma(cell), math.lgamma(together)
    result = 0.0
    for j in range(configurations):
        if totals[j] <= 0.0:
            continue
        result += empty_total - math.lgamma(together + totals[j])
        for level in range(arity):
            if table[j, level] > 0.0:
                result += math.lgamma(cell + table[j, level]) - empty
    return result


@njit(cache=True)
def discrete_family(
    columns: Codes, weights: Array, arities: Index, y: Int, parents: Index, kind: Int, strength: float
) -> float:
    """The local score of one family."""
    rows = columns.shape[1]
    index = np.zeros(rows, np.int64)
    seen, size = 1, 1.0
    for s in parents:
        refined = np.empty(rows, np.int64)
        seen = _refine(index, seen, columns[s], arities[s], refined)
        size *= arities[s]
        index = refined
    return _family(index, seen, size, columns[y], arities[y], weights, kind, strength)
