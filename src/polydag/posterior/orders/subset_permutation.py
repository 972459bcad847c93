"""Gibbs moves of a few variables at once: their permutation on the places that they hold is drawn."""

from __future__ import annotations

import numpy as np

from polydag.posterior.orders.space import OrderSpace, OrderState

_SIZE = 5  # variables that are permuted at once


def permute_subsets(
    space: OrderSpace, rng: np.random.Generator, state: OrderState, count: int, power: float = 1.0
) -> tuple[OrderState, int]:
    """Draw the permutations of `count` random subsets of the variables, one after the other.

    Parameters and results as those of `relocate`; the second result is how many subsets changed.
    """
    from polydag.posterior.orders._subset_permutation_kernels import permutations

    new = state.copy()
    changed = permutations(
        space.families, space.parent_sums, space.neighbours, *new, min(_SIZE, space.n), count, power, rng
    )
    return new, int(changed)
