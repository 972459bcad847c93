"""Jumps of parts of a network between peaks that no chain of small moves connects.

Two peaks differ in parts, for example in the directions along a long path. Near each peak some edges are
sure, and these say which variables of a part come after which others. A jump takes a part, with all that
descends from it, out of an order and puts the variables back one by one, parents first, according to the
edges of the other peak; or a part with its ancestors, children first. How many of the places behind its
parents a variable leaves behind itself is drawn from a beta-binomial distribution, which is fitted to orders
seen around the peak. (If every variable had one parent at most and all orders were equally likely, it would
be exact: the first parameter is one more than the number of descendants, the second is one, which is the hook
length formula.) How likely the way back is, is known as well, so that the move can be accepted or not as
Metropolis and Hastings do: chains with jumps have the right distribution, whatever edges and fits are, and
visit peaks as often as they weigh.

Which jumps there are is found in `finding`, the distributions of places in `fitting`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.posterior.orders.moves import Orders, State

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Side(NamedTuple):
    """A part as it is on one peak.

    Attributes
    ----------
    sequence : int array of shape (k,)
        Its variables, in the order of their return.
    parents : int array of shape (k, most)
        What each has to be after, filled up with -1.
    shapes : array of shape (k, 2)
        The parameters of the beta-binomial distribution of how many places it leaves behind itself.
    """

    sequence: Index
    parents: Index
    shapes: Array

    def key(self) -> bytes:
        """The same for the same part."""
        return self.sequence.tobytes() + self.parents.tobytes()


class Jump(NamedTuple):
    """The two ways in which a part can be; of orders that are read from their end, if it moves backwards."""

    one: Side
    other: Side
    backwards: bool


def jumped(space: Orders, state: State, jump: Jump, power: float, rng: np.random.Generator) -> State:
    """A proposal of places for a part, of the way that it is in or of the other, accepted or not."""
    new, gain = proposed(space, state, jump, power, rng)
    return new if gain >= 0 or math.log(1.0 - rng.random()) < gain else state


def proposed(
    space: Orders, state: State, jump: Jump, power: float, rng: np.random.Generator
) -> tuple[State, float]:
    """A state, and the logarithm of the ratio that Metropolis and Hastings compare with a random number."""
    from polydag.posterior.orders._mode_jumps_kernels import propose

    here, there = (jump[k] for k in rng.integers(0, 2, 2))
    new = state.copy()
    ratio = propose(space.ranked, state.order, here, there, jump.backwards, rng, *new, space.room())
    if ratio == -np.inf:
        return state, ratio
    return new, power * (new.log_weight - state.log_weight) + ratio
