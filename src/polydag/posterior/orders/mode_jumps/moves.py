"""Jumps of parts of a network between modes that no sequence of small moves connects.

Two modes differ in parts of the network, for example in the directions along a long path. Near each mode some
edges are certain, and these say which variables of a part come after which others. A jump takes a part, with
all its descendants, out of an order and inserts the variables again one by one, parents first, according to
the edges of the other mode; or it takes a part with its ancestors and inserts children first. Of the places
after the last parent of a variable, the number that it leaves behind itself is drawn from a beta-binomial
distribution fitted to orders around the mode. (If every variable had at most one parent and all orders were
equally likely, the first parameter would be one more than the number of descendants and the second would be
one: this is the hook length formula.) The probability of the reverse jump is known as well, so that a jump
is accepted or rejected by the Metropolis-Hastings rule. Chains with jumps therefore keep the right target
whatever the edges and fits are, and visit modes in proportion to their weight.

`mode_jump_search` finds the jumps of a table, `mode_jump_proposals` fits the distributions of places.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Index
from polydag.posterior.orders.space import OrderSpace, OrderState


class Layout(NamedTuple):
    """A part of the network as it is on one mode.

    Attributes
    ----------
    sequence : int array of shape (k,)
        Its variables, in the order in which they are inserted.
    parents : int array of shape (k, most)
        The variables that each must come after, padded with -1.
    shapes : array of shape (k, 2)
        The parameters of the beta-binomial distribution of how many places it leaves behind itself.
    """

    sequence: Index
    parents: Index
    shapes: Array

    def key(self) -> bytes:
        """The same for layouts that differ in their shapes only."""
        return self.sequence.tobytes() + self.parents.tobytes()


class ModeJump(NamedTuple):
    """The two layouts of a part; of orders read from their end if `backwards`."""

    layouts: tuple[Layout, Layout]
    backwards: bool


def jump(
    space: OrderSpace, rng: np.random.Generator, state: OrderState, mode_jump: ModeJump, power: float = 1.0
) -> tuple[OrderState, bool]:
    """Propose new places for a part, in its present layout or the other one; returns whether it is accepted.

    The target is the weight to `power`.
    """
    new, log_ratio = propose(space, rng, state, mode_jump, power)
    accepted = log_ratio >= 0 or math.log(1.0 - rng.random()) < log_ratio
    return (new if accepted else state), accepted


def propose(
    space: OrderSpace, rng: np.random.Generator, state: OrderState, mode_jump: ModeJump, power: float = 1.0
) -> tuple[OrderState, float]:
    """A proposed state and its log Metropolis-Hastings ratio; -inf where the part is in neither layout."""
    from polydag.posterior.orders._space_kernels import score
    from polydag.posterior.orders.mode_jumps._proposals_kernels import propose_order

    here, there = (mode_jump.layouts[k] for k in rng.integers(0, 2, 2))
    new = state.copy()
    log_ratio = propose_order(state.order, here, there, mode_jump.backwards, rng, new.order)
    if log_ratio == -np.inf:
        return state, log_ratio
    score(space.families, *new)
    return new, power * (new.log_weight - state.log_weight) + log_ratio
