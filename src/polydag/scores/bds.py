"""The Bayesian Dirichlet sparse score (Scutari 2016): BDeu's prior spread over the configurations that occur.

`a_jk = s / (q' r)` with q' the parent configurations that occur in the data. Not score equivalent.
"""

from __future__ import annotations

from dataclasses import dataclass

from polydag.scores._family_kernels import BDS
from polydag.scores.discrete import DirichletScore


@dataclass(frozen=True, eq=False)
class BDs(DirichletScore):
    """BDs from counts.

    Parameters
    ----------
    stats : DiscreteCounts or Regimes of DiscreteCounts
        The data.
    equivalent_sample_size : float
        How many imaginary rows the prior counts for.
    """

    equivalent_sample_size: float = 1.0

    def _prior(self) -> tuple[int, float]:
        return BDS, float(self.equivalent_sample_size)
