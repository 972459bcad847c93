"""Whether a column has other units at one party than elsewhere.

The pooled standard deviation is no suitable reference: where one party of ten has numbers a thousand times as
large, it is dominated by that party, and the other nine would seem odd. So the parties add up the logarithms
of their standard deviations and the squares of these, which yields the mean and variance of the logarithms
over the rows. A change of units multiplies standard deviations by a constant, whatever the means. Rows and
standard deviations are rounded coarsely first: whether units differ can be seen without the party's own.
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array
from polydag.federated.party_data.coarse import coarse

UNITS = 5.0  # a column whose scale differs this much from the others' probably has other units
CONVERSIONS = {
    6.006: "mg/dL and mmol/L of urea",
    7.501: "mmHg and kPa",
    10.0: "g/dL and g/L, or mm and cm,",
    12.0: "months and years",
    17.1: "mg/dL and µmol/L of bilirubin",
    18.02: "mg/dL and mmol/L of glucose",
    38.67: "mg/dL and mmol/L of cholesterol",
    59.48: "mg/dL and µmol/L of urate",
    88.42: "mg/dL and µmol/L of creatinine, or mg/dL and mmol/L of triglycerides,",
    365.25: "days and years",
    1000.0: "milli- and whole units",
}
FEW = 5  # rows, below which a standard deviation says nothing about units
_NEAR = 0.2  # on the scale of logarithms: standard deviations are estimates
_CHANCE = 3.0
_REMEDY = "Convert where they differ (--rescale FILE:COLUMN=FACTOR), or use site_effects='means and scales'."
SPREAD = 1e-12  # relative to a column's mean: the deviation that rounding gives a constant column
_TIE = 0.99  # with as many rows in one unit as in the other, both are reported whatever the rounding


def without_rounding(deviations: Array, means: Array) -> Array:
    """Standard deviations, zero where a column is constant."""
    return np.where(deviations > SPREAD * np.abs(means), deviations, 0.0)


def log_scales(n: float, deviations: Array) -> Array:
    """A party's contribution: rows, rows times log scale and times its square; zero for constant columns.

    Rows and scales are rounded coarsely. A party with few rows adds nothing.
    """
    varies = (deviations > 0) & (n >= FEW)
    logs = np.log(coarse(np.where(varies, deviations, 1.0)))
    return np.asarray(coarse(n) * np.array([varies, logs, logs**2], dtype=float))


def other_units(names: tuple[str, ...], own: Array, summed: Array, n: float) -> list[str]:
    """A note for every column whose standard deviation here, of `n` rows, is far from that elsewhere.

    Where that is so for most columns, one note is about all of them.
    """
    if n < FEW:
        return []
    rows, logs, squares = summed
    own = coarse(own)  # as in the sum
    mean = logs / np.maximum(rows, 1.0)
    variance = np.maximum(squares / np.maximum(rows, 1.0) - mean**2, 0.0)
    away = np.where(own > 0, np.log(np.where(own > 0, own, 1.0)) - mean, 0.0)
    # With two kinds of parties, |away| + variance/|away| is the distance between them seen from either, and
    # the kind with fewer rows is further from the mean.
    further = (away != 0) & (away**2 >= _TIE * variance)
    distance = np.abs(away) + variance / np.where(further, np.abs(away), 1.0)
    chance = _CHANCE / np.sqrt(2 * max(n - 1, 1.0))  # standard errors of the logarithm of a deviation
    odd = np.flatnonzero(further & (distance > np.log(UNITS) + chance))
    signed = np.sign(away) * distance
    if len(odd) > max(len(names) / 2, 2) and abs(np.sign(away[odd]).sum()) == len(odd):
        factor = float(np.exp(np.median(distance[odd])))
        size = f"{factor:.3g} times" if away[odd[0]] > 0 else f"1/{factor:.3g} of"
        return [
            f"standard deviations are about {size} those elsewhere in {len(odd)} of {len(names)} columns: "
            f"compare the units. {_REMEDY}"
        ]
    return [
        f"column {names[i]} has a standard deviation of {own[i]:.3g} here and of about "
        f"{own[i] * np.exp(-signed[i]):.3g} elsewhere{_usual(float(np.exp(distance[i])))}: compare the "
        f"units. {_REMEDY}"
        for i in odd
    ]


def _usual(factor: float) -> str:
    """The usual conversion that comes closest to a factor, in words; "" where none is near."""
    near = min(CONVERSIONS, key=lambda known: abs(np.log(factor / known)))
    if abs(np.log(factor / near)) > _NEAR:
        return ""
    return f" (a factor of {factor:.3g}; {CONVERSIONS[near]} differ by {near:g})"
