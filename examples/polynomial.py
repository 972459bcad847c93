"""An acyclicity function in one file: a polynomial (Yu et al. 2019), `h = tr((I + V/d)^d) − d`.

`V` holds the squared weights. Closed walks of every length up to d count, and without cycles h is zero. Its
gradient is `((I + V/d)^(d−1))ᵀ`, which is never negative, as the solvers want it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Polynomial:
    """Zero on acyclic graphs, positive elsewhere, defined everywhere."""

    def value_and_grad(self, V: Array) -> tuple[float, Array]:
        """`h(V)` and `∂h/∂V`."""
        d = len(V)
        base = np.eye(d) + V / d
        power = np.linalg.matrix_power(base, d - 1)
        return float(np.vdot(power.T, base)) - d, power.T


if __name__ == "__main__":
    from polydag import Notears, metrics, simulate
    from polydag.acyclicity import ACYCLICITY

    ACYCLICITY["polynomial"] = Polynomial
    truth = simulate.dag(10, n_edges=15, random_state=0)
    model = Notears(acyclicity="polynomial").fit(simulate.linear(truth, n=500, random_state=1))
    print("SHD:", metrics.shd(true=truth, estimate=model.graph_))
