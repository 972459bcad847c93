"""Bucket orders that Markov chains visited."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array


@dataclass(frozen=True, eq=False)
class BucketDraws:
    """Sampled bucket orders; each stands for all linear orders that put its buckets one after the other.

    Attributes
    ----------
    buckets : int16 array of shape (chains, draws, n)
        The bucket of each variable, counted from 0.
    log_weights : array of shape (chains, draws)
        The log of each bucket order's weight: the sum over its linear orders, prior included. Draws occur
        with the posterior probabilities already, so averages over draws must not be weighted by these.
    """

    buckets: NDArray[np.int16]
    log_weights: Array

    @property
    def n_chains(self) -> int:
        """The number of chains."""
        return int(self.buckets.shape[0])

    @property
    def n_draws(self) -> int:
        """The number of draws kept of each chain."""
        return int(self.buckets.shape[1])
