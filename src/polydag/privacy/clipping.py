"""What one row can do at most: rows within bounds, statistics and gradients whose sensitivity is known.

Bounds are the owner's or the study's knowledge of a column's range, or estimated from a noisy histogram of
powers of two, to which a row adds one count a column. Within its bounds a column is brought to [−1, 1]; a row
whose Euclidean norm exceeds `radius(d)` is shortened to it.
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


def radius(d: int) -> float:
    """The largest norm of a row of d numbers in [−1, 1]: a uniform row's typical one."""
    return math.sqrt(max(1.0, d / 3))


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
    """Bounds of each column, `(d, 2)`: the outermost bins that noise alone would hardly ever fill.

    They are widened by a half, for the tails whose bins noise hides.
    """
    sure = deviation * math.sqrt(2 * math.log(20 * counts.size))
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


def within(rows: Array, bounds: Array) -> Array:
    """Rows brought to [−1, 1] by their columns' bounds, clipped there, and shortened to the radius."""
    middle, half = bounds.mean(axis=1), (bounds[:, 1] - bounds[:, 0]) / 2
    scaled = np.clip((rows - middle) / half, -1.0, 1.0)
    norms = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
    shorter: Array = scaled * np.minimum(1.0, radius(rows.shape[1]) / np.maximum(norms, 1e-300))
    return shorter


def moments(rows: Array) -> Array:
    """Count, sums, and the upper triangle of the sums of products, as one vector."""
    upper = np.triu_indices(rows.shape[1])
    return np.concatenate([[float(len(rows))], rows.sum(axis=0), (rows.T @ rows)[upper]])


def moments_sensitivity(d: int) -> float:
    """`1 + ‖z‖² + Σ_{i≤j} z_i² z_j²` at most, as `Σ z_i⁴ ≤ Σ z_i²` within [−1, 1]."""
    square = radius(d) ** 2
    return math.sqrt(1 + square + (square**2 + square) / 2)


def gradient(rows: Array, W: Array, largest: float) -> Array:
    """The sum over rows of the gradient of `½‖z − Wᵀz‖²`, each row's shortened to `largest`."""
    residual = rows - rows @ W
    norms = np.sqrt((rows**2).sum(axis=1) * (residual**2).sum(axis=1))
    weight = np.minimum(1.0, largest / np.maximum(norms, 1e-300))
    total: Array = -(rows * weight[:, None]).T @ residual
    return total
