"""Parents by the (extended) Bayesian information criterion, by backward elimination.

`n log σ̂²_j + (log n + 2γ log d)·|pa_j|`: γ = 0 is Schwarz's criterion, γ = 1 that of Chen and Chen (2008),
which allows for choosing among d candidates. It does not depend on the units of any column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.losses import LeastSquares
from polydag.regression._elimination_kernels import eliminate

Array = NDArray[np.float64]


class Family(NamedTuple):
    """One variable given its parents: coefficients (0 where not a parent) and residual variance."""

    coefficients: Array
    variance: float


def extended_bic_penalty(n: float, d: int, gamma: float = 1.0) -> float:
    """What one more parent costs."""
    return float(np.log(n) + 2 * gamma * np.log(d))


def select_parents(
    S: Array, target: int, candidates: NDArray[np.bool_], keep: NDArray[np.bool_], n: float, penalty: float
) -> Family:
    """Leave out the weakest candidate as long as the criterion falls; those in `keep` stay."""
    return Family(*eliminate(np.ascontiguousarray(S), target, candidates | keep, keep, n, penalty))


def fit_graph(
    loss: LeastSquares, candidates: NDArray[np.bool_], keep: NDArray[np.bool_], gamma: float | None
) -> tuple[Array, float]:
    """Fit every variable on its candidates, eliminating by the criterion unless `gamma` is None.

    Returns the weights and the graph's criterion (with γ = 1 where nothing was eliminated).
    """
    W = np.zeros_like(loss.grams[0])
    criterion = 0.0
    for j in range(loss.d):
        penalty = extended_bic_penalty(loss.n[j], loss.d, 1.0 if gamma is None else gamma)
        stays = candidates[:, j] if gamma is None else keep[:, j]
        family = select_parents(loss.gram(j), j, candidates[:, j], stays, loss.n[j], penalty)
        W[:, j] = family.coefficients
        criterion += loss.n[j] * np.log(family.variance) + penalty * np.count_nonzero(W[:, j])
    return W, float(criterion)
