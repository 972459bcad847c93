"""Compiled loops over the blocks of Θ: Cholesky factors, inverses, scaling, whitening.

The square matrices of all connected components lie one after the other in flat arrays; `starts` counts rows,
`squares` entries and `frees` the free entries (i >= j) of Θ.
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index
from polydag.compilation import kernel

_PANEL = 64


@kernel
def factor(A: Array, C: Array) -> bool:
    """Write the lower Cholesky factor of A into C; False where A is not positive definite."""
    m = len(A)
    for i in range(m):
        for j in range(m):
            C[i, j] = A[i, j] if j <= i else 0.0
    for low in range(0, m, _PANEL):
        high = min(low + _PANEL, m)
        for j in range(low, high):
            pivot = C[j, j]
            for t in range(low, j):
                pivot -= C[j, t] * C[j, t]
            if not pivot > 1e-13 * A[j, j]:
                return False
            root = np.sqrt(pivot)
            C[j, j] = root
            for i in range(j + 1, m):
                total = C[i, j]
                for t in range(low, j):
                    total -= C[i, t] * C[j, t]
                C[i, j] = total / root
        # Below the panel the rest is updated in strips, on and under the diagonal only.
        for top in range(high, m, 4 * _PANEL):
            end = min(top + 4 * _PANEL, m)
            strip = np.dot(
                np.ascontiguousarray(C[top:end, low:high]), np.ascontiguousarray(C[high:end, low:high]).T
            )
            for i in range(top, end):
                for j in range(high, i + 1):
                    C[i, j] -= strip[i - top, j - high]
    return True


@kernel
def invert(C: Array, W: Array) -> None:
    """Write (C Cᵀ)⁻¹ into W."""
    m = len(C)
    T = np.zeros((m, m))
    for low in range(0, m, _PANEL):
        high = min(low + _PANEL, m)
        for j in range(low, high):
            T[j, j] = 1.0 / C[j, j]
            for i in range(j + 1, high):
                total = 0.0
                for t in range(j, i):
                    total += C[i, t] * T[t, j]
                T[i, j] = -total / C[i, i]
        if low > 0:
            left = np.dot(np.ascontiguousarray(C[low:high, :low]), np.ascontiguousarray(T[:low, :low]))
            T[low:high, :low] = -np.dot(np.ascontiguousarray(T[low:high, low:high]), left)
    W[:, :] = np.dot(T.T, T)


@kernel
def normalise(Theta: Array, C: Array, W: Array) -> None:
    """Scale Θ and its factor C so that the inverse has a unit diagonal; W is the inverse before."""
    m = len(Theta)
    for i in range(m):
        scale = np.sqrt(W[i, i])
        for j in range(m):
            Theta[i, j] *= scale
            C[i, j] *= scale
        for j in range(m):
            Theta[j, i] *= scale


@kernel
def whiten(X: Array, factors: Array, starts: Index, squares: Index) -> Array:
    """`L X`, with `Θ = LᵀL`: L is the transpose of the lower Cholesky factor."""
    Y = np.empty_like(X)
    for c in range(len(starts) - 1):
        m = starts[c + 1] - starts[c]
        C = factors[squares[c] : squares[c + 1]].reshape(m, m)
        Y[starts[c] : starts[c + 1]] = np.dot(C.T, X[starts[c] : starts[c + 1]])
    return Y
