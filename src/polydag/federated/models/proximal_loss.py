"""The distance from a point as a quadratic loss, `½ Σ_j (c_j − w_j)ᵀ G (c_j − w_j)`: the parties in step (3).

The parties enter that step only in this form: `Σ_k ρ2/2 ‖B_k + β_k/ρ2 − W‖²` differs by a constant from
`K ρ2/2 ‖C − W‖²` with `C = (1/K) Σ_k (B_k + β_k/ρ2)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index


@dataclass(frozen=True, eq=False)
class ProximalLoss:
    """The loss in the form that `optimize.penalised` expects; `gram` is `G`."""

    centre: Array
    gram: Array

    @property
    def grams(self) -> Array:
        """The single matrix `G`."""
        return self.gram[None]

    @property
    def group(self) -> Index:
        """All variables share one matrix."""
        return np.zeros(len(self.gram), dtype=np.int64)

    def residual_covariance(self, W: Array) -> Array:
        """Row j holds the weighted differences of column j."""
        return np.ascontiguousarray((self.gram @ (self.centre - W)).T)
