"""The trace of the matrix exponential (Zheng et al. 2018): `h = tr exp(V) − d`, `∂h/∂V = exp(V)ᵀ`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm


class Expm:
    """Counts closed walks, those of length k weighted by 1/k!."""

    def value_and_grad(self, V: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """`h(V)` and `∂h/∂V`; infinite where the exponential overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            power = np.asarray(expm(V), dtype=float)
        value = float(np.trace(power)) - len(V)
        return (value, power.T) if np.isfinite(power).all() else (np.inf, power.T)
