"""The Bayesian Dirichlet equivalent uniform score (Heckerman, Geiger and Chickering 1995).

`a_jk = s / (q r)` with s the equivalent sample size, q all parent configurations and r the node's levels.
"""

from __future__ import annotations

from dataclasses import dataclass

from polydag.parameters import number, setting
from polydag.scores.discrete.dirichlet import DirichletScore
from polydag.scores.discrete.pseudocounts import PER_TABLE


@dataclass(frozen=True, eq=False)
class BDeu(DirichletScore):
    """BDeu from counts.

    Parameters
    ----------
    stats : CountTables or Regimes of CountTables
        The data.
    equivalent_sample_size : float
        The weight of the prior, in imaginary rows; larger values give denser graphs.
    """

    equivalent_sample_size: float = setting(
        1.0, number(above=0), "how many imaginary rows the prior counts for; larger gives denser graphs"
    )

    def prior(self) -> tuple[int, float]:
        """The imaginary rows are spread over all cells of a family's table."""
        return PER_TABLE, float(self.equivalent_sample_size)
