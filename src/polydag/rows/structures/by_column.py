"""Each column's own correlation of linked rows, by restricted likelihood; do columns differ in it?"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.structures.exchangeable import LARGEST, Exchangeable

_POINTS = 49


def column_strengths(columns: Columns, structure: Exchangeable) -> Array:
    """For each column given its regressors, the strength with the highest restricted likelihood.

    Without regressors, in groups, it is the intraclass correlation; in balanced ones that of the analysis of
    variance, where it is not at the end of its range. All columns share the whitened tables of a grid; a
    parabola through the best point and its neighbours refines it.
    """
    grid, deviances = _by_strength(columns, structure)
    return np.array([_lowest(grid, own) for own in deviances.T])


def same_strength(columns: Columns, structure: Exchangeable) -> float:
    """The p-value of the likelihood-ratio test that all columns have one strength.

    With one Σ for all columns, each column's errors given those before it have it too, whatever the order
    (Lemma 1), and are independent between columns.
    """
    from scipy.stats import chi2

    _, deviances = _by_strength(columns, structure)
    gain = deviances.sum(axis=1).min() - deviances.min(axis=0).sum()
    return float(chi2.sf(gain, columns.X.shape[1] - 1))


def _by_strength(columns: Columns, structure: Exchangeable) -> tuple[Array, Array]:
    grid = np.linspace(structure.lowest, LARGEST, _POINTS)
    return grid, np.array([columns.deviances(structure.at(float(strength))) for strength in grid])


def _lowest(x: Array, y: Array) -> float:
    """The lowest point of the parabola through the smallest value and its neighbours."""
    k = int(np.argmin(y))
    if k in (0, len(x) - 1):
        return float(x[k])
    a, b, c = np.polyfit(x[k - 1 : k + 2] - x[k], y[k - 1 : k + 2] - y[k], 2)
    del c
    return float(x[k] - b / (2 * a)) if a > 0 else float(x[k])
