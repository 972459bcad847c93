"""Functions that are zero on acyclic graphs and positive elsewhere.

Each is a function of `V = W∘W`, the squared weights, with a gradient that is never negative: so a step that
holds the gradient fixed is a ridge penalty on each edge, heavy on the edges that close cycles. To add one,
write a file with a class that has `value_and_grad`, and name it here.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from polydag.acyclicity.expm import Expm
from polydag.acyclicity.logdet import LogDet

Array = NDArray[np.float64]


class Acyclicity(Protocol):
    """What a solver needs."""

    def value_and_grad(self, V: Array) -> tuple[float, Array]:
        """`h(V)` and `∂h/∂V`; the value is infinite where h is not defined."""
        ...


ACYCLICITY: dict[str, type[Acyclicity]] = {"expm": Expm, "logdet": LogDet}

__all__ = ["ACYCLICITY", "Acyclicity", "Expm", "LogDet"]
