"""Draws of missing values from a Gaussian with label columns, for multiple imputation (Rubin 1987).

The Gaussian is that of the moments of numbers and indicators. Its parameters are drawn first, from their
approximate posterior: the inverse covariance from a Wishart distribution with as many degrees of freedom as
the rows are worth, the mean from a Gaussian. Then each row's missing values are drawn one variable after the
other, given all that is known or drawn before: numbers from their conditional Gaussian, a label's level with
the expectations of its indicators as probabilities (negative ones are taken as 0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.stats.gaps.incomplete import inverse_covariance
from polydag.stats.gaussian import GaussianStats


class Parameters(NamedTuple):
    """The mean and the inverse covariance of numbers and indicators."""

    mean: Array
    inverse: Array


def drawn_parameters(stats: GaussianStats, rng: np.random.Generator) -> Parameters:
    """Parameters drawn from their posterior given moments that are worth `stats.n` rows."""
    d = stats.d
    freedom = max(stats.n, d + 2.0)
    scale = np.sqrt(stats.covariance.diagonal())
    root = np.linalg.cholesky(inverse_covariance(stats.covariance / np.outer(scale, scale), stats.n))
    bartlett = np.tril(rng.normal(size=(d, d)), -1)
    bartlett[np.diag_indices(d)] = np.sqrt(rng.chisquare(freedom - np.arange(d)))
    half = root @ bartlett / np.sqrt(freedom)
    inverse = half @ half.T
    mean = np.linalg.solve(half.T, rng.normal(size=d)) / np.sqrt(freedom)
    return Parameters(stats.mean + scale * mean, inverse / np.outer(scale, scale))


def drawn_rows(
    rows: Array, parameters: Parameters, variable: Index, labels: Mask, rng: np.random.Generator
) -> Array:
    """The rows with what is missing (NaN) drawn.

    Parameters
    ----------
    rows : array of shape (n, d)
        Numbers and indicators.
    variable : array of shape (d,)
        The variable to which each column belongs.
    labels : array of shape (d,)
        Whether a column is an indicator of a label.
    """
    from polydag.stats.gaps._draws_kernels import draw_missing

    missing = ~np.isfinite(rows)
    R = np.ascontiguousarray(rows - parameters.mean)
    draw_missing(
        R, missing, parameters.mean, np.ascontiguousarray(parameters.inverse), variable, labels,
        rng.normal(size=rows.shape), rng.random(rows.shape),
    )  # fmt: skip
    return np.where(missing, R + parameters.mean, rows)
