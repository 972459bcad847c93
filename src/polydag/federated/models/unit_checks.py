"""Whether a column has other units at one party than elsewhere.

The pooled standard deviation is no suitable reference: where one party of ten has numbers a thousand times as
large, it is dominated by that party, and the other nine would seem odd. So the parties add up the logarithms
of their standard deviations and the squares of these, which yields the mean and variance of the logarithms
over the rows.
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array

UNITS = 100.0  # a column whose scale differs this much from the others' probably has other units
SPREAD = 1e-12  # relative to a column's mean: the deviation that rounding gives a constant column
_TIE = 0.99  # with as many rows in one unit as in the other, both are reported whatever the rounding


def without_rounding(deviations: Array, means: Array) -> Array:
    """Standard deviations, zero where a column is constant."""
    return np.where(deviations > SPREAD * np.abs(means), deviations, 0.0)


def log_scales(n: float, deviations: Array) -> Array:
    """A party's contribution: rows, rows times log scale and times its square; zero for constant columns."""
    varies = deviations > 0
    logs = np.log(np.where(varies, deviations, 1.0))
    return np.asarray(n * np.array([varies, logs, logs**2], dtype=float))


def other_units(names: tuple[str, ...], own: Array, summed: Array) -> list[str]:
    """A note for every column whose standard deviation here is far from that elsewhere."""
    rows, logs, squares = summed
    mean = logs / np.maximum(rows, 1.0)
    variance = np.maximum(squares / np.maximum(rows, 1.0) - mean**2, 0.0)
    away = np.where(own > 0, np.log(np.where(own > 0, own, 1.0)) - mean, 0.0)
    # With two kinds of parties, |away| + variance/|away| is the distance between them seen from either, and
    # the kind with fewer rows is further from the mean.
    further = (away != 0) & (away**2 >= _TIE * variance)
    distance = np.abs(away) + variance / np.where(further, np.abs(away), 1.0)
    odd = further & (distance > np.log(UNITS))
    return [
        f"column {names[i]} has a standard deviation of {own[i]:.3g} here and of about "
        f"{own[i] * np.exp(-np.sign(away[i]) * distance[i]):.3g} elsewhere: compare the units."
        for i in np.flatnonzero(odd)
    ]
