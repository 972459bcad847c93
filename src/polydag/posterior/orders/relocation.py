"""Gibbs moves of single variables: the place of one variable is drawn given the order of the others.

All places are weighed in one pass, and every draw is from the conditional distribution, so that no proposal
is rejected.
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array
from polydag.posterior.orders.space import OrderSpace, OrderState


def relocate(
    space: OrderSpace, rng: np.random.Generator, state: OrderState, count: int, power: float = 1.0
) -> tuple[OrderState, int]:
    """Draw the places of `count` random variables, one after the other.

    Parameters
    ----------
    space : OrderSpace
        The orders.
    rng : Generator
        The source of random numbers.
    state : OrderState
        The present order, which is left as it is.
    count : int
        How many variables are moved.
    power : float
        The target is the weight to this power.

    Returns
    -------
    state : OrderState
        The order after all moves.
    moved : int
        How many variables changed their place.
    """
    from polydag.posterior.orders._relocation_kernels import relocations

    new = state.copy()
    moved = relocations(
        space.families, space.by_parent, space.parent_sums, space.candidate_index, *new, count, power, rng
    )
    return new, int(moved)


def place_weights(space: OrderSpace, state: OrderState, node: int) -> Array:
    """The log weights of the orders that differ in the place of one variable, of shape (n,)."""
    from polydag.posterior.orders._relocation_kernels import place_weights

    weights: Array = place_weights(
        space.families, space.by_parent, space.parent_sums, space.candidate_index, *state.copy(), node
    )
    return weights
