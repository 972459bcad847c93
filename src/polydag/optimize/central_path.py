"""What all solvers along a central path share: when a graph counts as acyclic, and the result of a path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

ACYCLIC = 1e-5  # below this value of the acyclicity function, cycles have vanished for practical purposes


class PathStage(Protocol):
    """One stage of a central path, solved at a fixed μ."""

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        ...

    @property
    def converged(self) -> bool:
        """Whether the stage reached its tolerance."""
        ...


class PathResult:
    """Convergence and iterations of a solution with its acyclicity value `h` and its `stages`."""

    h: float
    stages: Sequence[PathStage]

    @property
    def converged(self) -> bool:
        """Whether the last stage reached its tolerance and cycles have vanished."""
        return self.stages[-1].converged and self.h <= ACYCLIC

    @property
    def n_iter(self) -> int:
        """Number of iterations over all stages."""
        return sum(stage.n_iter for stage in self.stages)
