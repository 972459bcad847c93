"""Intervals for proportions."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array


def wilson_interval(hits: Array, n: int, level: float = 0.95) -> tuple[Array, Array]:
    """Wilson's score interval of a proportion `hits / n` (Wilson 1927), elementwise."""
    from scipy.special import ndtri

    z = float(ndtri(0.5 + level / 2))
    share = hits / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)
