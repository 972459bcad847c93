"""The base of the Dirichlet scores, which differ in their prior alone.

A family scores `Σ_j [log Γ(a_j) - log Γ(a_j + N_j) + Σ_k log Γ(a_jk + N_jk) - log Γ(a_jk)]` over the parents'
configurations j and the node's levels k, with `a_j = Σ_k a_jk`. Priors of the forms in
`polydag.scores.discrete.pseudocounts` are compiled, for the searches as for tables of families.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.scores.discrete.score import CountedRows, DiscreteScore
from polydag.scores.families import ParentSets, gains_by_family


@dataclass(frozen=True, eq=False)
class DirichletForm:
    """What compiled tables of families need: rows, and the form and strength of the prior."""

    names: tuple[str, ...]
    rows: CountedRows
    prior: int
    strength: float


@dataclass(frozen=True, eq=False)
class DirichletScore(DiscreteScore):
    """A discrete score that is a Dirichlet marginal likelihood; subclasses say under which prior."""

    @abstractmethod
    def prior(self) -> tuple[int, float]:
        """The form of the prior, from `polydag.scores.discrete.pseudocounts`, and its strength."""

    @property
    def form(self) -> DirichletForm | None:
        """Rows and prior; None where the rows are not at hand."""
        if not isinstance(self.counts, CountedRows):
            return None
        return DirichletForm(self.names, self.counts, *self.prior())

    def of_table(self, table: Array, configurations: float) -> float:
        """The log marginal likelihood of a table."""
        from polydag.scores.discrete._dirichlet_kernels import dirichlet

        return float(dirichlet(table, configurations, *self.prior()))

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The log marginal likelihood of `node` given its parents."""
        if not isinstance(self.counts, CountedRows):
            return super().local_score(node, parents)
        from polydag.scores.discrete._dirichlet_kernels import dirichlet_family

        rows = self.counts
        g = rows.group[node]
        where = np.array(parents, dtype=np.int64)
        return float(
            dirichlet_family(rows.columns[g], rows.weights[g], rows.arities, node, where, *self.prior())
        )

    def gains(
        self, node: int, candidates: Index, sets: ParentSets, wanted: Mask, positive_only: bool = False
    ) -> Array:
        """The gain of each candidate parent over each parent set, where wanted."""
        if not isinstance(self.counts, CountedRows):
            return gains_by_family(self, node, candidates, sets, wanted)
        from polydag.scores.discrete._dirichlet_kernels import dirichlet_gains

        rows = self.counts
        g = rows.group[node]
        result: Array = dirichlet_gains(
            rows.columns[g], rows.weights[g], rows.arities, node, candidates, *sets, wanted, *self.prior()
        )
        return result
