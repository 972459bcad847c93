"""Bootstrap draws: rows, or whole groups of rows that belong together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray


def draw_rows(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """n row numbers, drawn with replacement."""
    return rng.integers(0, n, n)


def draw_groups(labels: Sequence[Hashable], rng: np.random.Generator) -> NDArray[np.int64]:
    """The rows of as many groups as there are, drawn with replacement; a group comes whole."""
    members: dict[Hashable, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    groups = list(members.values())
    chosen = rng.integers(0, len(groups), len(groups))
    return np.concatenate([np.array(groups[k], dtype=np.int64) for k in chosen])


def wilson_interval(
    hits: NDArray[np.float64], n: int, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's score interval of a share: what chance in drawing the resamples leaves open."""
    from scipy.special import ndtri

    z = float(ndtri(0.5 + level / 2))
    share = hits / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)
