"""Predicted memory and time of each method, as functions of the numbers of columns and rows.

Each method is one entry of `COSTS`, and its `note` states the assumptions. Memory is the peak of the whole
process, with the interpreter and the compiled kernels; seconds are CPU time on one core, without the
compilation that the first fit of an installation pays once. On simulated tables with two edges per column,
memory is within a factor 1.3 and the median time of three tables within a factor 3
(`tests/test_cost_estimates.py`). Single tables vary: Notears took 2.5 to 17 s on three of 120 columns.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple

_DOUBLE = 8
_PROCESS = 320e6  # bytes of a process that has loaded polydag, its libraries and the kernels
_COPIES = 3  # of the rows that are in memory at once: as read, as numbers, centred


_LABELS = "labels, sparse result (2 edges per column); many levels take longer"


class Cost(NamedTuple):
    """The cost of a method for `d` columns and `n` rows: working memory in bytes, and seconds."""

    name: str
    working: Callable[[int, float], float]
    seconds: Callable[[int, float], float]
    note: str
    most_columns: float = inf  # beyond, there is no prediction

    def memory(self, d: int, n: float) -> float:
        """The peak memory of the process in bytes."""
        return _PROCESS + _COPIES * _DOUBLE * n * d + self.working(d, n)


class Estimate(NamedTuple):
    """The predicted cost of one method on one table."""

    method: str
    memory_bytes: float
    seconds: float
    note: str


# Fitted to 5 to 500 columns and 100 to 10,000 rows; the terms in d**2 of the searches to `make bench-search`.
COSTS: tuple[Cost, ...] = (
    Cost(
        "equal-variance",
        lambda d, n: 10 * _DOUBLE * d * d,
        lambda d, n: 3e-3 + 1.2e-4 * d + 4e-8 * d**3 + 1.5e-8 * n * d,
        "uses statistics: the number of rows hardly matters",
    ),
    Cost(
        "notears",
        lambda d, n: 20 * _DOUBLE * d * d,
        lambda d, n: 4e-3 + 7e-4 * d + 5.6e-6 * d**2.9 + 1.5e-8 * n * d,
        "linear model, default penalty path; stability selection takes about five times as long",
    ),
    Cost(
        "ges",
        lambda d, n: 2.5e5 * d + 6 * _DOUBLE * d * d,
        lambda d, n: 4e-3 + (1.2e-3 + 1.5e-5 * n**0.5) * d + 2e-7 * d**2,
        "continuous data, sparse result (2 edges per column); dense results and discrete data take longer",
    ),
    Cost(
        "boss",
        lambda d, n: (3.2e5 + 50 * min(n, 1e4)) * d + 12 * _DOUBLE * d * d,
        lambda d, n: 1e-2 + (2.5e-3 + 3e-7 * n) * d + 8e-7 * d**2,
        "continuous data, sparse result; discrete data take much longer",
    ),
    Cost(
        "pc",
        lambda d, n: 6 * _DOUBLE * d * d,
        lambda d, n: 3e-3 + 1.6e-4 * d + 2e-7 * d**2 + 1.5e-8 * n * d,
        "continuous data, sparse result; grows exponentially with the number of neighbours",
    ),
    Cost(
        "posterior",
        lambda d, n: 24 * 2.0**d,
        lambda d, n: 6e-3 + 1.9e-8 * d * 2.0**d + 1.5e-8 * n * d,
        "continuous data, summed exactly; beyond 25 columns, Markov chains run until they agree",
        most_columns=25,
    ),
    Cost(
        "tasks",
        lambda d, n: 24 * 2.0**d,
        lambda d, n: 1.2e-2 + 3.3e-6 * d * 2.0**d + 6e-8 * n * d,
        "two halves of the rows as tasks, continuous data, summed exactly",
        most_columns=15,
    ),
    Cost(
        "parties",
        lambda d, n: (3.2e5 + 50 * min(n, 1e4)) * d + 12 * _DOUBLE * d * d,
        lambda d, n: 2e-2 + (2.8e-3 + 3e-7 * n) * d + 8e-7 * d**2,
        "boss on masked sums of three parties, without network delays",
    ),
    Cost(
        "linked rows",
        lambda d, n: 1.7e7 + 2.5e4 * n,
        lambda d, n: 3e-2 + 3e-3 * d + 6e-5 * n**1.5,
        "boss on rows in groups of ten, including the choice of the structure",
    ),
)


def estimates(d: int, n: float, *, labels: bool = False) -> tuple[Estimate, ...]:
    """The predicted cost of every method for `d` columns and `n` rows; `labels` where all hold labels."""
    known = [cost for cost in COSTS if d <= cost.most_columns]
    if labels:
        counts = {"ges", "boss"}
        known = [
            cost._replace(seconds=_counting, note=_LABELS) if cost.name in counts else cost for cost in known
        ]
    return tuple(Estimate(cost.name, cost.memory(d, n), cost.seconds(d, n), cost.note) for cost in known)


def _counting(d: int, n: float) -> float:
    """A search that counts rows; fitted to 25 to 100 columns and 1,000 to 20,000 rows."""
    return 0.05 + 3.2e-8 * d**2 * n
