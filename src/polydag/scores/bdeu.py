"""The Bayesian Dirichlet equivalent uniform score (Heckerman, Geiger and Chickering 1995).

`a_jk = s / (q r)` with s the equivalent sample size, q all parent configurations and r the node's levels.
"""

from __future__ import annotations

from dataclasses import dataclass

from polydag.scores._family_kernels import BDEU
from polydag.scores.discrete import DirichletScore


@dataclass(frozen=True, eq=False)
class BDeu(DirichletScore):
    """BDeu from counts.

    Parameters
    ----------
    stats : DiscreteCounts or Regimes of DiscreteCounts
        The data.
    equivalent_sample_size : float
        How many imaginary rows the prior counts for; larger gives denser graphs.
    """

    equivalent_sample_size: float = 1.0

    def _prior(self) -> tuple[int, float]:
        return BDEU, float(self.equivalent_sample_size)
