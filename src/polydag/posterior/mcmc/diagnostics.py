"""Convergence diagnostics of edge probabilities: R-hat, effective sample size (ESS), standard error (MCSE).

All three are those of arviz-stats (rank-normalised, split chains: Vehtari et al. 2021). Edges that hardly
vary over the draws are left out of the computation: their probability is known, however the chains behaved.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

MAX_RHAT = 1.05
MIN_ESS = 400.0  # of all chains together (Vehtari et al. 2021: 100 for each of four chains)
UNCERTAIN = 0.01  # standard deviation over draws above which an edge must have converged
CONSTANT = 1e-3  # standard deviation over draws below which an edge counts as constant


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of each edge `i -> j`, at `[i, j]`.

    Attributes
    ----------
    r_hat, ess : arrays of shape (n, n)
        R-hat and effective sample size; NaN where the edge hardly varies.
    mcse : array of shape (n, n)
        Monte Carlo standard error of the probability.
    deviation : array of shape (n, n)
        Standard deviation over the draws.
    """

    r_hat: Array
    ess: Array
    mcse: Array
    deviation: Array

    @property
    def worst(self) -> tuple[float, float]:
        """The largest R-hat and the smallest ESS of the uncertain edges."""
        counted = self.deviation > UNCERTAIN
        if not counted.any():
            return 1.0, np.inf
        return float(self.r_hat[counted].max()), float(self.ess[counted].min())

    @property
    def mixed(self) -> bool:
        """Whether R-hat and ESS are good for every uncertain edge."""
        r_hat, ess = self.worst
        return r_hat <= MAX_RHAT and ess >= MIN_ESS

    def frame(self, names: tuple[str, ...]) -> pd.DataFrame:
        """One row for each edge: source, target, r_hat, ess, mcse."""
        import pandas as pd

        i, j = np.nonzero(~np.eye(len(names), dtype=bool))
        columns = {"r_hat": self.r_hat, "ess": self.ess, "mcse": self.mcse}
        labels = np.array(names, dtype=object)
        return pd.DataFrame(
            {"source": labels[i], "target": labels[j]}
            | {key: values[i, j] for key, values in columns.items()}
        )


def diagnose(edges: Array, constant: float = CONSTANT) -> Diagnostics:
    """Diagnostics of edge probabilities.

    Parameters
    ----------
    edges : array of shape (chains, draws, n, n)
        The probability of each edge given each draw.
    constant : float
        Edges with a smaller standard deviation count as constant: that deviation is their standard error,
        which is an upper bound unless chains missed some states.
    """
    from arviz_stats.base.array import array_stats

    measures: tuple[Any, ...] = (array_stats.rhat, array_stats.ess, array_stats.mcse)
    deviation = edges.std(axis=(0, 1))
    r_hat, ess = np.full(deviation.shape, np.nan), np.full(deviation.shape, np.nan)
    mcse = deviation.copy()
    varying = deviation > constant
    if varying.any() and edges.shape[1] >= 4:
        trace = edges[:, :, varying]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a chain that never moves divides by zero: R-hat is infinite
            found, own, error = (
                np.asarray(measure(trace, chain_axis=0, draw_axis=1), dtype=np.float64)
                for measure in measures
            )
        r_hat[varying] = np.where(np.isnan(found), np.inf, found)
        ess[varying] = np.where(np.isnan(own), 1.0, own)
        mcse[varying] = np.where(np.isnan(error), deviation[varying], error)
    elif varying.any():
        r_hat[varying], ess[varying] = np.inf, 1.0
    return Diagnostics(r_hat, ess, mcse, deviation)
