"""Linear orders of the variables and their weights.

The weight of an order is a product over the variables; each factor is the sum over the families whose parents
come before the variable. Families that are negligible beside their subsets are left out of all sums, so that
sums are short where there are many rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import DataError
from polydag.posterior.families.families_by_parent import FamiliesByParent, group_by_parent
from polydag.posterior.families.sorted_families import SortedFamilies, sort_families, without_negligible
from polydag.posterior.families.table import FamilyTable

_NEIGHBOURS = 5  # of each variable, among which subsets are chosen
_IMPOSSIBLE = -1e300  # below every gain


class OrderState(NamedTuple):
    """A linear order of the variables with its weight.

    Attributes
    ----------
    order : int array of shape (n,)
        The variables, first to last.
    place : int array of shape (n,)
        The place of each variable in the order.
    log_sums : array of shape (n,)
        The log of the sum over the families of each variable whose parents come before it.
    """

    order: Index
    place: Index
    log_sums: Array

    @property
    def position(self) -> Index:
        """The order, from which `OrderSpace.init` makes the state again."""
        return self.order

    @property
    def log_weight(self) -> float:
        """The log of the sum over the DAGs that agree with the order."""
        return float(self.log_sums.sum())

    def copy(self) -> OrderState:
        """The same state in memory of its own, for kernels to change."""
        return OrderState(self.order.copy(), self.place.copy(), self.log_sums.copy())


@dataclass(frozen=True, eq=False)
class OrderSpace:
    """The linear orders of the variables of one table, with the families as the moves need them.

    Attributes
    ----------
    table : FamilyTable
        Log scores with the log prior in them.
    families : SortedFamilies
        The families that are not negligible.
    by_parent : FamiliesByParent
        The same families by each of their parents.
    parent_sums : array of shape (n, n)
        `[u, v]` is the log of the sum over the families of u that contain v.
    candidate_index : int array of shape (n, n)
        `[u, v]` is the position of v among the candidate parents of u; 0 where it is none.
    neighbours : int array of shape (n, k)
        The variables that gain most as the only parent of each variable or have it as theirs.
    """

    table: FamilyTable
    families: SortedFamilies
    by_parent: FamiliesByParent
    parent_sums: Array
    candidate_index: Index
    neighbours: Index

    @classmethod
    def of(cls, table: FamilyTable) -> OrderSpace:
        """The orders of the variables of a table."""
        n, c = table.candidates.shape
        families = sort_families(without_negligible(table))
        by_parent = group_by_parent(families)
        candidate_index = np.zeros((n, n), dtype=np.int64)
        candidate_index[np.arange(n)[:, None], table.candidates] = np.arange(c)
        return cls(table, families, by_parent, by_parent.log_sums(n), candidate_index, _neighbours(table))

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.table.n

    @property
    def reduction(self) -> float:
        """The number of families in the table divided by the number that sums run over."""
        return self.table.scores.size / len(self.families.values)

    def init(self, order: Index) -> OrderState:
        """The state of an order."""
        from polydag.posterior.orders._space_kernels import score

        state = OrderState(
            np.array(order, dtype=np.int64), np.empty(self.n, dtype=np.int64), np.empty(self.n)
        )
        score(self.families, *state)
        return state

    def best_families(self, state: OrderState) -> tuple[Index, Array]:
        """The best parent set of each variable in an order, as indices of the table's sets; their scores."""
        from polydag.posterior.orders._space_kernels import best_families

        chosen, scores = np.zeros(self.n, dtype=np.int64), np.full(self.n, -np.inf)
        best_families(self.families, state.place, chosen, scores)
        return chosen, scores


def random_order(table: FamilyTable, rng: np.random.Generator) -> Index:
    """A random order in which every variable has an allowed parent set among those before it."""
    members = [table.members(node)[table.scores[node] > -np.inf] for node in range(table.n)]
    before = np.zeros(table.n + 1, dtype=bool)
    before[table.n] = True  # padding of parent sets
    order: list[int] = []
    left = rng.permutation(table.n).tolist()
    while left:
        # A variable that can come next can also come later, so this finds an order if there is one.
        ready = next((v for v in left if before[members[v]].all(axis=1).any()), None)
        if ready is None:
            raise DataError("No order of the variables has an allowed parent set for every variable.")
        order.append(ready)
        before[ready] = True
        left.remove(ready)
    return np.array(order, dtype=np.int64)


def _neighbours(table: FamilyTable) -> Index:
    """The variables that gain most as the only parent of each other, the best first."""
    n, c = table.candidates.shape
    gains = np.full((n, n), _IMPOSSIBLE)
    if table.max_parents:
        alone, single = table.scores[:, :1], table.scores[:, 1 : c + 1]
        base = np.where(alone > -np.inf, alone, single.max(axis=1, keepdims=True))
        possible = single > -np.inf
        gain = np.where(possible, single, 0.0) - np.where(base > -np.inf, base, 0.0)
        gains[np.arange(n)[:, None], table.candidates] = np.where(possible, gain, _IMPOSSIBLE)
    gains = np.maximum(gains, gains.T)
    np.fill_diagonal(gains, -np.inf)
    nearest: Index = np.argsort(-gains, axis=1, kind="stable")[:, : max(1, min(_NEIGHBOURS, n - 1))]
    return np.ascontiguousarray(nearest)
