"""Compiled Gibbs draws of what lies behind labels, given all rows and columns."""

from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array, Index
from polydag.compilation import kernel
from polydag.rows.latent._normal_kernels import between


@kernel
def sweep(
    R: Array,
    thetas: Array,
    starts: Index,
    squares: Index,
    K: Array,
    low: Array,
    high: Array,
    columns: Index,
    uniforms: Array,
) -> None:
    """Draw each value behind a label once, given all others, in place.

    R (n, p) has the covariance Σ between rows and K⁻¹ between columns, rows sorted by component; Θ = Σ⁻¹ is
    in blocks end to end. `columns` are those of labels; `low`, `high` and `uniforms` (n, labels) hold
    the bounds and random numbers.
    """
    p = R.shape[1]
    for c in range(len(starts) - 1):
        m = starts[c + 1] - starts[c]
        Theta = thetas[squares[c] : squares[c + 1]].reshape(m, m)
        own = R[starts[c] : starts[c + 1]]
        H = np.dot(own, K)
        for i in range(m):
            row = starts[c] + i
            for k in range(len(columns)):
                j = columns[k]
                total = 0.0
                for other in range(m):
                    total += Theta[i, other] * H[other, j]
                precision = Theta[i, i] * K[j, j]
                mean = own[i, j] - total / precision
                sd = 1.0 / math.sqrt(precision)
                a, b = (low[row, k] - mean) / sd, (high[row, k] - mean) / sd
                value = mean + sd * between(a, b, uniforms[row, k])
                change = value - own[i, j]
                own[i, j] = value
                for other in range(p):
                    H[i, other] += change * K[j, other]
