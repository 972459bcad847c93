"""Ordered partitions of the variables: their weights, moves between them, DAGs and edges given one.

Every DAG belongs to one ordered partition: its first part are the variables without parents, and every
variable of a later part has a parent in the part just before and none in its own or a later one (Kuipers and
Moffa 2017). The weight of a partition is the sum over its DAGs, a product of sums over families. So a chain
of partitions samples the posterior that is uniform over DAGs, without counting orders.

Moves: to draw the place of one variable among the parts of the others anew (all places are weighed in one
pass over the families); to split or merge parts; to exchange variables; and, through a DAG drawn from the
partition, to turn edges around (Grzegorczyk and Husmeier 2008), without which chains get stuck.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.posterior.families.sorted_families import rank
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.chains import Recorded
from polydag.posterior.orders.moves import random_order

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_RELOCATIONS, _PROPOSALS, _TURNS = 1, 4, 50  # moves of a sweep


class State(NamedTuple):
    """The part of each variable, counted from 0 without gaps, and the log sum of its families."""

    level: Index
    logs: Array

    @property
    def log_weight(self) -> float:
        """The logarithm of the sum over the DAGs of the partition."""
        return float(self.logs.sum())


class Partitions:
    """Ordered partitions of the variables of one table, as `polydag.posterior.mcmc.chains` runs them.

    It is not changed by use, so that all chains can share it.
    """

    def __init__(self, table: FamilyTable) -> None:
        self.table = table
        self.ranked = rank(table)
        n, c = table.candidates.shape
        self._place = np.full((n, n), -1, dtype=np.int64)
        self._place[np.arange(n)[:, None], table.candidates] = np.arange(c)

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.table.n

    def walker(self) -> Partitions:
        """What runs a chain: the space itself, which has no memory."""
        return self

    def start(self, rng: np.random.Generator) -> State:
        """The partition of a DAG drawn from a random order that allows one."""
        return self.of_order(random_order(self.table, rng), rng)

    def of_order(self, order: Index, rng: np.random.Generator) -> State:
        """The partition of a DAG drawn from an order."""
        from polydag.posterior.dags._drawing_kernels import draw_dag, levels

        dag = np.zeros((self.table.n, self.table.n), dtype=bool)
        draw_dag(self.ranked, np.argsort(order), False, rng, dag)
        level = np.empty(self.table.n, dtype=np.int64)
        levels(dag, level)
        return self.state(level)

    def state(self, level: Index) -> State:
        """A partition with its weight."""
        from polydag.posterior.dags._partitions_kernels import score

        own = np.array(level, dtype=np.int64)
        logs = np.empty(len(own))
        score(self.ranked, own, 0, len(own), logs)
        return State(own, logs)

    def advance(
        self, state: State, power: float, steps: int, rng: np.random.Generator
    ) -> tuple[State, float]:
        """Move on towards the weight to a power, with `steps` edges turned around, other moves between them.

        Gives the new state, and the share of edges that were turned.
        """
        from polydag.posterior.dags._partitions_kernels import sweep

        level, logs = state.level.copy(), state.logs.copy()
        made = 0
        for begin in range(0, steps, _TURNS):
            turns = min(_TURNS, steps - begin)
            made += sweep(
                self.ranked, self._place, level, logs, _RELOCATIONS, _PROPOSALS, turns, power, rng
            )  # fmt: skip
        return State(level, logs), made / steps

    def places(self, level: Index, node: int) -> Array:
        """The log weights of the partitions that differ in the place of one variable.

        First those in which it joins part 0, 1, … of the others, then those in which it is a part of its
        own, before part 0, 1, … and last.
        """
        from polydag.posterior.dags._partitions_kernels import relocation

        weights: Array = relocation(self.ranked, self._place, np.array(level, dtype=np.int64), node)[0]
        return weights

    def pack(self, state: State) -> Index:
        """All there is to a state."""
        return state.level

    def unpack(self, packed: Index) -> State:
        """The state again."""
        return self.state(packed)

    def log_weight(self, state: State) -> float:
        """The logarithm of the sum over the DAGs of the partition."""
        return state.log_weight

    def record(self, state: State) -> Recorded:
        """The part of each variable, its weight and the edges given it."""
        return Recorded(state.level.astype(np.int16), state.log_weight, self.edges(state))

    def edges(self, state: State) -> Array:
        """The probability of each edge `[i, j]`, `i -> j`, given the partition."""
        from polydag.posterior.dags._partitions_kernels import edges

        result = np.empty((self.n, self.n))
        edges(self.ranked, state.level, result)
        return np.ascontiguousarray(result.T)

    def families(self, node: int, level: Index) -> NDArray[np.bool_]:
        """Which sets of the table are parents of a node in some DAG of the partition."""
        members = self.table.members(node)
        highest = np.where(members < 0, -1, level[members]).max(axis=1, initial=-1)
        return np.asarray(highest == level[node] - 1)

    def dag(self, level: Index, rng: np.random.Generator) -> NDArray[np.bool_]:
        """A DAG of the partition, by its score."""
        from polydag.posterior.dags._drawing_kernels import draw_dag

        dag = np.zeros((self.table.n, self.table.n), dtype=bool)
        draw_dag(self.ranked, np.array(level, dtype=np.int64), True, rng, dag)
        return dag
