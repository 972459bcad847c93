"""The trace of the matrix exponential (Zheng et al. 2018): `h = tr exp(V) − d`, `∂h/∂V = exp(V)ᵀ`."""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

from polydag.arrays import Array


class Expm:
    """Counts closed walks, with weight 1/k! for length k."""

    def value_and_grad(self, V: Array) -> tuple[float, Array]:
        """`h(V)` and `∂h/∂V`; the value is infinite if the exponential overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            power = np.asarray(expm(V), dtype=float)
        value = float(np.trace(power)) - len(V)
        return (value, power.T) if np.isfinite(power).all() else (np.inf, power.T)
