"""The log-determinant (Bello et al. 2022): `h = −log det(I − V)`, `∂h/∂V = (I − V)⁻ᵀ`.

It is defined if the spectral radius of V is below one. It counts closed walks with weight 1/k for length k,
so it responds to long cycles that hardly change the exponential.

Weights between columns in very different units are large, and rounding in `(I − V)⁻¹` may then exceed the
entries that decide whether V lies in the domain. A diagonal similarity changes neither the determinant nor
the signs of the inverse, so such a matrix is balanced first (Parlett and Reinsch 1969).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import matrix_balance
from scipy.linalg.lapack import dgetrf, dgetri

from polydag.arrays import Array

_ROUNDING = 1e-9
_MIXED_UNITS = 1e6  # a squared weight this large comes from units, and costs digits unless balanced


class LogDet:
    """Infinite unless `I − V` is an M-matrix; beyond these its inverse is no longer non-negative."""

    def value_and_grad(self, V: Array) -> tuple[float, Array]:
        """`h(V)` and `∂h/∂V` from one LU factorisation; infinite if the spectral radius is at least one."""
        if V.max(initial=0.0) > _MIXED_UNITS:
            return _balanced(V)
        value, inverse = _factorised(V)
        if not inverse.min() >= -_ROUNDING:
            return np.inf, V
        return value, np.maximum(inverse.T, 0.0)


def _factorised(V: Array) -> tuple[float, Array]:
    """`−log |det(I − V)|` and `(I − V)⁻¹`; NaN where there is no inverse."""
    matrix = np.negative(V)
    matrix.flat[:: len(V) + 1] += 1.0
    factors, pivots, singular = dgetrf(matrix)
    if singular:
        return np.inf, np.full_like(matrix, np.nan)
    inverse, _ = dgetri(factors, pivots)
    return -float(np.log(np.abs(factors.diagonal())).sum()), inverse


def _balanced(V: Array) -> tuple[float, Array]:
    """As `value_and_grad`, by way of a balanced matrix; of an acyclic one that is triangular."""
    if not np.isfinite(V).all():
        return np.inf, V
    with np.errstate(invalid="ignore"):  # scipy casts scales to integers, too, and does not use them
        balanced, (scale, order) = matrix_balance(V, separate=True)
    if np.abs(np.linalg.eigvals(balanced)).max() >= 1.0:
        return np.inf, V
    value, inner = _factorised(np.asarray(balanced, dtype=float))
    inverse = np.empty_like(inner)
    place = np.asarray(order, dtype=np.intp)
    inverse[np.ix_(place, place)] = inner * (scale[:, None] / scale)
    return value, np.maximum(inverse.T, 0.0)
