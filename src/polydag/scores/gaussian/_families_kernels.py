"""Compiled gains of Gaussian scores: `local_score(y, B + {x}) - local_score(y, B)` for a tree of sets B.

Sets arrive in depth-first order (`polydag.scores.families.ParentSets`), so that each costs one elimination
step more than the set above it.
"""

from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array, Index, Int
from polydag.compilation import inner, kernel
from polydag.scores.gaussian.form import DETERMINED


@kernel
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
        spare = DETERMINED * C[y, y]
        base, rate = constant[k], slope[k]
        level, cross, out = V[k], U[k], gains[row]
        threshold = -np.inf
        if positive_only and half == 0.0:
            # The logarithm is taken only of partial correlations strong enough to pay.
            threshold = -math.expm1(base / rate)
        rest = max(left[k], spare)
        for c in range(m):
            x = candidates[c]
            share = cross[c] * cross[c] / (max(level[c], DETERMINED * C[x, x]) * rest)
            if share > threshold:
                share = min(share, 1.0 - 1e-12)
                if level[c] <= DETERMINED * C[x, x] or left[k] <= spare:
                    share = 0.0
                out[c] = base - rate * math.log1p(-share)
                if half != 0.0:
                    out[c] -= 0.5 * half * math.log(max(level[c], DETERMINED * C[x, x]) * rest)
    return gains


@inner
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
    L[k, k] = math.sqrt(pivot) if pivot > DETERMINED * C[s, s] else np.inf
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
