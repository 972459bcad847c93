"""From strengths of effects to a graph, and from several penalties to one."""

from __future__ import annotations

import numpy as np

from polydag.losses.mlp import Array, Mask
from polydag.orientation import weakest_cycle_edges

SLOPE, PROBABILITY = 0.2, 0.5  # from here on an effect is an edge
_PATH = (0.6, 0.3, 0.15)
_WORTH = 8  # what an effect counts for, in parameters: shrunken networks bend less than their size allows


def threshold_graph(
    strength: Array, required: Mask, threshold: float
) -> tuple[Mask, list[tuple[int, int, str]]]:
    """The effects from `threshold` on, without the weakest of each cycle; what was removed, and why."""
    present = (strength > 0) | required
    kept = (strength >= threshold) & present | required
    removed = [(int(i), int(j), "threshold") for i, j in np.argwhere(present & ~kept)]
    for i, j in weakest_cycle_edges(kept, strength, required):
        kept[i, j] = False
        removed.append((i, j, "cycle"))
    return kept, removed


def penalty_path(d: int, n: float) -> list[float]:
    """Penalties around the size of chance correlations, `√(log d / n)`, halving; for `standard_rows`."""
    chance = float(np.sqrt(np.log(max(d, 2)) / n))
    return [share * chance for share in _PATH]


def network_bic(residuals: Array, n: float, n_edges: int, hidden: int) -> float:
    """BIC of networks with these mean squared residuals.

    An effect counts as 8 parameters, or as its hidden units where they are fewer.
    """
    fit = n * float(np.log(np.maximum(residuals, 1e-300)).sum())
    return fit + min(hidden, _WORTH) * float(np.log(n)) * n_edges
