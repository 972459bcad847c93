"""Numbers into fixed point, in one pass over them."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True)
def to_fixed_point(values: NDArray[np.float64], scale: float, limit: float, words: NDArray[np.int64]) -> bool:
    """Round `values * scale` to integers; whether all of them stay below the limit in magnitude."""
    sound = True
    for k in range(values.size):
        scaled = np.rint(values[k] * scale)
        sound &= math.fabs(scaled) < limit  # nor what is no number
        words[k] = np.int64(scaled)
    return sound
