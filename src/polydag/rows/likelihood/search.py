"""The best of a family of row correlations with a few bounded parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from polydag.arrays import Array, Mask
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Whitening

_TOLERANCE = 1e-4  # of a parameter, and of the deviance


def best_parameters(
    family: Callable[[Array], Whitening],
    bounds: Sequence[tuple[float, float]],
    starts: Sequence[Sequence[float]],
    columns: Columns,
    scored: Mask,
) -> Array:
    """The parameters with the lowest deviance of the scored columns.

    One parameter is found by bounded search, several by the simplex method from each start.
    """
    from scipy.optimize import minimize, minimize_scalar

    def deviance(theta: Array) -> float:
        return float(columns.deviances(family(theta))[scored].sum())

    if len(bounds) == 1:
        single = minimize_scalar(
            lambda value: deviance(np.array([value])),
            bounds=bounds[0],
            method="bounded",
            options={"xatol": _TOLERANCE / 10},
        )
        return np.array([float(single.x)])
    found = [
        minimize(
            deviance,
            np.array(start),
            method="Nelder-Mead",
            bounds=list(bounds),
            options={"xatol": _TOLERANCE, "fatol": _TOLERANCE, "maxiter": 150 * len(bounds)},
        )
        for start in starts
    ]
    return np.asarray(min(found, key=lambda each: float(each.fun)).x, dtype=float)
