"""A family of models as the coordinator knows it.

A method that exchanges parameters (`admm`, `fedavg`) holds one `Model` and never asks what its parameters
mean: they are arrays in *lanes*, one lane for each penalty of a path, so that a path costs no more rounds
than one penalty. Between rounds the program's state holds `theta` (lanes × …), `lambdas`, `h`, and what the
model itself put there.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total

Array = NDArray[np.float64]

HISTORY = ("round", "lambda_", "cycle_cost", "rho", "primal", "dual", "h", "n_nonzero")


class Step(NamedTuple):
    """Where the coordinator's own step ended: a lane's parameters, their h, and how many are not zero."""

    theta: Array
    h: float
    n_nonzero: int


class Sizes(NamedTuple):
    """What a schedule is told of the sites.

    `typical` is the size of the curvature of a site's loss; `coverage` the share of the directions that a
    site's rows span, on average: where it is small, sites know little by themselves and need longer to agree.
    """

    typical: float
    coverage: float


class Model(Protocol):
    """The coordinator's side of a family of models."""

    def begin(self) -> tuple[State, Ask]:
        """The first question, before any parameters are exchanged."""
        ...

    def prepare(self, state: State, total: Total) -> tuple[State, Ask | None]:
        """The next such question; None when the state holds `theta`, `lambdas`, `h` and `unit`."""
        ...

    def told(self, state: State) -> Arrays:
        """What a site has to know besides parameters."""
        ...

    @property
    def share_shape(self) -> tuple[int, ...]:
        """What a site's share of the rows is: one number, or one a variable."""
        ...

    def sizes(self, state: State) -> Sizes:
        """What a schedule is told of the sites."""
        ...

    def powers(self, state: State) -> list[int]:
        """The size of parameters as powers of two: one for all, or one for each place of the last axis."""
        ...

    def server_step(
        self, state: State, lane: int, mean: Array, pull: float, cost: tuple[float, float], **limits: Any
    ) -> Step:
        """`min penalty(θ) + a h(θ) + b/2 h(θ)² + pull/2 ‖θ − mean‖²`, with `(a, b)` the cost of cycles.

        `limits` are `tolerance` (what a step has to gain, relative to the objective) and `max_iter`.
        """
        ...

    def finish(self, state: State, total: Total | None, told: Arrays) -> tuple[State, Ask | Answer]:
        """After the last round, with no total, and then until the answer is there.

        The answer holds weights, raw_weights, lambda_, criterion, h, settled, history and pooled_scale;
        `told` goes with questions to sites that keep nothing.
        """
        ...
