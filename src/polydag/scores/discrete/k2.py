"""The K2 score (Cooper and Herskovits 1992): `a_jk = 1`. Not score equivalent."""

from __future__ import annotations

from dataclasses import dataclass

from polydag.scores.discrete.dirichlet import DirichletScore
from polydag.scores.discrete.pseudocounts import PER_CELL


@dataclass(frozen=True, eq=False)
class K2(DirichletScore):
    """K2 from counts."""

    def prior(self) -> tuple[int, float]:
        """One imaginary row in every cell."""
        return PER_CELL, 1.0
