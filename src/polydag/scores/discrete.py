"""What the discrete scores share: rows by column for each group of nodes, and Dirichlet marginal likelihoods.

A family scores `Σ_j [log Γ(a_j) - log Γ(a_j + N_j) + Σ_k log Γ(a_jk + N_jk) - log Γ(a_jk)]` over the parents'
configurations j and the node's levels k, with `a_j = Σ_k a_jk`; the scores differ in `a_jk` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError, UsageError
from polydag.scores.families import Array, Index, Mask, ParentSets
from polydag.scores.gaussian import target_sets
from polydag.stats import DiscreteCounts, Regimes

Source = DiscreteCounts | Regimes[DiscreteCounts]


@dataclass(frozen=True, eq=False)
class Tables:
    """The distinct rows that score each node, by column, with their weights."""

    columns: list[NDArray[np.int32]]
    weights: list[Array]
    arities: Index
    group: Index


def _tables(stats: Source) -> Tables:
    if isinstance(stats, DiscreteCounts):
        stats = Regimes({frozenset(): stats})
    if not isinstance(stats, Regimes) or not isinstance(next(iter(stats.parts.values())), DiscreteCounts):
        raise UsageError("Discrete scores (bdeu, bds, k2) need DiscreteCounts; for numbers use bic or bge.")
    # Levels seen in some regimes only still count in all of them.
    whole = reduce(add, stats.parts.values())
    levels = dict(zip(whole.names, whole.levels, strict=True))
    if single := [name for name, own in levels.items() if len(own) == 0]:
        raise DataError(f"Column {single[0]} has no levels.")
    parts = {targets: part.with_levels(levels) for targets, part in stats.parts.items()}
    aligned = Regimes(parts)
    found: dict[frozenset[frozenset[str]], int] = {}
    columns: list[NDArray[np.int32]] = []
    weights: list[Array] = []
    group: list[int] = []
    for name in whole.names:
        key = frozenset(targets for targets in parts if name in targets)
        if key not in found:
            found[key] = len(columns)
            counts = aligned.for_node(name)
            columns.append(np.array(counts.rows.T, dtype=np.int32, order="C"))
            weights.append(np.array(counts.counts, dtype=float))
        group.append(found[key])
    return Tables(columns, weights, whole.arities, np.array(group, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class DirichletScore(ABC):
    """A discrete score; subclasses say which prior and how strong.

    Parameters
    ----------
    stats : DiscreteCounts or Regimes of DiscreteCounts
        The data; with `Regimes`, each node is scored by the rows that did not set it.
    """

    stats: Source
    targets: tuple[frozenset[int], ...] = field(init=False, repr=False)
    tables: Tables = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.strength > 0:
            raise UsageError(f"The equivalent sample size must be positive; got {self.strength}.")
        object.__setattr__(self, "targets", target_sets(self.stats))
        object.__setattr__(self, "tables", _tables(self.stats))

    @abstractmethod
    def _prior(self) -> tuple[int, float]:
        """The kernel's code for the prior, and the equivalent sample size."""

    @property
    def strength(self) -> float:
        """The equivalent sample size."""
        return self._prior()[1]

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    @property
    def n(self) -> float:
        """The number of rows."""
        return self.stats.n

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The log marginal likelihood of `node` given its parents."""
        from polydag.scores._family_kernels import discrete_family

        t = self.tables
        g = t.group[node]
        where = np.array(parents, dtype=np.int64)
        return float(discrete_family(t.columns[g], t.weights[g], t.arities, node, where, *self._prior()))

    def gains(
        self, node: int, candidates: Index, sets: ParentSets, wanted: Mask, positive_only: bool = False
    ) -> Array:
        """The gain of each candidate parent over each parent set, where wanted."""
        from polydag.scores._family_kernels import discrete_gains

        t = self.tables
        g = t.group[node]
        result: Array = discrete_gains(
            t.columns[g], t.weights[g], t.arities, node, candidates, *sets, wanted, *self._prior()
        )
        return result
