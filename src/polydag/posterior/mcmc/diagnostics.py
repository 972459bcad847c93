"""How far averages over chains can be trusted: R-hat, effective sample size, Monte Carlo standard error.

All three are those of arviz-stats (rank-normalised, split chains: Vehtari et al. 2021). Edges that hardly
vary over the draws are left out of the computation: their probability is known, whatever the chains did.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
MAX_RHAT = 1.05
MIN_ESS = 400.0  # of all chains together (Vehtari et al. 2021: 100 for each of four)
UNCERTAIN = 0.01  # edges whose standard deviation over states is larger must have converged
CONSTANT = 1e-3  # below this, an edge is taken not to vary at all


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Of each edge `[i, j]`: R-hat and effective sample size (NaN where it hardly varies), standard error."""

    r_hat: Array
    ess: Array
    mcse: Array
    deviation: Array

    @property
    def worst(self) -> tuple[float, float]:
        """The largest R-hat and the smallest effective sample size of the edges that are uncertain."""
        counted = self.deviation > UNCERTAIN
        if not counted.any():
            return 1.0, np.inf
        return float(self.r_hat[counted].max()), float(self.ess[counted].min())

    @property
    def mixed(self) -> bool:
        """Whether the chains agree, and are long enough to tell."""
        r_hat, ess = self.worst
        return r_hat <= MAX_RHAT and ess >= MIN_ESS

    def frame(self, names: tuple[str, ...]) -> pd.DataFrame:
        """One row an edge: source, target, r_hat, ess, mcse."""
        import pandas as pd

        i, j = np.nonzero(~np.eye(len(names), dtype=bool))
        columns = {"r_hat": self.r_hat, "ess": self.ess, "mcse": self.mcse}
        labels = np.array(names, dtype=object)
        return pd.DataFrame(
            {"source": labels[i], "target": labels[j]}
            | {key: values[i, j] for key, values in columns.items()}
        )


def diagnose(edges: Array, least: float = CONSTANT) -> Diagnostics:
    """Diagnostics of edge probabilities of shape (chains, draws, n, n).

    Edges with a standard deviation below `least` are taken as constant: their standard error is that
    deviation, which is an upper bound but for states that no chain has seen.
    """
    from arviz_stats.base.array import array_stats

    measures: tuple[Any, ...] = (array_stats.rhat, array_stats.ess, array_stats.mcse)
    deviation = edges.std(axis=(0, 1))
    r_hat, ess = np.full(deviation.shape, np.nan), np.full(deviation.shape, np.nan)
    mcse = deviation.copy()
    varying = deviation > least
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
