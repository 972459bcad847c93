"""The Bayesian Dirichlet sparse score (Scutari 2016): BDeu's prior spread over the configurations that occur.

`a_jk = s / (q' r)` with q' the parent configurations that occur in the data. Not score equivalent.
"""

from __future__ import annotations

from dataclasses import dataclass

from polydag.parameters import number, setting
from polydag.scores.discrete.dirichlet import DirichletScore
from polydag.scores.discrete.pseudocounts import PER_OCCUPIED


@dataclass(frozen=True, eq=False)
class BDs(DirichletScore):
    """BDs from counts.

    Parameters
    ----------
    stats : CountTables or Regimes of CountTables
        The data.
    equivalent_sample_size : float
        The weight of the prior, in imaginary rows.
    """

    equivalent_sample_size: float = setting(
        1.0, number(above=0), "how many imaginary rows the prior counts for"
    )

    def prior(self) -> tuple[int, float]:
        """The imaginary rows are spread over the parent configurations that occur."""
        return PER_OCCUPIED, float(self.equivalent_sample_size)
