"""Gibbs moves of a few variables at once: their permutation on the places that they hold is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polydag.arrays import Index
from polydag.posterior.orders.space import OrderSpace, OrderState

if TYPE_CHECKING:
    from polydag.posterior.orders._subset_permutation_kernels import Workspace

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
        space.families, space.parent_sums, space.neighbours, *new, count, power, rng, _workspace(space)
    )
    return new, int(changed)


def _workspace(space: OrderSpace) -> Workspace:
    from polydag.posterior.orders._subset_permutation_kernels import Workspace

    n, k, words = space.n, min(_SIZE, space.n), len(space.families.masks)
    subsets = 1 << k

    def numbers(size: int) -> Index:
        return np.full(size, -1, dtype=np.int64)

    return Workspace(
        chosen=numbers(k),
        member=numbers(n),
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
        excluded=np.empty(words, dtype=np.uint64),
        required=np.empty(words, dtype=np.uint64),
    )
