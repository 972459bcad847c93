"""Conversion of numbers to fixed point in one pass."""

from __future__ import annotations

import math

import numpy as np

from polydag.arrays import Array, Index
from polydag.compilation import kernel


@kernel
def to_fixed_point(values: Array, scale: float, limit: float, words: Index) -> bool:
    """Round `values * scale`, of shape (n,), into `words`; True if all magnitudes are below `limit`."""
    sound = True
    for k in range(values.size):
        scaled = np.rint(values[k] * scale)
        sound &= math.fabs(scaled) < limit  # false for NaN as well
        words[k] = np.int64(scaled)
    return sound
