"""The interface of an acyclicity function, and the functions by name."""

from __future__ import annotations

from typing import Protocol

from polydag.acyclicity.expm import Expm
from polydag.acyclicity.logdet import LogDet
from polydag.arrays import Array


class Acyclicity(Protocol):
    """An acyclicity function as solvers use it."""

    def value_and_grad(self, V: Array) -> tuple[float, Array]:
        """`h(V)` and `∂h/∂V`; the value is infinite where h is undefined."""
        ...


ACYCLICITY: dict[str, type[Acyclicity]] = {"expm": Expm, "logdet": LogDet}
