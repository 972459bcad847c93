"""Linear orders of the variables: their weights, and draws of the places of one or a few among the others.

The weight of an order is a product over the variables of a sum over the families whose parents come before.
A move draws the place of one variable from its distribution given the order of the others (Gibbs), all
places weighed at once; or the arrangement of a few on the places that they hold. Families that their subsets
outshine are left out of all sums (`undominated`), and sums end where the rest is too small to matter, so that
moves are quick where there are many rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.posterior.families.families_by_parent import pairs
from polydag.posterior.families.sorted_families import rank, undominated
from polydag.posterior.families.table import FamilyTable

if TYPE_CHECKING:
    from polydag.posterior.orders._moves_kernels import Room
    from polydag.posterior.orders._subset_order_kernels import Desk

Array = NDArray[np.float64]
Index = NDArray[np.int64]
_ARRANGED = 5  # variables that are arranged at once
_NEAREST = 5  # neighbours of each that they are chosen from


class State(NamedTuple):
    """An order, the place of each variable in it, and the log sums of their families."""

    order: Index
    place: Index
    logs: Array

    @property
    def log_weight(self) -> float:
        """The logarithm of the sum over the DAGs that agree with the order."""
        return float(self.logs.sum())

    def copy(self) -> State:
        """The same state in other memory."""
        return State(self.order.copy(), self.place.copy(), self.logs.copy())


class Orders:
    """Linear orders of the variables of one table. It is not changed by use, so that chains can share it."""

    def __init__(self, table: FamilyTable) -> None:
        n, c = table.candidates.shape
        self.table = table
        self.ranked = rank(undominated(table))
        by_pair = pairs(self.ranked)
        self._most = by_pair.sums(n)
        position = np.zeros((n, n), dtype=np.int64)
        position[np.arange(n)[:, None], table.candidates] = np.arange(c)
        self._known = (self.ranked, by_pair, self._most, position)  # what the weights of places need
        self._near = _nearest(table)

    @property
    def n(self) -> int:
        """The number of variables."""
        return self.table.n

    @property
    def left_out(self) -> float:
        """How many times as many families there are as sums go through."""
        return self.table.scores.size / len(self.ranked.values)

    def start(self, rng: np.random.Generator) -> State:
        """A random order that has a positive weight."""
        return self.state(random_order(self.table, rng))

    def state(self, order: Index) -> State:
        """An order with its weight."""
        from polydag.posterior.orders._moves_kernels import score

        own = np.array(order, dtype=np.int64)
        found = State(own, np.empty(self.n, dtype=np.int64), np.empty(self.n))
        score(self.ranked, *found, self.room())
        return found

    def relocate(self, state: State, count: int, power: float, rng: np.random.Generator, room: Room) -> int:
        """Draw the places of random variables anew, in place; how many went elsewhere."""
        from polydag.posterior.orders._moves_kernels import relocations

        return int(relocations(*self._known, *state, count, power, rng, room))

    def arrange(
        self, state: State, count: int, power: float, rng: np.random.Generator, room: Room, desk: Desk
    ) -> int:
        """Draw the arrangements of a few variables anew, in place; how many changed."""
        from polydag.posterior.orders._subset_order_kernels import arrangements

        memory = (desk, room.outside, room.wanted)
        return int(arrangements(self.ranked, self._most, self._near, *state, count, power, rng, *memory))

    def places(self, order: Index, node: int) -> Array:
        """The log weights of the orders that differ in the place of one variable."""
        from polydag.posterior.orders._moves_kernels import weigh_places

        room = self.room()
        weigh_places(*self._known, *self.state(order), node, 1.0, room)
        weights: Array = room.weights
        return weights

    def best_families(self, state: State) -> tuple[Index, Array]:
        """The best parent set of each variable in an order, as numbers of the table's sets; their scores."""
        from polydag.posterior.orders._moves_kernels import best_families

        chosen, scores = np.zeros(self.n, dtype=np.int64), np.full(self.n, -np.inf)
        best_families(self.ranked, state.place, chosen, scores)
        return chosen, scores

    def room(self) -> Room:
        """The working memory of a chain."""
        from polydag.posterior.orders._moves_kernels import Room

        n, words = self.n, len(self.ranked.masks)
        return Room(
            rest=np.empty(max(n - 1, 1), dtype=np.int64),
            without=np.empty(n),
            beside=np.empty(n),
            weights=np.empty(n),
            total=np.empty(n),
            scale=np.empty(n),
            part=np.empty(n),
            least=np.empty(n),
            after=np.empty(self.ranked.candidates.shape[1] + 1, dtype=np.int64),
            outside=np.empty(words, dtype=np.uint64),
            wanted=np.empty(words, dtype=np.uint64),
        )

    def desk(self) -> Desk:
        """The working memory of arrangements."""
        from polydag.posterior.orders._subset_order_kernels import Desk

        n, k = self.n, min(_ARRANGED, self.n)
        subsets = 1 << k

        def numbers(size: int) -> Index:
            return np.full(size, -1, dtype=np.int64)

        return Desk(
            chosen=numbers(k),
            inside=numbers(n),
            spots=numbers(k),
            before=numbers(n),
            slot=numbers(subsets * k),
            subset=numbers(subsets * k),
            level=numbers(subsets * k),
            total=np.empty(subsets * k),
            scale=np.empty(subsets * k),
            alpha=np.empty((k, subsets)),
            between=np.empty(subsets),
            F=np.empty(subsets),
            size=np.array([U.bit_count() for U in range(subsets)]),
            touched=numbers(n),
        )


def _nearest(table: FamilyTable) -> Index:
    """The variables that gain most as the only parent of each other, the best first."""
    n, c = table.candidates.shape
    gains = np.full((n, n), -1e300)
    if table.max_parents:
        alone, single = table.scores[:, :1], table.scores[:, 1 : c + 1]
        base = np.where(alone > -np.inf, alone, single.max(axis=1, keepdims=True))
        possible = single > -np.inf
        gain = np.where(possible, single, 0.0) - np.where(base > -np.inf, base, 0.0)
        gains[np.arange(n)[:, None], table.candidates] = np.where(possible, gain, -1e300)
    gains = np.maximum(gains, gains.T)
    np.fill_diagonal(gains, -np.inf)
    nearest: Index = np.argsort(-gains, axis=1, kind="stable")[:, : max(1, min(_NEAREST, n - 1))]
    return np.ascontiguousarray(nearest)


def random_order(table: FamilyTable, rng: np.random.Generator) -> Index:
    """A random order in which every variable has an allowed parent set among those before it."""
    members = [table.members(node)[table.scores[node] > -np.inf] for node in range(table.n)]
    before = np.zeros(table.n + 1, dtype=bool)
    before[table.n] = True  # a place without a member
    order: list[int] = []
    left = rng.permutation(table.n).tolist()
    while left:
        # What can come next still can after others: so that this finds an order if there is one.
        ready = next((v for v in left if before[members[v]].all(axis=1).any()), None)
        if ready is None:
            raise DataError("No order of the variables has an allowed parent set for every variable.")
        order.append(ready)
        before[ready] = True
        left.remove(ready)
    return np.array(order, dtype=np.int64)
