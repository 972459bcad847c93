"""The log-determinant (Bello et al. 2022): `h = −log det(I − V)`, `∂h/∂V = (I − V)⁻ᵀ`.

It is defined where the spectral radius of V is below one, and counts closed walks of length k weighted by
1/k, so it feels long cycles that the exponential hardly sees.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgetrf, dgetri

_ROUNDING = 1e-9


class LogDet:
    """Infinite outside the M-matrices, where the inverse stops being non-negative."""

    def value_and_grad(self, V: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """`h(V)` and `∂h/∂V` from one LU factorisation; infinite at a spectral radius of one or more."""
        matrix = np.negative(V)
        matrix.flat[:: len(V) + 1] += 1.0
        factors, pivots, singular = dgetrf(matrix)
        if singular:
            return np.inf, V
        inverse, _ = dgetri(factors, pivots)
        if not inverse.min() >= -_ROUNDING:
            return np.inf, V
        return -float(np.log(np.abs(factors.diagonal())).sum()), np.maximum(inverse.T, 0.0)
