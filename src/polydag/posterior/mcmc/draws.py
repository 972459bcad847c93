"""States that a Markov chain visited, compact enough to keep them all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class BucketDraws:
    """Sampled bucket orders: every linear order that puts the buckets one after the other belongs to a state.

    Attributes
    ----------
    buckets : int array of shape (chains, draws, n)
        The bucket of each variable, counted from 0; the variables of a bucket stand in any order.
    log_weights : array of shape (chains, draws)
        The logarithm of each state's weight: that of its linear orders together, prior included. Draws have
        the states' probabilities already; these are for looking at, not for averaging.
    """

    buckets: NDArray[np.int16]
    log_weights: NDArray[np.float64]

    @property
    def n_chains(self) -> int:
        """The number of chains."""
        return int(self.buckets.shape[0])

    @property
    def n_draws(self) -> int:
        """The number of states kept of each chain."""
        return int(self.buckets.shape[1])
