"""The K2 score (Cooper and Herskovits 1992): `a_jk = 1`. Not score equivalent."""

from __future__ import annotations

from dataclasses import dataclass

from polydag.scores._family_kernels import K2 as _CODE
from polydag.scores.discrete import DirichletScore


@dataclass(frozen=True, eq=False)
class K2(DirichletScore):
    """K2 from counts."""

    def _prior(self) -> tuple[int, float]:
        return _CODE, 1.0
