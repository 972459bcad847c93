"""Choices of families as a linear program, tightened by cutting planes (Jaakkola et al. 2010, Cussens 2011).

Every variable has one family, `Σ_π x[v, π] = 1`; that families make no cycle is said of clusters of variables
one by one, as solutions contradict them: for every cluster C and every k, at most `|C| - k` members have k
parents inside it. With k = 1 alone the bound stays far off where families have two parents or more. The
solver is HiGHS, which goes on from its last solution when cuts are added.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.posterior.families.sorted_families import outshone
from polydag.posterior.families.table import FamilyTable

if TYPE_CHECKING:
    from highspy import Highs

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Bits = NDArray[np.bool_]

_LEAST = 0.01  # a cluster is added from this excess on
_MOST = 1000  # clusters that are looked for in a round, at most
_PRESENT = 1e-7  # a family to a smaller extent is none


class Fractional(NamedTuple):
    """To what extent each family is chosen, the sum of scores, and what each would lose it, at least."""

    x: Array
    value: float
    losses: Array


class Cut(NamedTuple):
    """At most `limit` of these families are in any one network."""

    families: Index
    limit: int


class Relaxation:
    """The linear program of a table, with the cuts that have been found.

    Attributes
    ----------
    n : int
        The number of variables.
    child, parents : int arrays of shape (families,) and (families, max_parents)
        The families that can be part of a best network (none of their subsets scores as much): the variable,
        and its parents, filled up with -1.
    has : bool array of shape (families, n)
        The parents again.
    """

    def __init__(self, table: FamilyTable) -> None:
        self.n = table.n
        self.child, number = (np.ascontiguousarray(part) for part in np.nonzero(~outshone(table)))
        own = np.concatenate([table.candidates, np.full((table.n, 1), -1)], axis=1)
        self.parents: Index = own[self.child[:, None], table.sets[number]]
        self.has: Bits = np.zeros((len(self.child), table.n + 1), dtype=bool)
        np.put_along_axis(self.has, self.parents, True, axis=1)
        self.has = self.has[:, : table.n]
        scores = table.scores[self.child, number]
        lowest = np.full(table.n, np.inf)
        np.minimum.at(lowest, self.child, scores)
        # Sums are relative to the worst network, so that the solver's tolerances are small beside them.
        self._base = float(lowest.sum())
        self._gains: Array = scores - lowest[self.child]
        self._cuts: dict[tuple[int, bytes], Cut] = {}
        self._new: list[Cut] = []
        self._program = _program(self._gains, self.child, table.n)

    def wanting(self, families: Bits) -> Relaxation:
        """The same with its cuts, of networks that have at least one of some families."""
        other = copy.copy(self)
        other._cuts, other._new = dict(self._cuts), list(self._cuts.values())
        other._program = _program(self._gains, self.child, self.n)
        _add_rows(other._program, [Cut(np.flatnonzero(families), self.n)], least=1.0)
        return other

    def solve(self, allowed: Bits) -> Fractional | None:
        """The best fractional choice among some families under the cuts so far; None if there is none.

        Its value is an upper bound of all networks of these families.
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
            raise RuntimeError(f"HiGHS has not solved: {self._program.modelStatusToString(status)}.")
        found = self._program.getSolution()
        value = self._base - self._program.getInfo().objective_function_value
        return Fractional(np.array(found.col_value), value, np.array(found.col_dual))

    def cut(self, x: Array) -> int:
        """Look for clusters that a choice contradicts; how many there are."""
        from polydag.posterior.best_network._relaxation_kernels import violated

        there = np.flatnonzero(x > _PRESENT)
        child, parents, extent = self.child[there], np.ascontiguousarray(self.parents[there]), x[there]
        clusters, amounts = np.zeros((_MOST, self.n), dtype=bool), np.zeros(_MOST)
        for k in range(1, self.parents.shape[1] + 1):
            count = violated(child, parents, extent, self.n, k, _LEAST, clusters, amounts)
            for cluster in clusters[:count]:
                self._add(cluster, k)
            # Larger k only where smaller ones are satisfied: else cuts pile up that soon do not matter.
            if self._new:
                break
        return len(self._new)

    def _add(self, cluster: Bits, k: int) -> None:
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
