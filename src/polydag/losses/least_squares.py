"""Least squares of every variable on the others: `½ Σ_j (e_j − w_j)ᵀ S_j (e_j − w_j)`.

`w_j` is column j of W, and `S_j` is the covariance of the rows that score variable j: the same matrix for all
variables unless some rows were observed under intervention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polydag.arrays import Array, Index
from polydag.stats import GaussianStats, Regimes


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The quadratic loss, in the form that the solvers use.

    Attributes
    ----------
    grams : array of shape (g, d, d)
        The distinct covariance matrices.
    group : int array of shape (d,)
        The index of the matrix that scores each variable.
    n : array of shape (d,)
        The number of rows that score each variable.
    names : tuple of str
        The variables.
    """

    grams: Array
    group: Index
    n: Array
    names: tuple[str, ...]

    @classmethod
    def from_stats(cls, stats: GaussianStats | Regimes[GaussianStats]) -> LeastSquares:
        """Create the loss from the statistics of a table, or from statistics per regime."""
        if isinstance(stats, GaussianStats):
            d = stats.d
            one = np.ascontiguousarray(stats.covariance)[None]
            return cls(one, np.zeros(d, dtype=np.int64), np.full(d, stats.n), stats.names)
        targeted: dict[frozenset[frozenset[str]], int] = {}
        grams: list[Array] = []
        group, rows = [], []
        for name in stats.names:
            usable = frozenset(targets for targets in stats.parts if name not in targets)
            own = stats.for_node(name)
            if usable not in targeted:
                targeted[usable] = len(grams)
                grams.append(own.covariance)
            group.append(targeted[usable])
            rows.append(own.n)
        return cls(np.array(grams), np.array(group, dtype=np.int64), np.array(rows, dtype=float), stats.names)

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.names)

    @property
    def centre(self) -> Array:
        """The identity, where the loss is zero: every variable predicts itself."""
        return np.eye(self.d)

    def gram(self, j: int) -> Array:
        """The covariance that scores variable j."""
        result: Array = self.grams[self.group[j]]
        return result

    def residual_covariance(self, W: Array) -> Array:
        """Row j holds the covariance of every variable with the residual of variable j."""
        rows = np.empty_like(W)
        for g, S in enumerate(self.grams):
            scored = self.group == g
            rows[scored] = S[scored] - W.T[scored] @ S
        return rows

    def value(self, W: Array) -> float:
        """The loss at W."""
        R = self.residual_covariance(W)
        return 0.5 * float(np.trace(R) - np.vdot(W.T, R))

    def value_and_grad(self, W: Array) -> tuple[float, Array]:
        """The loss at W and its gradient."""
        R = self.residual_covariance(W)
        return 0.5 * float(np.trace(R) - np.vdot(W.T, R)), -R.T


def scales(loss: LeastSquares) -> dict[str, Any]:
    """Marginal and conditional standard deviations, the units of the penalties."""
    marginal = np.sqrt([loss.gram(j)[j, j] for j in range(loss.d)])
    conditional = np.empty(loss.d)
    for g, S in enumerate(loss.grams):
        scored = loss.group == g
        ridge = S + np.diag(0.01 * S.diagonal())  # invertible even with more columns than rows
        conditional[scored] = 1 / np.sqrt(np.linalg.inv(ridge).diagonal()[scored])
    return {"marginal": marginal, "conditional": conditional}
