"""Limits on the effect of one row: histograms from which bounds are estimated, and clipped gradients.

The bounds of a column are known beforehand, or estimated from a noisy histogram over powers of two, to which
a row adds one count per column.
"""

from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError

_LOWEST, _HIGHEST = -20, 40
_POWERS = 2.0 ** np.arange(_LOWEST, _HIGHEST + 1)
EDGES = np.concatenate([-_POWERS[::-1], _POWERS])  # bins of both signs, and one around zero


def histogram(rows: Array) -> Array:
    """The number of rows in each bin, per column; rows beyond the last edge count in the outermost bins."""
    d = rows.shape[1]
    counts = np.zeros((d, len(EDGES) - 1))
    for j in range(d):
        place = np.clip(np.searchsorted(EDGES, rows[:, j], side="right") - 1, 0, counts.shape[1] - 1)
        counts[j] = np.bincount(place, minlength=counts.shape[1])
    return counts


def histogram_sensitivity(d: int) -> float:
    """The sensitivity of d histograms: a row adds one count to each."""
    return math.sqrt(d)


def bounds_from(counts: Array, deviation: float, names: tuple[str, ...]) -> Array:
    """Bounds of each column, of shape (d, 2): the range of the filled bins, widened by half.

    A bin is filled if it holds a twentieth of the rows and more than noise alone is likely to put there.
    """
    sure = deviation * math.sqrt(2 * math.log(20 * counts.size))
    sure = max(sure, float(counts.sum(axis=1).mean()) / 20)
    result = np.empty((len(counts), 2))
    for j, row in enumerate(counts):
        filled = np.flatnonzero(row > sure)
        if not filled.size:
            raise DataError(
                f"Column {names[j]}: there are too few rows to estimate bounds under this much noise. "
                "Give bounds=, or a larger epsilon."
            )
        low, high = EDGES[filled[0]], EDGES[filled[-1] + 1]
        result[j] = low - (high - low) / 4, high + (high - low) / 4
    return result


def clipped_gradient(rows: Array, M: Array, max_norm: float) -> Array:
    """The sum over rows of `yᵀ(yM)`, each term clipped to the norm `max_norm`.

    If `M` maps whitened rows to residuals, this is the negative gradient of least squares.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        residual = rows @ M
        norms = np.sqrt((rows**2).sum(axis=1) * (residual**2).sum(axis=1))
    sound = np.isfinite(norms)  # a row that overflows adds nothing
    weight = np.minimum(1.0, max_norm / np.maximum(np.where(sound, norms, 0.0), 1e-300))
    total: Array = (np.where(sound[:, None], rows, 0.0) * weight[:, None]).T @ np.where(
        sound[:, None], residual, 0.0
    )
    return total
