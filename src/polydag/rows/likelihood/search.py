"""The best of a family of row correlations with a few bounded parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from polydag.arrays import Array, Mask
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Whitening

_TOLERANCE = 1e-5  # of a single parameter
_PRECISION, _STEP = 1e-9, 1e-6  # relative, of the deviance; and of a parameter, for derivatives
_OUTSIDE = 1e6  # above the deviance of a start, where Σ is not positive definite


def best_parameters(
    family: Callable[[Array], Whitening],
    bounds: Sequence[tuple[float, float]],
    starts: Sequence[Sequence[float]],
    columns: Columns,
    scored: Mask,
) -> Array:
    """The parameters with the lowest deviance of the scored columns.

    One parameter is found by bounded search, several by L-BFGS-B from each start: likelihoods of decaying
    correlations have narrow valleys along the bounds, where the simplex method stops early.
    """
    from scipy.optimize import OptimizeResult, minimize, minimize_scalar

    def deviance(theta: Array) -> float:
        return float(columns.deviances(family(theta))[scored].sum())

    if len(bounds) == 1:
        single = minimize_scalar(
            lambda value: deviance(np.array([value])),
            bounds=bounds[0],
            method="bounded",
            options={"xatol": _TOLERANCE},
        )
        return np.array([float(single.x)])

    def from_start(start: Sequence[float]) -> OptimizeResult:
        wall = deviance(np.array(start)) + _OUTSIDE

        def bounded(theta: Array) -> float:
            return min(deviance(theta), wall)

        return minimize(
            bounded,
            np.array(start),
            method="L-BFGS-B",
            bounds=list(bounds),
            options={"ftol": _PRECISION, "eps": _STEP},
        )

    found = [from_start(start) for start in starts]
    return np.asarray(min(found, key=lambda each: float(each.fun)).x, dtype=float)
