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
    found = []
    for name, here, m, v in zip(names, own, mean, variance, strict=True):
        away = float(np.log(here) - m) if here > 0 else 0.0
        # With two sorts of sites, |away| + v/|away| is the distance between them seen from either, and the
        # sort with fewer rows is further away from the mean.
        if away == 0 or away**2 < _TIE * v:
            continue
        distance = abs(away) + v / abs(away)
        if distance > np.log(UNITS):
            there = here * np.exp(-np.sign(away) * distance)
            found.append(
                f"column {name} has a standard deviation of {here:.3g} here and of about {there:.3g} "
                "elsewhere: compare the units."
            )
    return found
