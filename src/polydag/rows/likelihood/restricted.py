"""The restricted likelihood of a row correlation, column by column.

In an order of the columns each one is a linear function of those before it and of the covariates, with errors
`ε_j ~ N(0, ω_j² Σ)` that are independent between columns. Integrating the coefficients out (REML) and taking
the best ω_j leaves, up to constants,

    −2 log L_j(Σ) = log det Σ + log det W_jᵀΘW_j + (n − q_j) log rss_j,

where `W_j` holds the q_j regressors. All terms come from one Cholesky factor of the whitened Gram matrix. The
columns are the replicates from which Σ is known, and a column that took no part in an estimate can judge it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Mask
from polydag.rows.likelihood.whitening import Whitening, of_rows


@dataclass(frozen=True, eq=False)
class Columns:
    """Variables in an order, the covariates of their means, and which variables each one is regressed on.

    Attributes
    ----------
    X : array of shape (n, p)
        The variables, rows sorted by component.
    Z : array of shape (n, q)
        The covariates, a column of ones among them.
    parents : array of shape (p, p), optional
        Row j is True for the regressors of column j; by default all columns before it.
    kept : array of shape (N,), optional
        Where X and Z hold some of the rows of Σ only: which.
    """

    X: Array
    Z: Array
    parents: Mask | None = None
    kept: Mask | None = None

    def deviances(self, found: Whitening) -> Array:
        """`−2 log L_j` of every column; infinite where Σ is not positive definite."""
        n, p = self.X.shape
        q = self.Z.shape[1]
        if self.kept is not None:
            found = of_rows(found, self.kept)
        log_determinant = found.log_determinant
        if not np.isfinite(log_determinant):
            return np.full(p, np.inf)
        white = found.whiten(np.concatenate([self.Z, self.X], axis=1))
        G = white.T @ white
        if self.parents is None:
            return deviances_of_gram(G, log_determinant, n, q)
        result = np.empty(p)
        for j in range(p):
            where = np.concatenate([np.arange(q), q + np.flatnonzero(self.parents[j]), [q + j]])
            logs = np.log(np.linalg.cholesky(G[np.ix_(where, where)]).diagonal())
            result[j] = log_determinant + 2.0 * logs[:-1].sum() + 2.0 * (n - len(where) + 1) * logs[-1]
        return result

    def weighted_directions(self, found: Whitening, scored: Mask) -> Array:
        """Vectors v whose `Σ v vᵀ` is the expected sum of squares of the scored columns' whitened errors.

        A column's own direction counts once for each of its degrees of freedom, a regressor's once for each
        column that it explains: so much is not known of that column's error.
        """
        n, p = self.X.shape
        q = self.Z.shape[1]
        white = found.whiten(np.concatenate([self.Z, self.X], axis=1))
        if self.parents is None:
            Q, _ = np.linalg.qr(white)
            used = np.arange(q + p)
            explained = np.array([scored[max(0, k - q + 1 if k >= q else 0) :].sum() for k in used])
            own = np.concatenate([np.zeros(q), np.where(scored, n - used[q:], 0.0)])
            return np.asarray(Q * np.sqrt(own + explained))
        parts = []
        for j in np.flatnonzero(scored):
            where = np.concatenate([np.arange(q), q + np.flatnonzero(self.parents[j]), [q + j]])
            Q, _ = np.linalg.qr(white[:, where])
            Q[:, -1] *= np.sqrt(n - len(where) + 1)
            parts.append(Q)
        return np.concatenate(parts, axis=1)

    def alone(self) -> Columns:
        """Every column regressed on the covariates only: what its own rows say."""
        p = self.X.shape[1]
        return Columns(self.X, self.Z, np.zeros((p, p), dtype=bool), self.kept)


def deviances_of_gram(G: Array, log_determinant: float, n: int, q: int) -> Array:
    """`−2 log L_j` of columns regressed on all before them, from the products of whitened columns.

    The first q of these are the covariates.
    """
    logs = np.log(np.linalg.cholesky(G).diagonal())
    before = np.concatenate([[0.0], np.cumsum(logs)])[q : len(G)]
    used = q + np.arange(len(G) - q)
    return np.asarray(log_determinant + 2.0 * before + 2.0 * (n - used) * logs[q:])
