"""Hill climbing from a DAG: one edge more, one less or one turned round while the extended BIC falls.

Only families of which all covariances are known are looked at, so it works on what sites have added up.
Equivalent graphs have the same criterion; least squares, the loss of NOTEARS, tells them apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.orientation import reachable
from polydag.regression import extended_bic_penalty

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_ROUNDING = 1e-6  # criteria that differ by less are those of equivalent graphs
_RELATIVE = 1e-9  # and of variances
_SINGULAR = 1e-10
_MOST = 1000


class Gains(NamedTuple):
    """What adding (or leaving out) each parent takes off the criterion and off the residual variance."""

    criterion: Array
    variance: Array


class Moves(NamedTuple):
    """`[i, j]` for every kind of move of the edge `i -> j`; the criterion's gain is -inf where impossible."""

    more: Gains
    less: Gains
    turned: Gains


def climb(loss: LeastSquares, start: Mask, known: Mask, masks: Masks) -> Mask:
    """The graph where no move helps any more, or a thousand moves away.

    Parameters
    ----------
    start : bool array of shape (d, d)
        A DAG.
    known : bool array of shape (g, d, d)
        Which covariances of `loss` are known.
    """
    A = start.copy()
    d = loss.d
    add, drop = (Gains(np.empty((d, d)), np.empty((d, d))) for _ in range(2))
    stale = set(range(d))
    for _ in range(_MOST):
        for j in stale:
            for table, column in zip((add, drop), _of_family(loss, A[:, j], j, known, masks), strict=True):
                table.criterion[:, j], table.variance[:, j] = column
        found = _best(_moves(A, add, drop))
        if found is None:
            break
        kind, i, j = found
        A[i, j] = kind == "more"
        A[j, i] = kind == "turned"
        stale = {i, j} if kind == "turned" else {j}
    return A


def _of_family(loss: LeastSquares, parents: Mask, j: int, known: Mask, masks: Masks) -> tuple[Gains, Gains]:
    """For every variable: what it would bring as a further parent of j, and what its leaving would."""
    S, n = loss.gram(j), loss.n[j]
    price = extended_bic_penalty(n, loss.d)
    p = np.flatnonzero(parents)
    P = np.linalg.inv(S[np.ix_(p, p)] + 1e-12 * np.diag(S.diagonal()[p]))
    X = P @ S[p]
    own = S.diagonal()
    left = np.maximum(own - np.einsum("ki,ki->i", S[p], X), 1e-14 * own)
    variance = left[j]

    seen = known[loss.group[j]]
    can = seen[:, j] & seen[p].all(axis=0) & ~parents & ~masks.forbidden[:, j] & (left > _SINGULAR * own)
    can[j] = False
    can &= 2 * (len(p) + 1) <= n
    gained = np.zeros(loss.d)
    gained[can] = (S[can, j] - S[np.ix_(can, p)] @ X[:, j]) ** 2 / left[can]
    gained = np.minimum(gained, (1 - 1e-14) * variance)
    more = Gains(np.where(can, -n * np.log1p(-gained / variance) - price, -np.inf), gained)

    lost, leaves = np.zeros(loss.d), parents & ~masks.required[:, j]
    lost[p] = X[:, j] ** 2 / P.diagonal()
    less = Gains(np.where(leaves, price - n * np.log1p(lost / variance), -np.inf), -lost)
    return more, less


def _moves(A: Mask, add: Gains, drop: Gains) -> Moves:
    """The moves that keep the graph acyclic."""
    paths = reachable(A)
    detour = A.astype(np.float32) @ paths.astype(np.float32) > 0
    turned = Gains(drop.criterion + add.criterion.T, drop.variance + add.variance.T)
    return Moves(
        Gains(np.where(paths.T, -np.inf, add.criterion), add.variance),
        drop,
        Gains(np.where(detour, -np.inf, turned.criterion), turned.variance),
    )


def _best(moves: Moves) -> tuple[str, int, int] | None:
    """The move that gains most; of equals, up to rounding, the better for least squares, then the first.

    A move that costs nothing is made where least squares gains by it.
    """
    criterion, variance = (np.array(each) for each in zip(*moves, strict=True))
    most = max(float(criterion.max()), 0.0)
    equal = criterion >= most - _ROUNDING
    if not equal.any():
        return None
    best = variance[equal].max()
    if most <= _ROUNDING and best <= _RELATIVE * np.abs(variance).max():
        return None
    k, i, j = np.argwhere(equal & (variance >= best - _RELATIVE * abs(best)))[0]
    return Moves._fields[k], int(i), int(j)
