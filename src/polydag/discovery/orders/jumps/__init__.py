"""Jumps of parts of a network between peaks that no chain of small moves connects.

Two peaks differ in parts, for example in the directions along a long path. Near each peak some edges are
sure, and these say which variables of a part come after which others. A jump takes a part, with all that
descends from it, out of an order and puts the variables back one by one, parents first, according to the
edges of the other peak; or a part with its ancestors, children first. A place is drawn by how many orders of
the descendants it leaves room for: if every variable had one parent at most, all orders would be equally
likely (the hook length formula). How likely the way back is, is known as well, so that the move can be
accepted or not as Metropolis and Hastings do: chains with jumps have the right distribution, whatever the
edges are, and visit peaks as often as they weigh.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.discovery.orders import Orders, State

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Bits = NDArray[np.bool_]

SURE = 0.9  # an edge of a peak that is more probable than this is one of its marks


class Peak(NamedTuple):
    """An order, and the probabilities of edges around it: on the average, and the highest that were seen."""

    order: Index
    edges: Array
    highest: Array


class Side(NamedTuple):
    """A part as it is on one peak.

    Attributes
    ----------
    sequence : int array of shape (k,)
        Its variables, in the order of their return.
    parents : int array of shape (k, most)
        What each has to be after, filled up with -1.
    later : array of shape (k,)
        How many descend from each; one with several parents counts in equal shares.
    """

    sequence: Index
    parents: Index
    later: Array

    def key(self) -> bytes:
        """The same for the same part."""
        return self.sequence.tobytes() + self.parents.tobytes()


class Jump(NamedTuple):
    """The two ways in which a part can be; of orders that are read from their end, if it moves backwards."""

    one: Side
    other: Side
    backwards: bool


def jumps_between(peaks: Sequence[Peak]) -> tuple[Jump, ...]:
    """The parts in which any two peaks differ for sure, with what is below them, and with what is above."""
    found: dict[tuple[bool, frozenset[bytes]], Jump] = {}
    for one, other in itertools.combinations(peaks, 2):
        sure = [peak.edges > SURE for peak in (one, other)]
        never = [peak.edges < 1.0 - SURE for peak in (one, other)]
        different = sure[0] & never[1] | sure[1] & never[0]
        either = sure[0] | sure[1]
        for part in _connected(either & _ends(different)):
            for along, moved in ((1, _reached(part, either)), (-1, _reached(part, either.T))):
                one_side, other_side = (
                    _side(moved, peak.order[::along], edges if along == 1 else edges.T)
                    for peak, edges in zip((one, other), sure, strict=True)
                )
                jump = Jump(one_side, other_side, along == -1)
                found.setdefault((jump.backwards, frozenset((one_side.key(), other_side.key()))), jump)
    return tuple(found.values())


def jumped(space: Orders, state: State, jump: Jump, power: float, rng: np.random.Generator) -> State:
    """A proposal of the other way from one of the two that the part may be in, accepted or not."""
    from polydag.discovery.orders.jumps._kernels import put_back

    here, there = (jump.one, jump.other) if rng.random() < 0.5 else (jump.other, jump.one)
    along = -1 if jump.backwards else 1
    old, order = np.ascontiguousarray(state.order[::along]), np.empty_like(state.order)
    back = put_back(old, *here, False, rng, order)
    if back == -np.inf:
        return state
    forth = put_back(old, *there, True, rng, order)
    new = space.state(order[::along])
    gain = power * (new.log_weight - state.log_weight) + back - forth
    return new if gain >= 0 or math.log(1.0 - rng.random()) < gain else state


def _side(moved: Bits, order: Index, sure: Bits) -> Side:
    sequence: Index = order[moved[order]]
    most = max(1, int(sure[:, sequence].sum(axis=0).max()))
    parents = np.full((len(sequence), most), -1)
    place = {int(v): k for k, v in enumerate(sequence)}
    size = np.ones(len(sequence))
    for k in range(len(sequence) - 1, -1, -1):
        own = np.flatnonzero(sure[:, sequence[k]])
        parents[k, : len(own)] = own
        earlier = [place[int(u)] for u in own if place.get(int(u), k) < k]
        size[earlier] += size[k] / max(len(earlier), 1)
    return Side(sequence, parents, size - 1.0)


def _reached(part: list[int], edges: Bits) -> Bits:
    """A part and all that its variables lead to."""
    reached = np.zeros(len(edges), dtype=bool)
    reached[part] = True
    while (more := reached | edges[reached].any(axis=0)).sum() > reached.sum():
        reached = more
    return reached


def _ends(edges: Bits) -> Bits:
    """All pairs of variables that have some of the edges each."""
    there = np.flatnonzero(edges.any(axis=0) | edges.any(axis=1))
    pairs = np.zeros_like(edges)
    pairs[np.ix_(there, there)] = True
    return pairs


def _connected(edges: Bits) -> list[list[int]]:
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(edges, directed=False)
    sizes = np.bincount(label)
    return [np.flatnonzero(label == part).tolist() for part in np.flatnonzero(sizes > 1)]
