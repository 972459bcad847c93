"""The sampler of linear orders, which are recorded as bucket orders."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polydag.arrays import Index
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.bucket_orders import BucketOrders
from polydag.posterior.mcmc.sampler import Info, Record
from polydag.posterior.orders.mode_jumps.moves import ModeJump, jump
from polydag.posterior.orders.relocation import relocate
from polydag.posterior.orders.space import OrderSpace, OrderState, random_order
from polydag.posterior.orders.subset_permutation import permute_subsets

_INTERVAL = 3  # relocations for every permutation of a subset, and for every mode jump


@dataclass(frozen=True, eq=False)
class OrderSampler:
    """A Markov chain of linear orders (see `polydag.posterior.mcmc.sampler`).

    Attributes
    ----------
    space : OrderSpace
        The orders.
    buckets : BucketOrders
        The bucket orders that are recorded.
    mode_jumps : tuple of ModeJump
        Jumps between modes, if any.
    moves : int
        Relocations of a step.
    power : float
        The target is the weight of an order to this power.
    """

    space: OrderSpace
    buckets: BucketOrders
    mode_jumps: tuple[ModeJump, ...] = ()
    moves: int = 1
    power: float = 1.0

    @classmethod
    def of(cls, table: FamilyTable, bucket_size: int = 10) -> OrderSampler:
        """The sampler of a table with the prior in it."""
        return cls(OrderSpace.of(table), BucketOrders.of(table, bucket_size))

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.space.n

    @property
    def sweep(self) -> int:
        """Relocations between two draws of the orders within buckets.

        The fewer families are left to sum over, the less a relocation takes compared with such a draw.
        """
        return int(min(max(self.space.reduction**1.5, 2.0), 4.0 * self.n))

    @property
    def traced(self) -> int:
        """How many probabilities a record has."""
        return self.n**2

    def configured(self, *, moves: int, power: float = 1.0) -> OrderSampler:
        """The sampler with so many relocations a step and another power."""
        return replace(self, moves=moves, power=power)

    def random_position(self, rng: np.random.Generator) -> Index:
        """A random order that has a positive weight."""
        return random_order(self.space.table, rng)

    def init(self, position: Index) -> OrderState:
        """The state of an order."""
        return self.space.init(position)

    def step(self, rng: np.random.Generator, state: OrderState) -> tuple[OrderState, Info]:
        """Sweeps of relocations, each followed by permutations of subsets, a draw within buckets, and jumps.

        The acceptance is the share of relocations that changed the place of their variable.
        """
        moved = 0
        for begin in range(0, self.moves, self.sweep):
            count = min(self.sweep, self.moves - begin)
            state, changed = relocate(self.space, rng, state, count, self.power)
            moved += changed
            if subsets := self.sweep // _INTERVAL:
                state, _ = permute_subsets(self.space, rng, state, subsets, self.power)
            state = self.redraw_buckets(rng, state)
            state = self.jump_between_modes(rng, state)
        return state, Info(moved / self.moves)

    def redraw_buckets(self, rng: np.random.Generator, state: OrderState) -> OrderState:
        """Draw an order among those that agree with buckets that begin at a random place.

        The draw is in proportion to the weight; where the target is a power of it, the draw is a proposal.
        """
        order, log_sums = self.buckets.redraw(rng, state.order)
        new = OrderState(order, np.argsort(order), log_sums)
        log_ratio = (self.power - 1.0) * (new.log_weight - state.log_weight)
        return new if log_ratio >= 0 or np.log(1.0 - rng.random()) < log_ratio else state

    def jump_between_modes(self, rng: np.random.Generator, state: OrderState) -> OrderState:
        """Try random mode jumps."""
        if self.mode_jumps:
            for k in rng.integers(0, len(self.mode_jumps), max(1, self.sweep // _INTERVAL)):
                state, _ = jump(self.space, rng, state, self.mode_jumps[k], self.power)
        return state

    def record(self, state: OrderState) -> Record:
        """The bucket of each variable, and the edge probabilities and log weight of the bucket order."""
        edges, log_weight = self.buckets.edges_and_weight(state.order)
        return Record(self.buckets.bucket_of(state.order), log_weight, edges)
