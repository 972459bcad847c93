"""Parallel tempering: replicas of a chain at higher temperatures that exchange their states.

Replica k has the weight to the power `0.75^k` as its target. After every step neighbouring replicas propose
to exchange their states; only the first replica, whose target is the posterior, is recorded. With a single
replica this is the chain itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np

from polydag.arrays import Index
from polydag.posterior.mcmc.sampler import Info, S, Sampler

_RATIO = 0.75  # of the powers of neighbouring replicas


class TemperedState(NamedTuple, Generic[S]):
    """The states of all replicas, that of the posterior first, and how many steps have been made."""

    replicas: tuple[S, ...]
    turn: int


@dataclass(frozen=True, eq=False)
class TemperedSampler(Generic[S]):
    """Replicas of a sampler, one for each power."""

    samplers: tuple[Sampler[S], ...]
    powers: tuple[float, ...]

    @classmethod
    def of(cls, sampler: Sampler[S], n_temperatures: int, moves: int) -> TemperedSampler[S]:
        """So many replicas of a sampler, whose steps consist of so many moves."""
        powers = tuple(np.power(_RATIO, np.arange(n_temperatures), dtype=np.float64).tolist())
        return cls(tuple(sampler.configured(moves=moves, power=power) for power in powers), powers)

    def init(self, positions: Sequence[Index]) -> TemperedState[S]:
        """Replicas at these positions; further replicas start at the last of them."""
        last = len(positions) - 1
        return TemperedState(
            tuple(sampler.init(positions[min(k, last)]) for k, sampler in enumerate(self.samplers)), 0
        )

    def step(self, rng: np.random.Generator, state: TemperedState[S]) -> tuple[TemperedState[S], Info]:
        """A step of every replica and exchanges between neighbours; the info is that of the first replica."""
        steps = [
            sampler.step(rng, replica) for sampler, replica in zip(self.samplers, state.replicas, strict=True)
        ]
        replicas = self._exchanged(rng, [replica for replica, _ in steps], state.turn % 2)
        return TemperedState(replicas, state.turn + 1), steps[0][1]

    def _exchanged(self, rng: np.random.Generator, replicas: list[S], parity: int) -> tuple[S, ...]:
        """Metropolis exchanges of neighbouring replicas: of even pairs and odd pairs in turn."""
        for k in range(parity, len(replicas) - 1, 2):
            one, other = replicas[k], replicas[k + 1]
            log_ratio = (self.powers[k] - self.powers[k + 1]) * (other.log_weight - one.log_weight)
            if np.log(1.0 - rng.random()) < log_ratio:
                replicas[k], replicas[k + 1] = other, one
        return tuple(replicas)
