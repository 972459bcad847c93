"""What one row can do at most: histograms from which bounds follow, gradients that are cut.

Bounds are the owner's or the study's knowledge of a column's range, or estimated from a noisy histogram of
powers of two, to which a row adds one count a column.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError

Array = NDArray[np.float64]
_LOWEST, _HIGHEST = -20, 40
_POWERS = 2.0 ** np.arange(_LOWEST, _HIGHEST + 1)
EDGES = np.concatenate([-_POWERS[::-1], _POWERS])  # bins of both signs, and one around zero


def histogram(rows: Array) -> Array:
    """How many rows fall into each bin, per column; rows beyond the last edge count in the outermost bins."""
    d = rows.shape[1]
    counts = np.zeros((d, len(EDGES) - 1))
    for j in range(d):
        place = np.clip(np.searchsorted(EDGES, rows[:, j], side="right") - 1, 0, counts.shape[1] - 1)
        counts[j] = np.bincount(place, minlength=counts.shape[1])
    return counts


def histogram_sensitivity(d: int) -> float:
    """A row adds one count in each of d histograms."""
    return math.sqrt(d)


def bounds_from(counts: Array, deviation: float, names: tuple[str, ...]) -> Array:
    """Bounds of each column, `(d, 2)`: the outermost bins with a twentieth of the rows, widened by a half.

    A bin counts where noise alone would hardly ever fill it.
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


def gradient(rows: Array, M: Array, largest: float) -> Array:
    """The sum over rows of `yᵀ(yM)`, each row's shortened to `largest`.

    With `M` what brings rows of a frame to residuals, that is the gradient of least squares but for its sign.
    """
    residual = rows @ M
    norms = np.sqrt((rows**2).sum(axis=1) * (residual**2).sum(axis=1))
    weight = np.minimum(1.0, largest / np.maximum(norms, 1e-300))
    total: Array = (rows * weight[:, None]).T @ residual
    return total
