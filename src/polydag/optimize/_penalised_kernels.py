"""Compiled loops of `penalised`. Matrices of shape (d, d) are transposed: row j belongs to target j."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index
from polydag.compilation import kernel


@kernel
def elastic_net_columns(
    grams: Array,
    group: Index,
    weights: Array,
    residual: Array,
    lasso: Array,
    ridge: Array,
    tolerance: float,
    max_sweeps: int,
) -> None:
    """Solve one elastic net per variable by coordinate descent, in place.

    `grams` has shape (g, d, d), and `group[j]` is the index of the Gram matrix of variable j. Row j of
    `weights` holds the coefficients of variable j. Row j of `residual` holds the covariance of every variable
    with the residual of j. Both are updated together. A negative entry of `lasso` fixes that coefficient.
    After a full sweep, only the non-zero coefficients are visited until they converge; then another full
    sweep follows.
    """
    d = len(group)
    for j in range(d):
        S = grams[group[j]]
        w = weights[j]
        r = residual[j]
        full_sweep = True
        for _ in range(max_sweeps):
            change = 0.0
            for i in range(d):
                penalty = lasso[j, i]
                old = w[i]
                if penalty < 0.0 or (old == 0.0 and not full_sweep):
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
                full_sweep = False
            elif full_sweep:
                break
            else:
                full_sweep = True


@kernel
def quadratic_and_lasso(
    weights: Array,
    residual: Array,
    centre: Array,
    cost: Array,
) -> float:
    """`½⟨C − W, R⟩ + ⟨cost, |W|⟩`, the loss plus its ℓ1 penalty, in one pass."""
    d = len(weights)
    total = 0.0
    for j in range(d):
        row = 0.0
        for i in range(d):
            row += cost[j, i] * abs(weights[j, i]) + 0.5 * (centre[j, i] - weights[j, i]) * residual[j, i]
        total += row
    return total


@kernel
def predicted_change(
    weights: Array,
    residual: Array,
    target: Array,
    ridge: Array,
    cost: Array,
) -> float:
    """The directional derivative towards `target`, plus the full change of the ℓ1 term, in one pass."""
    d = len(weights)
    total = 0.0
    for j in range(d):
        row = 0.0
        for i in range(d):
            old, new = weights[j, i], target[j, i]
            row += (ridge[j, i] * old - residual[j, i]) * (new - old) + cost[j, i] * (abs(new) - abs(old))
        total += row
    return total
