"""Compiled lasso of every column given Θ, and least squares on its support, both on Gram matrices."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array
from polydag.compilation import kernel
from polydag.rows._precision_kernels import factor


@kernel
def lasso_columns(
    G: Array, n: float, penalty: Array, phi: Array, rho: Array, tolerance: float, max_sweeps: int
) -> bool:
    """Minimise (8) for every column by coordinate descent on the Gram matrix, in place.

    Row j of `phi` and `penalty` is about column j and its predecessors 0 … j−1; an infinite penalty keeps a
    coefficient at zero. Between sweeps ρ takes its closed form (9), with 4n under the root, and (ρ, φ) is
    scaled to its best size, since the two shrink each other's steps where a column is well explained.
    Returns whether every column settled.
    """
    p = len(G)
    settled = True
    g = np.empty(p)
    for j in range(p):
        w = phi[j]
        for k in range(j):
            g[k] = rho[j] * G[j, k]
        for t in range(j):
            if w[t] != 0.0:
                for k in range(j):
                    g[k] -= G[t, k] * w[t]
        everything = True
        done = False
        for _ in range(max_sweeps):
            change = 0.0
            for k in range(j):
                old = w[k]
                half = 0.5 * penalty[j, k]
                if old == 0.0 and (not everything or abs(g[k]) <= half):
                    continue
                z = g[k] + G[k, k] * old
                new = (z - half) / G[k, k] if z > half else (z + half) / G[k, k] if z < -half else 0.0
                step = new - old
                if step != 0.0:
                    w[k] = new
                    for t in range(j):
                        g[t] -= G[k, t] * step
                    change = max(change, step * step * G[k, k])
            along = 0.0
            fitted = 0.0
            length = 0.0
            for k in range(j):
                if w[k] != 0.0:
                    along += G[j, k] * w[k]
                    fitted += w[k] * (rho[j] * G[j, k] - g[k])
                    length += penalty[j, k] * abs(w[k])
            new_rho = (along + np.sqrt(along * along + 4.0 * n * G[j, j])) / (2.0 * G[j, j])
            quadratic = new_rho * new_rho * G[j, j] - 2.0 * new_rho * along + fitted
            scale = 1.0
            if quadratic > 0.0:
                scale = (-length + np.sqrt(length * length + 16.0 * n * quadratic)) / (4.0 * quadratic)
            step = scale * new_rho - rho[j]
            change = max(change, step * step * G[j, j])
            for k in range(j):
                g[k] = scale * (g[k] + (new_rho - rho[j]) * G[j, k])
                w[k] *= scale
            rho[j] = scale * new_rho
            if change >= tolerance * n:
                everything = False
            elif everything:
                done = True
                break
            else:
                everything = True
        settled = settled and done
    return settled


@kernel
def refit(G: Array, phi: Array) -> Array:
    """Each column's residual sum of squares, least squares on the support of `phi` (row j: column j)."""
    p = len(G)
    result = np.empty(p)
    for j in range(p):
        members = np.flatnonzero(phi[j])
        k = len(members)
        A = np.empty((k + 1, k + 1))
        for a in range(k + 1):
            ia = members[a] if a < k else j
            for b in range(k + 1):
                ib = members[b] if b < k else j
                A[a, b] = G[ia, ib]
        C = np.empty((k + 1, k + 1))
        result[j] = C[k, k] ** 2 if factor(A, C) else 0.0
    return result
