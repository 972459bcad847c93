"""Sizes that a party adds only after coarse rounding.

Tests that compare parties need sums of several functions of the same quantity: of the parties' rows, of
their spreads. With three parties, three exact sums of this kind can be solved for every party's own number.
Where a few digits suffice, a party therefore rounds first, and the sums can at best be solved for what was
rounded.
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array

_STEPS = 4  # in a doubling: numbers change by 9 % at most


def coarse(sizes: Array | float) -> Array:
    """Positive numbers, each rounded to the nearest power of the fourth root of two; zero stays zero.

    Examples
    --------
    >>> coarse(np.array([0.0, 1.0, 100.0, 102.0])).round(3)
    array([  0.   ,   1.   , 107.635, 107.635])
    """
    given = np.asarray(sizes, dtype=float)
    powers = np.rint(_STEPS * np.log2(np.where(given > 0, given, 1.0))) / _STEPS
    return np.where(given > 0, 2.0**powers, 0.0)
