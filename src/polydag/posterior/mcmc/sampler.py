"""What a Markov chain sampler is: a state, what a step reports, `init` and `step`.

A sampler is immutable and its functions are pure: `step(rng, state)` returns a new state and an `Info`, and
leaves the old state as it is. The samplers are `polydag.posterior.orders.sampler.OrderSampler`,
`polydag.posterior.dags.partitions.PartitionSampler` and
`polydag.posterior.joint_chains.shared_orders.SharedOrders`; `polydag.posterior.mcmc.driver` runs them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index


class State(Protocol):
    """A state of a chain."""

    @property
    def position(self) -> Index:
        """An array of shape (n,) that determines the state."""
        ...

    @property
    def log_weight(self) -> float:
        """The log of the unnormalised probability of the state."""
        ...


class Info(NamedTuple):
    """What a step reports: the share of its moves that changed the state."""

    acceptance: float


class Record(NamedTuple):
    """What is kept of a state.

    Attributes
    ----------
    state : int16 array of shape (n,)
        A number for each variable: its bucket, or its part.
    log_weight : float
        The log weight of what is recorded.
    edges : array of shape (n, n)
        The probability of each edge `i -> j` given the recorded state, at `[i, j]`; of several tasks, all
        that is traced, of shape (traced,).
    """

    state: NDArray[np.int16]
    log_weight: float
    edges: Array


S = TypeVar("S", bound=State)


class Sampler(Protocol[S]):
    """A Markov chain on states of type S, which can be sent to another process."""

    @property
    def n(self) -> int:
        """The number of variables."""
        ...

    @property
    def traced(self) -> int:
        """How many probabilities a record has."""
        ...

    def configured(self, *, moves: int, power: float = 1.0) -> Self:
        """The sampler whose steps consist of so many moves and whose target is the weight to a power."""
        ...

    def random_position(self, rng: np.random.Generator) -> Index:
        """The position of a random state with positive weight."""
        ...

    def init(self, position: Index) -> S:
        """The state at a position."""
        ...

    def step(self, rng: np.random.Generator, state: S) -> tuple[S, Info]:
        """The next state of the chain."""
        ...

    def record(self, state: S) -> Record:
        """What is kept of a state."""
        ...
