"""Closeness to a point as a quadratic loss, `½ Σ_j (c_j − w_j)ᵀ G (c_j − w_j)`: clients in step (3).

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
    """The loss as `solvers.penalised` takes it; `gram` is `G`."""

    centre: Array
    gram: Array

    @property
    def grams(self) -> Array:
        """One matrix."""
        return self.gram[None]

    @property
    def group(self) -> NDArray[np.int64]:
        """All variables share it."""
        return np.zeros(len(self.gram), dtype=np.int64)

    def residual_covariance(self, W: Array) -> Array:
        """Row j: the weighted differences of column j."""
        return np.ascontiguousarray((self.gram @ (self.centre - W)).T)
