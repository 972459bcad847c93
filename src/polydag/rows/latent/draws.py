"""Moments of decorrelated rows when labels hide the values: draws of these, averaged (stochastic EM).

The values Z of all columns are matrix normal, `cov(Z) = Σ ⊗ Ψ`; labels say between which cuts they lie, and
numbers show them. With Σ from pairs, each iteration draws all hidden values once given the others (Gibbs),
and averages the decorrelated scatter with what came before (Delyon, Lavielle and Moulines 1999). Ψ, scaled so
that hidden values have variance one, is the next draws' covariance between columns. As if p/5 rows of
independent columns had been seen beside, its inverse exists where there are more columns than rows.

A row with labels tells less than one with numbers. By Louis' formula the information about the correlation of
two columns that is lost is the variance of the drawn products: `n_jk = n − Var(s_jk)/(1 + ρ²)`. It is
averaged over the pairs of columns; scores and tests take this for the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polydag.arrays import Array
from polydag.computing.progress import report
from polydag.rows.latent import _draws_kernels, _normal_kernels
from polydag.rows.precision import RowPrecision

BURN_IN, DRAWS = 40, 160
_FEWEST = 4.0  # rows that a pair of columns is worth
_PRIOR = 0.2  # rows of independent columns, for each column


@dataclass(frozen=True, eq=False)
class LatentMoments:
    """What the draws say of the columns behind labels and numbers.

    Attributes
    ----------
    covariance : array of shape (p, p)
        Ψ, with unit variances.
    information : array of shape (p, p)
        How many rows each pair of columns is worth.
    scale : array of shape (p,)
        The columns' standard deviations, one for labels.
    values : array of shape (n, p)
        The last draw, rows in the order of the data.
    """

    covariance: Array
    information: Array
    scale: Array
    values: Array

    @property
    def n(self) -> float:
        """How many rows with numbers these are worth, on average over pairs of columns."""
        p = len(self.information)
        pairs = self.information[np.triu_indices(p, 1)] if p > 1 else self.information.ravel()
        return float(pairs.mean())


def drawn_moments(
    X: Array, cuts: list[Array | None], precision: RowPrecision, rng: Any, *, draws: int = DRAWS
) -> LatentMoments:
    """Average the decorrelated moments over draws of what lies behind the labels.

    Parameters
    ----------
    X : array of shape (n, p)
        Numbers with mean zero, and codes of labels.
    cuts : list
        The cuts of each label, None for numbers.
    precision : RowPrecision
        Θ, the inverse of the rows' correlation.
    rng : numpy.random.Generator
        For the draws.
    draws : int
        How many are averaged, after as many as the burn-in.
    """
    layout = precision.layout
    n, p = X.shape
    labels = np.array([j for j, own in enumerate(cuts) if own is not None], dtype=np.int64)
    low, high = _bounds(X[layout.order], cuts)
    R = np.ascontiguousarray(X[layout.order])
    ones = precision.whiten_sorted(np.ones((n, 1)))[:, 0]
    for k, j in enumerate(labels):
        R[:, j] = _normal_kernels.truncated(low[:, k].copy(), high[:, k].copy(), np.full(n, 0.5))
    S = _scatter(R, precision, ones)
    scale = np.sqrt(S.diagonal() / n)
    scale[labels] = 1.0
    R /= scale
    S = S / np.outer(scale, scale)
    mean, squares = np.zeros((p, p)), np.zeros((p, p))
    for t in range(BURN_IN + draws):
        if not len(labels):
            mean = S
            break
        K = _inverse(S, n)
        uniforms = rng.random((n, len(labels)))
        _draws_kernels.sweep(
            R, precision.thetas, layout.starts, layout.squares, K, low, high, labels, uniforms
        )
        drawn = _scatter(R, precision, ones)
        kept = t - BURN_IN + 1
        if kept > 0:
            before = drawn - mean
            mean += before / kept
            squares += before * (drawn - mean)
            S = mean
        else:
            S = S + (drawn - S) * max(0.2, 1.0 / (t + 1))
        report("draws behind labels", t + 1, BURN_IN + draws)
    C = _scaled(mean)
    lost = squares / max(draws - 1, 1) / (1.0 + C**2)
    values = np.empty_like(R)
    values[layout.order] = R * scale
    return LatentMoments(C, np.clip(n - 1.0 - lost, _FEWEST, None), scale, values)


def _bounds(X: Array, cuts: list[Array | None]) -> tuple[Array, Array]:
    """Between which values each label lies."""
    low, high = [], []
    for column, own in zip(X.T, cuts, strict=True):
        if own is not None:
            ends = np.concatenate([[-np.inf], own, [np.inf]])
            codes = column.astype(np.int64)
            low.append(ends[codes])
            high.append(ends[codes + 1])
    empty = np.empty((0, len(X)))
    return (np.ascontiguousarray(np.array(low or empty).T), np.ascontiguousarray(np.array(high or empty).T))


def _scatter(R: Array, precision: RowPrecision, ones: Array) -> Array:
    """The scatter of the decorrelated rows around their generalised least-squares mean."""
    Y = precision.whiten_sorted(R)
    Y -= np.outer(ones, ones @ Y / (ones @ ones))
    return np.asarray(Y.T @ Y)


def _scaled(S: Array) -> Array:
    scale = np.sqrt(S.diagonal())
    return np.asarray(S / np.outer(scale, scale))


def _inverse(S: Array, n: int) -> Array:
    """The inverse of the columns' correlation, with some rows of independent columns added."""
    p = len(S)
    added = max(1.0, _PRIOR * p)
    return np.ascontiguousarray(np.linalg.inv((n * _scaled(S) + added * np.eye(p)) / (n + added)))
