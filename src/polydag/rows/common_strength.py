"""One strength for all links: `Θ ∝ I + τ·Laplacian`, scaled to unit variances.

Within a group whose rows are all linked this is the same correlation `τ/(1 + τ)` for every pair, whatever the
group's size (the random-intercept model); on a network it is the intrinsic autoregressive model of spatial
statistics, kept proper by the identity (Leroux et al. 2000). One parameter, so a few columns suffice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.rows import _precision_kernels
from polydag.rows.precision import RowPrecision

Array = NDArray[np.float64]
_LARGEST = 0.98  # of τ/(1 + τ); beyond it Θ is hardly invertible


def common_precision(strength: float, like: RowPrecision) -> RowPrecision:
    """Θ for `τ/(1 + τ) = strength`, the correlation of two rows in a complete group."""
    layout = like.layout
    thetas, factors = np.empty_like(like.thetas), np.empty_like(like.factors)
    _precision_kernels.laplacian_blocks(
        strength / (1.0 - strength),
        thetas,
        factors,
        layout.starts,
        layout.squares,
        layout.frees,
        layout.rows,
        layout.columns,
    )
    return RowPrecision(layout, thetas, factors)


class Common(NamedTuple):
    """A fitted Θ, and the factors by which each column's ρ and φ grow with it."""

    precision: RowPrecision
    scales: Array


def fit_common(R: Array, old: RowPrecision, lengths: Array) -> Common:
    """The strength that minimises (6), with each (ρ_j, φ_j) at its best size; never worse than `old`.

    Strength and sizes are chosen together: with sizes fixed, a network without gaps is driven to correlations
    near one. `R` holds residuals `ρ_j X_j − X φ_j`, `lengths` the penalties `λ1 Σ|φ_j|`.
    """
    from scipy.optimize import minimize_scalar

    n, p = R.shape

    def fitted(precision: RowPrecision) -> tuple[float, Array]:
        q = np.sum(precision.whiten_sorted(R) ** 2, axis=0)
        t = (-lengths + np.sqrt(lengths**2 + 16.0 * n * q)) / (4.0 * q)
        sizes = np.sum(-2.0 * n * np.log(t) + t * t * q + t * lengths)
        return float(sizes - p * precision.log_determinant), t

    found = minimize_scalar(
        lambda strength: fitted(common_precision(strength, old))[0],
        bounds=(0.0, _LARGEST),
        method="bounded",
        options={"xatol": 1e-4},
    )
    new = common_precision(float(found.x), old)
    best = new if fitted(new)[0] < fitted(old)[0] else old
    return Common(best, fitted(best)[1])
