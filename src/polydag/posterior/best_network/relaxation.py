"""The choice of families as a linear program with cutting planes (Jaakkola et al. 2010, Cussens 2011).

Every variable has one family, `Σ_π x[v, π] = 1`. Acyclicity is imposed on clusters of variables one by one,
as solutions violate it: for every cluster C and every k, at most `|C| - k` members have k or more parents
inside it. With k = 1 alone the bound is weak where families have two parents or more. The solver is HiGHS,
which restarts from its last solution when cuts are added.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.posterior.families.sorted_families import dominated
from polydag.posterior.families.table import FamilyTable

if TYPE_CHECKING:
    from highspy import Highs

_LEAST_EXCESS = 0.01  # excess from which on a cluster is added
_MOST_CLUSTERS = 1000  # found in one round
_PRESENT = 1e-7  # a family with a smaller extent counts as absent


class Fractional(NamedTuple):
    """A solution: the extent of each family, the sum of scores, and what each family would lower it by."""

    x: Array
    value: float
    losses: Array


class Cut(NamedTuple):
    """At most `limit` of these families are in any network."""

    families: Index
    limit: int


class Relaxation:
    """The linear program of a table, with the cuts found so far.

    Attributes
    ----------
    n : int
        The number of variables.
    child : int array of shape (families,)
        The variable of each family that can be part of a best network: none of its subsets scores as much.
    parents : int array of shape (families, max_parents)
        Its parents, padded with -1.
    has : bool array of shape (families, n)
        The parents as a mask.
    """

    def __init__(self, table: FamilyTable) -> None:
        self.n = table.n
        self.child, number = (np.ascontiguousarray(part) for part in np.nonzero(~dominated(table)))
        own = np.concatenate([table.candidates, np.full((table.n, 1), -1)], axis=1)
        self.parents: Index = own[self.child[:, None], table.sets[number]]
        self.has: Mask = np.zeros((len(self.child), table.n + 1), dtype=bool)
        np.put_along_axis(self.has, self.parents, True, axis=1)
        self.has = self.has[:, : table.n]
        scores = table.scores[self.child, number]
        lowest = np.full(table.n, np.inf)
        np.minimum.at(lowest, self.child, scores)
        # Relative to the worst family of each node, so that the solver's tolerances are small beside gains.
        self._base = float(lowest.sum())
        self._gains: Array = scores - lowest[self.child]
        self._cuts: dict[tuple[int, bytes], Cut] = {}
        self._new: list[Cut] = []
        self._program = _program(self._gains, self.child, table.n)

    def with_one_of(self, families: Mask) -> Relaxation:
        """A copy, with all cuts, restricted to networks that have at least one of some families."""
        other = copy.copy(self)
        other._cuts, other._new = dict(self._cuts), list(self._cuts.values())
        other._program = _program(self._gains, self.child, self.n)
        _add_rows(other._program, [Cut(np.flatnonzero(families), self.n)], least=1.0)
        return other

    def solve(self, allowed: Mask) -> Fractional | None:
        """The best fractional solution among some families under the cuts so far; None if there is none.

        Its value is an upper bound for all networks of these families. `allowed`: bool array of shape
        (families,).
        """
        from highspy import HighsModelStatus

        _add_rows(self._program, self._new)
        self._new = []
        size = len(self.child)
        columns = np.arange(size, dtype=np.int32)
        self._program.changeColsBounds(size, columns, np.zeros(size), allowed.astype(float))
        self._program.run()
        status = self._program.getModelStatus()
        if status == HighsModelStatus.kInfeasible:
            return None
        if status != HighsModelStatus.kOptimal:
            raise RuntimeError(
                f"HiGHS did not solve the linear program: {self._program.modelStatusToString(status)}."
            )
        found = self._program.getSolution()
        value = self._base - self._program.getInfo().objective_function_value
        return Fractional(np.array(found.col_value), value, np.array(found.col_dual))

    def cut(self, x: Array) -> int:
        """Add the constraints of clusters that a solution violates; returns how many are new."""
        from polydag.posterior.best_network._relaxation_kernels import violated

        there = np.flatnonzero(x > _PRESENT)
        child, parents, extent = self.child[there], np.ascontiguousarray(self.parents[there]), x[there]
        clusters, amounts = np.zeros((_MOST_CLUSTERS, self.n), dtype=bool), np.zeros(_MOST_CLUSTERS)
        for k in range(1, self.parents.shape[1] + 1):
            count = violated(child, parents, extent, self.n, k, _LEAST_EXCESS, clusters, amounts)
            for cluster in clusters[:count]:
                self._add(cluster, k)
            # Larger k only where smaller ones are satisfied; otherwise many cuts would soon be redundant.
            if self._new:
                break
        return len(self._new)

    def _add(self, cluster: Mask, k: int) -> None:
        key = (k, np.packbits(cluster).tobytes())
        if key not in self._cuts:
            there = cluster[self.child] & (self.has[:, cluster].sum(axis=1) >= k)
            self._cuts[key] = Cut(np.flatnonzero(there), int(cluster.sum()) - k)
            self._new.append(self._cuts[key])


def _program(gains: Array, child: Index, n: int) -> Highs:
    """One family for each variable, and the highest sum of gains."""
    from highspy import Highs

    program = Highs()  # type: ignore[no-untyped-call]
    program.setOptionValue("output_flag", False)
    program.setOptionValue("threads", 1)
    size = len(gains)
    program.addVars(size, np.zeros(size), np.ones(size))
    program.changeColsCost(size, np.arange(size, dtype=np.int32), -gains)
    _add_rows(program, [Cut(np.flatnonzero(child == v), 1) for v in range(n)], least=1.0)
    return program


def _add_rows(program: Highs, cuts: list[Cut], least: float = -np.inf) -> None:
    if not cuts:
        return
    starts = np.cumsum([0, *(len(cut.families) for cut in cuts)])[:-1].astype(np.int32)
    columns = np.concatenate([cut.families for cut in cuts]).astype(np.int32)
    upper = np.array([cut.limit for cut in cuts], dtype=float)
    program.addRows(
        len(cuts), np.full(len(cuts), least), upper, len(columns), starts, columns, np.ones(len(columns))
    )
