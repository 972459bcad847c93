"""Each column's own correlation of linked rows, by restricted likelihood."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polydag.rows.structures.exchangeable import LARGEST, Exchangeable
from polydag.rows.structures.likelihood import Columns

Array = NDArray[np.float64]
_POINTS = 49


def column_strengths(columns: Columns, structure: Exchangeable) -> Array:
    """For each column alone, the common strength with the highest restricted likelihood.

    In groups it is the intraclass correlation; in balanced ones that of the analysis of variance, where it is
    not at the end of its range. All columns share the whitened tables of a grid; a parabola through the best
    point and its neighbours refines it.
    """
    alone = columns.alone()
    grid = np.linspace(structure.lowest, LARGEST, _POINTS)
    deviances = np.array([alone.deviances(structure.at(float(strength))) for strength in grid])
    return np.array([_lowest(grid, own) for own in deviances.T])


def _lowest(x: Array, y: Array) -> float:
    """The lowest point of the parabola through the smallest value and its neighbours."""
    k = int(np.argmin(y))
    if k in (0, len(x) - 1):
        return float(x[k])
    a, b, c = np.polyfit(x[k - 1 : k + 2] - x[k], y[k - 1 : k + 2] - y[k], 2)
    del c
    return float(x[k] - b / (2 * a)) if a > 0 else float(x[k])
