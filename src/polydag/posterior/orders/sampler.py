"""Chains of linear orders that are recorded as the bucket orders they are in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc import bucket_orders as bucket
from polydag.posterior.mcmc.chains import Recorded
from polydag.posterior.orders.mode_jumps import Jump, jumped
from polydag.posterior.orders.moves import Orders, State

Index = NDArray[np.int64]
_APART = 3  # relocations for every arrangement, and for every jump that is tried


@dataclass(frozen=True, eq=False)
class OrderSampler:
    """Orders of a table of families, as `polydag.posterior.mcmc.chains` runs them."""

    space: Orders
    scores: bucket.Scaled
    bucket_size: int
    jumps: tuple[Jump, ...] = ()

    @classmethod
    def of(cls, table: FamilyTable, bucket_size: int = 10) -> OrderSampler:
        """Of a table with the prior in it."""
        return cls(Orders(table), bucket.scaled(table), bucket_size)

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.space.n

    @property
    def between(self) -> int:
        """Relocations between two draws inside buckets: the fewer families, the less they cost beside one."""
        return int(np.clip(self.space.left_out**1.5, 2.0, 4.0 * self.n))

    def walker(self) -> OrderWalker:
        """The working memory of a chain."""
        return OrderWalker(self)


class OrderWalker:
    """A chain of linear orders that is recorded as the bucket orders they are in."""

    def __init__(self, sampler: OrderSampler) -> None:
        self._space, self._jumps = sampler.space, sampler.jumps
        self._buckets = bucket.BucketOrders(sampler.scores, sampler.bucket_size)
        self._room, self._desk = sampler.space.room(), sampler.space.desk()
        self._between = sampler.between

    def start(self, rng: np.random.Generator) -> State:
        """A random order that has a positive weight."""
        return self._space.start(rng)

    def pack(self, state: State) -> Index:
        """The variables in their order."""
        return state.order

    def unpack(self, packed: Index) -> State:
        """The state of an order."""
        return self._space.state(packed)

    def advance(
        self, state: State, power: float, steps: int, rng: np.random.Generator
    ) -> tuple[State, float]:
        """Draw the places of variables anew, of one, of a few, and now and then of all inside buckets.

        Where there are other peaks, parts of the network jump between them.
        """
        found = state.copy()
        moved = 0
        for begin in range(0, steps, self._between):
            moved += self._space.relocate(found, min(self._between, steps - begin), power, rng, self._room)
            if arranged := self._between // _APART:
                self._space.arrange(found, arranged, power, rng, self._room, self._desk)
            found = self._redrawn(found, power, rng)
            found = self._jumped(found, power, rng)
        return found, moved / steps

    def _jumped(self, state: State, power: float, rng: np.random.Generator) -> State:
        """Random jumps, some of which may be accepted."""
        if self._jumps:
            for number in rng.integers(0, len(self._jumps), max(1, self._between // _APART)):
                state = jumped(self._space, state, self._jumps[number], power, rng)
        return state

    def _redrawn(self, state: State, power: float, rng: np.random.Generator) -> State:
        """An order drawn by weight among those that buckets of any beginning allow."""
        order, logs = self._buckets.redrawn(state.order, rng)
        new = State(order, np.argsort(order), logs)
        # By weight as it is; where that is taken to a power, a proposal.
        gain = (power - 1.0) * (new.log_weight - state.log_weight)
        return new if gain >= 0 or np.log(1.0 - rng.random()) < gain else state

    def log_weight(self, state: State) -> float:
        """The log weight of the order."""
        return state.log_weight

    def record(self, state: State) -> Recorded:
        """The bucket of each variable, and what follows from all orders of the buckets."""
        edges, log_weight = self._buckets.summed(state.order)
        return Recorded(self._buckets.numbers(state.order), log_weight, edges)
