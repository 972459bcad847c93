"""Compiled Dirichlet scores of families, and their gains for a tree of parent sets and many candidates.

Sets arrive in depth-first order (`polydag.scores.families.ParentSets`), so that each costs one digit more in
the rows' configurations than the set above it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import inner, kernel
from polydag.scores.discrete.pseudocounts import PER_CELL, PER_OCCUPIED
from polydag.stats._configurations_kernels import refine

Codes = NDArray[np.int32]


@kernel
def dirichlet_gains(
    columns: Codes,
    weights: Array,
    arities: Index,
    y: Int,
    candidates: Index,
    root: Index,
    element: Index,
    depth: Index,
    wanted: Mask,
    form: Int,
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
            seen[k] = refine(index[k - 1], seen[k - 1], columns[s], arities[s], index[k])
            size[k] = size[k - 1] * arities[s]
        if row < 0 or not wanted[row].any():
            continue
        before = _family(index[k], seen[k], size[k], columns[y], own, weights, form, strength)
        for c in range(len(candidates)):
            if not wanted[row, c]:
                continue
            x = candidates[c]
            levels = seen[k] * arities[x]
            if levels * own <= 4 * rows + 4096:
                for r in range(rows):
                    joint[r] = index[k, r] * arities[x] + columns[x, r]
            else:  # too many empty configurations to keep a place for each
                levels = refine(index[k], seen[k], columns[x], arities[x], joint)
            after = _family(joint, levels, size[k] * arities[x], columns[y], own, weights, form, strength)
            gains[row, c] = after - before
    return gains


@inner
def _family(
    index: Index,
    seen: Int,
    size: float,
    column: Codes,
    arity: Int,
    weights: Array,
    form: Int,
    strength: float,
) -> float:
    """The Dirichlet marginal likelihood of one family, from its rows' parent configurations."""
    table = np.zeros((seen, arity))
    for r in range(len(column)):
        table[index[r], column[r]] += weights[r]
    likelihood: float = dirichlet(table, size, form, strength)
    return likelihood


@kernel
def dirichlet(table: Array, size: float, form: Int, strength: float) -> float:
    """The log marginal likelihood of a table (configurations, levels); `size` counts unseen ones too."""
    configurations, arity = table.shape
    totals = np.zeros(configurations)
    occupied = 0
    for j in range(configurations):
        for level in range(arity):
            totals[j] += table[j, level]
        if totals[j] > 0.0:
            occupied += 1
    if form == PER_CELL:
        cell = strength
    elif form == PER_OCCUPIED:
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


@kernel
def dirichlet_family(
    columns: Codes, weights: Array, arities: Index, y: Int, parents: Index, form: Int, strength: float
) -> float:
    """The local score of one family."""
    rows = columns.shape[1]
    index = np.zeros(rows, np.int64)
    seen, size = 1, 1.0
    for s in parents:
        refined = np.empty(rows, np.int64)
        seen = refine(index, seen, columns[s], arities[s], refined)
        size *= arities[s]
        index = refined
    likelihood: float = _family(index, seen, size, columns[y], arities[y], weights, form, strength)
    return likelihood
