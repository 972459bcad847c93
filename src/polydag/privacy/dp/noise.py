"""Noise that sites add before masking, so that nobody ever sees an exact sum (Kairouz et al. 2021).

Numbers are rounded to a grid and each site adds discrete Gaussian noise on it (OpenDP's exact sampler, from
the operating system's random bits; no floating point to attack). What `honest` sites add has together the
variance that the account asks for, so the claim holds even if all others tell theirs. The sum of discrete
Gaussians differs from one by less than 1e-30 in total variation where each is wider than a few steps of the
grid, and rounding can move two neighbouring tables apart by one step an entry: both are in the account.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError, UsageError

GRID = 2.0**-24
_WIDE = 64.0  # steps of the grid: discrete Gaussians this wide add up to one for all purposes
_EXACT = 2.0**52 * GRID


@dataclass(frozen=True)
class Shared:
    """Noise of which every site adds its share.

    Attributes
    ----------
    multiplier : float
        The whole noise's standard deviation in units of the sensitivity.
    sensitivity : float
        How far one row more or less moves the summed vector at most, in the Euclidean norm.
    honest : int
        How many sites' shares make up the whole noise.
    """

    multiplier: float
    sensitivity: float
    honest: int

    def deviation(self, size: int) -> float:
        """What one site adds to each of `size` numbers; rounding to the grid widens the sensitivity."""
        widened = self.sensitivity + math.sqrt(size) * GRID
        return self.multiplier * widened / math.sqrt(self.honest)


def discrete_gaussian(scale: float, size: int) -> NDArray[np.int64]:
    """Exact samples of the discrete Gaussian of a scale (Canonne, Kamath and Steinke 2020), by OpenDP."""
    try:
        import opendp.prelude as dp
    except ImportError:
        raise UsageError(
            "Differential privacy needs dp-accounting and OpenDP: pip install 'polydag[privacy]'."
        ) from None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return np.array(dp.m.make_gaussian(*space, scale=float(scale))([0] * size), dtype=np.int64)


def with_share(values: NDArray[np.float64], shared: Shared) -> NDArray[np.float64]:
    """Numbers on the grid, with one site's share of the noise; exact as far as the grid goes."""
    deviation = shared.deviation(values.size)
    if deviation < _WIDE * GRID:
        raise DataError(f"Noise of {deviation:.3g} is too fine for a grid of {GRID:.3g}.")
    if np.abs(values).max(initial=0.0) + 40 * deviation >= _EXACT:
        raise DataError("There are too many rows for exact noise: their sums exceed the grid's range.")
    steps = np.rint(values / GRID).astype(np.int64).reshape(-1)
    steps = steps + discrete_gaussian(deviation / GRID, steps.size)
    return np.asarray(steps * GRID, dtype=float).reshape(values.shape)
