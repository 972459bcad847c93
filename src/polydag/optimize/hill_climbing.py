"""Hill climbing from a DAG: add, remove or reverse one edge at a time while the extended BIC decreases.

Only families whose covariances are all known are considered, so the search works on sums over parties.
Equivalent graphs have the same criterion; least squares, the loss of NOTEARS, decides between them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Mask
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.orientation import reachable
from polydag.regression import extended_bic_penalty

_ROUNDING = 1e-6  # smaller differences in the criterion are rounding errors between equivalent graphs
_RELATIVE = 1e-9  # the same for variances, relative
_SINGULAR = 1e-10
_MAX_MOVES = 1000


class Gains(NamedTuple):
    """By how much adding or removing each parent reduces the criterion and the residual variance."""

    criterion: Array
    variance: Array


class Moves(NamedTuple):
    """The gains of each move of the edge `i -> j` at `[i, j]`; -inf in the criterion if impossible."""

    add: Gains
    remove: Gains
    reverse: Gains


def climb(loss: LeastSquares, start: Mask, known: Mask, masks: Masks) -> Mask:
    """Climb until no move improves the graph, or for at most 1000 moves.

    Parameters
    ----------
    loss : LeastSquares
        The loss, with unknown covariances at any value.
    start : bool array of shape (d, d)
        A DAG.
    known : bool array of shape (g, d, d)
        Which covariances of `loss` are known.
    masks : Masks
        Required and forbidden edges.
    """
    A = start.copy()
    d = loss.d
    add, remove = (Gains(np.empty((d, d)), np.empty((d, d))) for _ in range(2))
    stale = set(range(d))
    for _ in range(_MAX_MOVES):
        for j in stale:
            gains = _family_gains(loss, A[:, j], j, known, masks)
            for table, column in zip((add, remove), gains, strict=True):
                table.criterion[:, j], table.variance[:, j] = column
        found = _best(_moves(A, add, remove))
        if found is None:
            break
        kind, i, j = found
        A[i, j] = kind == "add"
        A[j, i] = kind == "reverse"
        stale = {i, j} if kind == "reverse" else {j}
    return A


def _family_gains(
    loss: LeastSquares, parents: Mask, j: int, known: Mask, masks: Masks
) -> tuple[Gains, Gains]:
    """The gains of adding each variable to the parents of j, and of removing each parent."""
    S, n = loss.gram(j), loss.n[j]
    penalty = extended_bic_penalty(n, loss.d)
    p = np.flatnonzero(parents)
    P = np.linalg.inv(S[np.ix_(p, p)] + 1e-12 * np.diag(S.diagonal()[p]))
    X = P @ S[p]
    marginal = S.diagonal()
    conditional = np.maximum(marginal - np.einsum("ki,ki->i", S[p], X), 1e-14 * marginal)
    variance = conditional[j]

    seen = known[loss.group[j]]
    addable = seen[:, j] & seen[p].all(axis=0) & ~parents & ~masks.forbidden[:, j]
    addable &= conditional > _SINGULAR * marginal
    addable[j] = False
    addable &= 2 * (len(p) + 1) <= n
    gained = np.zeros(loss.d)
    gained[addable] = (S[addable, j] - S[np.ix_(addable, p)] @ X[:, j]) ** 2 / conditional[addable]
    gained = np.minimum(gained, (1 - 1e-14) * variance)
    add = Gains(np.where(addable, -n * np.log1p(-gained / variance) - penalty, -np.inf), gained)

    lost, removable = np.zeros(loss.d), parents & ~masks.required[:, j]
    lost[p] = X[:, j] ** 2 / P.diagonal()
    remove = Gains(np.where(removable, penalty - n * np.log1p(lost / variance), -np.inf), -lost)
    return add, remove


def _moves(A: Mask, add: Gains, remove: Gains) -> Moves:
    """The moves that keep the graph acyclic."""
    paths = reachable(A)
    detour = A.astype(np.float32) @ paths.astype(np.float32) > 0
    reverse = Gains(remove.criterion + add.criterion.T, remove.variance + add.variance.T)
    return Moves(
        Gains(np.where(paths.T, -np.inf, add.criterion), add.variance),
        remove,
        Gains(np.where(detour, -np.inf, reverse.criterion), reverse.variance),
    )


def _best(moves: Moves) -> tuple[str, int, int] | None:
    """The move with the largest gain; ties up to rounding go to least squares, then to the first move.

    A move that leaves the criterion unchanged is made if it improves least squares.
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
