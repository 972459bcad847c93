"""The log-determinant (Bello et al. 2022): `h = −log det(I − V)`, `∂h/∂V = (I − V)⁻ᵀ`.

It is defined if the spectral radius of V is below one. It counts closed walks with weight 1/k for length k,
so it responds to long cycles that hardly change the exponential.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetri

from polydag.arrays import Array

_ROUNDING = 1e-9


class LogDet:
    """Infinite unless `I − V` is an M-matrix; beyond these its inverse is no longer non-negative."""

    def value_and_grad(self, V: Array) -> tuple[float, Array]:
        """`h(V)` and `∂h/∂V` from one LU factorisation; infinite if the spectral radius is at least one."""
        matrix = np.negative(V)
        matrix.flat[:: len(V) + 1] += 1.0
        factors, pivots, singular = dgetrf(matrix)
        if singular:
            return np.inf, V
        inverse, _ = dgetri(factors, pivots)
        if not inverse.min() >= -_ROUNDING:
            return np.inf, V
        return -float(np.log(np.abs(factors.diagonal())).sum()), np.maximum(inverse.T, 0.0)
