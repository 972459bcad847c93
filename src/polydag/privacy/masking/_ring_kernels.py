"""Conversion of numbers to fixed point in one pass."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def to_fixed_point(values: NDArray[np.float64], scale: float, limit: float, words: NDArray[np.int64]) -> bool:
    """Round `values * scale`, of shape (n,), into `words`; True if all magnitudes are below `limit`."""
    sound = True
    for k in range(values.size):
        scaled = np.rint(values[k] * scale)
        sound &= math.fabs(scaled) < limit  # false for NaN as well
        words[k] = np.int64(scaled)
    return sound
