"""Whether a column is in other units at one site than elsewhere.

A pooled standard deviation will not do as the measure: where one site of ten has numbers a thousand times as
large, it is that site's, and the other nine would be told. So sites add up the logarithms of their standard
deviations, and their squares, and what comes back are mean and variance of these logarithms over the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
UNITS = 100.0  # a column whose scale is this far from the others' was probably measured in other units
SPREAD = 1e-12  # of a column's mean: what rounding leaves of the deviation of a constant one
_TIE = 0.99  # as many rows in one unit as in the other: both are told, whatever rounding says


def without_rounding(deviations: Array, means: Array) -> Array:
    """Standard deviations, zero where a column is constant."""
    return np.where(deviations > SPREAD * np.abs(means), deviations, 0.0)


def log_scales(n: float, deviations: Array) -> Array:
    """What a site adds: rows, rows times the logarithm, rows times its square; zero of a constant column."""
    varies = deviations > 0
    logs = np.log(np.where(varies, deviations, 1.0))
    return np.asarray(n * np.array([varies, logs, logs**2], dtype=float))


def other_units(names: tuple[str, ...], own: Array, summed: Array) -> list[str]:
    """A word for every column whose standard deviation here is far from that elsewhere."""
    rows, logs, squares = summed
    mean = logs / np.maximum(rows, 1.0)
    variance = np.maximum(squares / np.maximum(rows, 1.0) - mean**2, 0.0)
    away = np.where(own > 0, np.log(np.where(own > 0, own, 1.0)) - mean, 0.0)
    # With two sorts of sites, |away| + variance/|away| is the distance between them seen from either, and the
    # sort with fewer rows is further away from the mean.
    further = (away != 0) & (away**2 >= _TIE * variance)
    distance = np.abs(away) + variance / np.where(further, np.abs(away), 1.0)
    odd = further & (distance > np.log(UNITS))
    return [
        f"column {names[i]} has a standard deviation of {own[i]:.3g} here and of about "
        f"{own[i] * np.exp(-np.sign(away[i]) * distance[i]):.3g} elsewhere: compare the units."
        for i in np.flatnonzero(odd)
    ]
