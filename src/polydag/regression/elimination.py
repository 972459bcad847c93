"""Select parents by backward elimination with the (extended) Bayesian information criterion.

The criterion is `n log σ̂²_j + (log n + 2γ log d)·|pa_j|`. With γ = 0 it is Schwarz's BIC; with γ = 1 it is
that of Chen and Chen (2008), which accounts for the selection among d candidates. It does not depend on the
units of any column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Mask
from polydag.losses import LeastSquares
from polydag.regression._elimination_kernels import eliminate


class Family(NamedTuple):
    """A variable regressed on its parents: coefficients (0 for non-parents) and residual variance."""

    coefficients: Array
    variance: float


def extended_bic_penalty(n: float, d: int, gamma: float = 1.0) -> float:
    """The penalty of one additional parent."""
    return float(np.log(n) + 2 * gamma * np.log(d))


def select_parents(S: Array, target: int, candidates: Mask, keep: Mask, n: float, penalty: float) -> Family:
    """Eliminate the weakest candidate as long as the criterion decreases; those in `keep` stay."""
    return Family(*eliminate(np.ascontiguousarray(S), target, candidates | keep, keep, n, penalty))


def fit_graph(loss: LeastSquares, candidates: Mask, keep: Mask, gamma: float | None) -> tuple[Array, float]:
    """Regress every variable on its candidates, with backward elimination unless `gamma` is None.

    Returns the weights and the criterion of the graph (with γ = 1 if `gamma` is None).
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
