"""Compiled loops of the solvers."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def elastic_net_columns(
    grams: NDArray[np.float64],
    group: NDArray[np.int64],
    weights: NDArray[np.float64],
    residual: NDArray[np.float64],
    lasso: NDArray[np.float64],
    ridge: NDArray[np.float64],
    tolerance: float,
    max_sweeps: int,
) -> None:
    """Coordinate descent on one elastic net a variable, in place.

    Row j of `weights` holds the coefficients into variable j, row j of `residual` the covariance of every
    variable with its residual; both are kept in step. A negative entry of `lasso` fixes that coefficient.
    After a full sweep only the non-zero coefficients are visited until they settle, then all again.
    """
    d = len(group)
    for j in range(d):
        S = grams[group[j]]
        w = weights[j]
        r = residual[j]
        everything = True
        for _ in range(max_sweeps):
            change = 0.0
            for i in range(d):
                penalty = lasso[j, i]
                old = w[i]
                if penalty < 0.0 or (old == 0.0 and not everything):
                    continue
                z = r[i] + S[i, i] * old
                if z > penalty:
                    new = (z - penalty) / (S[i, i] + ridge[j, i])
                elif z < -penalty:
                    new = (z + penalty) / (S[i, i] + ridge[j, i])
                else:
                    new = 0.0
                if new != old:
                    step = new - old
                    w[i] = new
                    for k in range(d):
                        r[k] -= S[i, k] * step
                    change = max(change, abs(step) * np.sqrt(S[i, i]))
            if change >= tolerance:
                everything = False
            elif everything:
                break
            else:
                everything = True


@njit(cache=True)
def quadratic_and_lasso(
    weights: NDArray[np.float64],
    residual: NDArray[np.float64],
    centre: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> float:
    """`½⟨C − W, R⟩ + ⟨cost, |W|⟩`, the loss and its ℓ1 penalty, in one pass."""
    d = len(weights)
    total = 0.0
    for j in range(d):
        row = 0.0
        for i in range(d):
            row += cost[j, i] * abs(weights[j, i]) + 0.5 * (centre[j, i] - weights[j, i]) * residual[j, i]
        total += row
    return total


@njit(cache=True)
def promised_change(
    weights: NDArray[np.float64],
    residual: NDArray[np.float64],
    target: NDArray[np.float64],
    ridge: NDArray[np.float64],
    cost: NDArray[np.float64],
) -> float:
    """The directional derivative towards `target`, with the ℓ1 term's whole change, in one pass."""
    d = len(weights)
    total = 0.0
    for j in range(d):
        row = 0.0
        for i in range(d):
            old, new = weights[j, i], target[j, i]
            row += (ridge[j, i] * old - residual[j, i]) * (new - old) + cost[j, i] * (abs(new) - abs(old))
        total += row
    return total
