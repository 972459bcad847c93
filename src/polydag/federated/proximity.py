"""Closeness to a point as a quadratic loss, `½ Σ_ij g_i (C_ij − W_ij)²`: the clients' part of step (3).

It is what is left of the clients there: `Σ_k ρ2/2 ‖B_k + β_k/ρ2 − W‖²` differs from `K ρ2/2 ‖C − W‖²` with
`C = (1/K) Σ_k (B_k + β_k/ρ2)` by a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Proximity:
    """The loss as `solvers.penalised` takes it; `weight[i]` is `g_i`."""

    centre: Array
    weight: Array

    @property
    def grams(self) -> Array:
        """One diagonal matrix."""
        return np.diag(self.weight)[None]

    @property
    def group(self) -> NDArray[np.int64]:
        """All variables share it."""
        return np.zeros(len(self.weight), dtype=np.int64)

    def residual_covariance(self, W: Array) -> Array:
        """Row j: the weighted differences of column j."""
        return np.ascontiguousarray((self.weight[:, None] * (self.centre - W)).T)
