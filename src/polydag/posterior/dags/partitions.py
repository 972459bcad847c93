"""The sampler of ordered partitions, and DAGs and edges given a partition.

Every DAG belongs to one ordered partition: its first part contains the variables without parents, and every
variable of a later part has a parent in the part just before and none in its own or a later part (Kuipers and
Moffa 2017). The weight of a partition is the sum over its DAGs, which is a product of sums over families. A
chain of partitions therefore samples the posterior that is uniform over DAGs, without counting orders.

Its moves draw the place of one variable among the parts of the others (all places are weighed in one pass
over the families), split or merge parts, swap variables and, through a DAG drawn from the partition, reverse
edges (Grzegorczyk and Husmeier 2008). Without edge reversals chains get stuck.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.posterior.families.sorted_families import SortedFamilies, sort_families
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.sampler import Info, Record
from polydag.posterior.orders.space import random_order

_RELOCATIONS, _PROPOSALS, _REVERSALS = 1, 4, 50  # moves of a sweep


class PartitionState(NamedTuple):
    """An ordered partition with its weight.

    Attributes
    ----------
    level : int array of shape (n,)
        The part of each variable, counted from 0 without gaps.
    log_sums : array of shape (n,)
        The log of the sum over the families of each variable that the partition allows.
    """

    level: Index
    log_sums: Array

    @property
    def position(self) -> Index:
        """The parts, from which `PartitionSampler.init` makes the state again."""
        return self.level

    @property
    def log_weight(self) -> float:
        """The log of the sum over the DAGs of the partition."""
        return float(self.log_sums.sum())


@dataclass(frozen=True, eq=False)
class PartitionSampler:
    """A Markov chain of ordered partitions (see `polydag.posterior.mcmc.sampler`).

    Attributes
    ----------
    table : FamilyTable
        Log scores with the log prior in them.
    families : SortedFamilies
        All families of the table.
    candidate_index : int array of shape (n, n)
        `[u, v]` is the position of v among the candidate parents of u; -1 where it is none.
    moves : int
        Edge reversals of a step; other moves come between them.
    power : float
        The target is the weight of a partition to this power.
    """

    table: FamilyTable
    families: SortedFamilies
    candidate_index: Index
    moves: int = 1
    power: float = 1.0

    @classmethod
    def of(cls, table: FamilyTable) -> PartitionSampler:
        """The sampler of a table with the prior in it."""
        n, c = table.candidates.shape
        candidate_index = np.full((n, n), -1, dtype=np.int64)
        candidate_index[np.arange(n)[:, None], table.candidates] = np.arange(c)
        return cls(table, sort_families(table), candidate_index)

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.table.n

    @property
    def traced(self) -> int:
        """How many probabilities a record has."""
        return self.n**2

    def configured(self, *, moves: int, power: float = 1.0) -> PartitionSampler:
        """The sampler with so many edge reversals a step and another power."""
        return replace(self, moves=moves, power=power)

    def random_position(self, rng: np.random.Generator) -> Index:
        """The parts of a DAG drawn from a random order that allows one."""
        return self.position_of_order(rng, random_order(self.table, rng))

    def position_of_order(self, rng: np.random.Generator, order: Index) -> Index:
        """The parts of a DAG drawn from an order."""
        from polydag.posterior.dags._drawing_kernels import draw_dag, path_lengths

        dag = np.zeros((self.n, self.n), dtype=bool)
        draw_dag(self.families, np.argsort(order), False, rng, dag)
        level = np.empty(self.n, dtype=np.int64)
        path_lengths(dag, level)
        return level

    def init(self, position: Index) -> PartitionState:
        """The state of a partition."""
        from polydag.posterior.dags._partitions_kernels import score

        level = np.array(position, dtype=np.int64)
        log_sums = np.empty(len(level))
        score(self.families, level, 0, len(level), log_sums)
        return PartitionState(level, log_sums)

    def step(self, rng: np.random.Generator, state: PartitionState) -> tuple[PartitionState, Info]:
        """Sweeps of moves of all kinds; the acceptance is the share of edge reversals that were made."""
        from polydag.posterior.dags._partitions_kernels import sweep

        level, log_sums = state.level.copy(), state.log_sums.copy()
        reversed_ = 0
        for begin in range(0, self.moves, _REVERSALS):
            reversals = min(_REVERSALS, self.moves - begin)
            reversed_ += sweep(
                self.families, self.candidate_index, level, log_sums,
                _RELOCATIONS, _PROPOSALS, reversals, self.power, rng,
            )  # fmt: skip
        return PartitionState(level, log_sums), Info(reversed_ / self.moves)

    def record(self, state: PartitionState) -> Record:
        """The part of each variable, and the log weight and edge probabilities of the partition."""
        return Record(state.level.astype(np.int16), state.log_weight, self.edges(state))

    def edges(self, state: PartitionState) -> Array:
        """The probability of each edge `i -> j` given the partition, at `[i, j]`."""
        from polydag.posterior.dags._partitions_kernels import edge_probabilities

        result = np.empty((self.n, self.n))
        edge_probabilities(self.families, state.level, result)
        return np.ascontiguousarray(result.T)

    def place_weights(self, level: Index, node: int) -> Array:
        """The log weights of the partitions that differ in the place of one variable.

        First those in which it joins part 0, 1, … of the others, then those in which it forms a part of its
        own before part 0, 1, … and after the last.
        """
        from polydag.posterior.dags._partitions_kernels import weigh_places

        own = np.array(level, dtype=np.int64)
        weights: Array = weigh_places(self.families, self.candidate_index, own, node)[0]
        return weights

    def allowed_families(self, node: int, level: Index) -> Mask:
        """Which sets of the table are the parents of a node in some DAG of the partition."""
        members = self.table.members(node)
        highest = np.where(members < 0, -1, level[members]).max(axis=1, initial=-1)
        return np.asarray(highest == level[node] - 1)

    def draw_dag(self, rng: np.random.Generator, level: Index) -> Mask:
        """A DAG of the partition, drawn in proportion to its score."""
        from polydag.posterior.dags._drawing_kernels import draw_dag

        dag = np.zeros((self.n, self.n), dtype=bool)
        draw_dag(self.families, np.array(level, dtype=np.int64), True, rng, dag)
        return dag
