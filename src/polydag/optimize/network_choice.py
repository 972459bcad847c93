"""Model choice for networks: edge thresholds, a path of penalties, and the BIC that selects among them."""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array

SLOPE, PROBABILITY = 0.2, 0.5  # default thresholds above which an effect is an edge
_PATH = (0.6, 0.3, 0.15)
_PARAMETERS_PER_EDGE = 8  # penalised networks use fewer effective parameters than they have


def penalty_path(d: int, n: float) -> list[float]:
    """Penalties for `standard_rows`, halving, on the scale of chance correlations `√(log d / n)`."""
    chance = float(np.sqrt(np.log(max(d, 2)) / n))
    return [factor * chance for factor in _PATH]


def network_bic(residuals: Array, n: float, n_edges: int, hidden: int) -> float:
    """BIC of networks with these mean squared residuals.

    An edge counts as 8 parameters, or as the number of hidden units if that is smaller.
    """
    fit = n * float(np.log(np.maximum(residuals, 1e-300)).sum())
    return fit + min(hidden, _PARAMETERS_PER_EDGE) * float(np.log(n)) * n_edges
