"""Compiled loops of parent selection by backward elimination."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Mask
from polydag.compilation import kernel


@kernel
def eliminate(
    S: Array,
    target: int,
    chosen: Mask,
    keep: Mask,
    n: float,
    penalty: float,
) -> tuple[Array, float]:
    """Eliminate parents of one target from `chosen`, those in `keep` excepted.

    `S` is the (d, d) covariance; `chosen` and `keep` have shape (d,). Returns the coefficients (0 for
    eliminated candidates) and the residual variance. The inverse covariance of the remaining candidates is
    downdated, so each elimination costs k² operations. While there are more candidates than half the number
    of rows, the weakest is eliminated regardless of the criterion.
    """
    d = len(S)
    members = np.flatnonzero(chosen)
    k = len(members)
    coefficients = np.zeros(d)
    variance = S[target, target]
    if k == 0:
        return coefficients, variance
    gram = np.empty((k, k))
    c = np.empty(k)
    for a in range(k):
        c[a] = S[members[a], target]
        for b in range(k):
            gram[a, b] = S[members[a], members[b]]
        gram[a, a] *= 1.0 + 1e-12
    P = np.linalg.inv(gram)
    beta = P @ c
    floor = 1e-14 * S[target, target]
    variance = max(variance - c @ beta, floor)
    inside = np.ones(k, dtype=np.bool_)
    left = k
    while left > 0:
        best = -1
        least = np.inf
        for a in range(k):
            if inside[a] and not keep[members[a]]:
                loss = beta[a] * beta[a] / P[a, a]
                if loss < least:
                    least = loss
                    best = a
        if best < 0:
            break
        if 2 * left <= n and n * np.log1p(least / variance) >= penalty:
            break
        inside[best] = False
        left -= 1
        pivot = P[best, best]
        shift = beta[best] / pivot
        for a in range(k):
            if inside[a]:
                beta[a] -= P[a, best] * shift
                ratio = P[a, best] / pivot
                for b in range(k):
                    if inside[b]:
                        P[a, b] -= ratio * P[best, b]
        variance = max(variance + least, floor)
    for a in range(k):
        if inside[a]:
            coefficients[members[a]] = beta[a]
    return coefficients, variance
