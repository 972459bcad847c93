"""Noise that sites add before masking, so that nobody ever sees an exact sum (Kairouz et al. 2021).

Numbers are rounded to a grid and each site adds discrete Gaussian noise on it, with OpenDP's exact sampler
and random bits from the operating system, which leaves no floating-point arithmetic to attack. The noise of
`honest` sites together has the variance that the account requires, so the guarantee holds even if all other
sites reveal theirs. A sum of discrete Gaussians differs from a discrete Gaussian by less than 1e-30 in total
variation if each is wider than a few steps of the grid. Rounding can move two neighbouring tables apart by
one step per entry, which the account includes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import DataError, UsageError

GRID = 2.0**-24
_WIDE = 64.0  # steps of the grid: sums of discrete Gaussians this wide are discrete Gaussian for all purposes
_EXACT = 2.0**52 * GRID


@dataclass(frozen=True)
class NoiseShare:
    """Noise to which every site contributes a share.

    Attributes
    ----------
    multiplier : float
        The standard deviation of the whole noise in units of the sensitivity.
    sensitivity : float
        The largest change of the summed vector, in the Euclidean norm, when one row is added or removed.
    honest : int
        How many sites' shares make up the whole noise.
    """

    multiplier: float
    sensitivity: float
    honest: int

    def deviation(self, size: int) -> float:
        """The standard deviation of one site's noise on `size` numbers; rounding adds to the sensitivity."""
        widened = self.sensitivity + math.sqrt(size) * GRID
        return self.multiplier * widened / math.sqrt(self.honest)


def discrete_gaussian(scale: float, size: int) -> Index:
    """Exact samples of the discrete Gaussian (Canonne, Kamath and Steinke 2020), from OpenDP."""
    try:
        import opendp.prelude as dp
    except ImportError:
        raise UsageError(
            "Differential privacy needs dp-accounting and OpenDP: pip install 'polydag[privacy]'."
        ) from None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    return np.array(dp.m.make_gaussian(*space, scale=float(scale))([0] * size), dtype=np.int64)


def add_noise_share(values: Array, share: NoiseShare) -> Array:
    """Numbers rounded to the grid, plus one site's share of the noise."""
    deviation = share.deviation(values.size)
    if not deviation >= _WIDE * GRID:
        raise DataError(f"Noise of {deviation:.3g} is too small for a grid of {GRID:.3g}.")
    if not np.abs(values).max(initial=0.0) + 40 * deviation < _EXACT:  # true for NaN as well
        raise DataError("There are too many rows for exact noise: their sums exceed the range of the grid.")
    steps = np.rint(values / GRID).astype(np.int64).reshape(-1)
    steps = steps + discrete_gaussian(deviation / GRID, steps.size)
    return np.asarray(steps * GRID, dtype=float).reshape(values.shape)
