"""Predicted memory and time of each method, as functions of the numbers of columns and rows.

Each method is one entry of `COSTS`, and its `note` states the assumptions. The figures are orders of
magnitude, meant for deciding whether to start a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

_DOUBLE = 8


class Cost(NamedTuple):
    """The cost of a method: bytes and seconds for `d` columns and `n` rows."""

    name: str
    memory: Callable[[int, float], float]
    seconds: Callable[[int, float], float]
    note: str


class Estimate(NamedTuple):
    """The predicted cost of one method on one table."""

    method: str
    memory_bytes: float
    seconds: float
    note: str


# Fitted to `make bench-pooled` (d = 50, 100, 200) and `make bench-search` (d = 50 to 5000) on one core.
COSTS: tuple[Cost, ...] = (
    Cost(
        "equal-variance",
        lambda d, n: 6 * _DOUBLE * d * d,
        lambda d, n: 4e-8 * d**3,
        "works on statistics; independent of the number of rows",
    ),
    Cost(
        "notears",
        lambda d, n: 20 * _DOUBLE * d * d,
        lambda d, n: 4.4e-5 * d**2.5,
        "linear model, default penalty path; stability selection takes about five times as long",
    ),
    Cost(
        "ges",
        lambda d, n: 6 * _DOUBLE * d * d,
        lambda d, n: 4e-4 * d + 2e-7 * d**2,
        "continuous data, sparse result (2 edges per column); dense results and discrete data take longer",
    ),
    Cost(
        "boss",
        lambda d, n: 12 * _DOUBLE * d * d,
        lambda d, n: 4e-4 * d + 8e-7 * d**2,
        "continuous data, sparse result; discrete data take much longer",
    ),
    Cost(
        "pc",
        lambda d, n: 6 * _DOUBLE * d * d,
        lambda d, n: 7e-7 * d**2,
        "continuous data, sparse result; grows exponentially with the number of neighbours",
    ),
)


def estimates(d: int, n: float) -> tuple[Estimate, ...]:
    """The predicted cost of every method for `d` columns and `n` rows."""
    return tuple(Estimate(cost.name, cost.memory(d, n), cost.seconds(d, n), cost.note) for cost in COSTS)
