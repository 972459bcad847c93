"""What travels between a site and the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = Mapping[str, Array]

COORDINATOR = "coordinator"
CLOCK = "clock"
ASK, CONTRIBUTION, DECLINED, REFUSED, TIMEOUT = "ask", "contribution", "declined", "refused", "timeout"


@dataclass(frozen=True, eq=False)
class Message:
    """One message; it is never changed after it was made.

    Attributes
    ----------
    sender, recipient : str
        Names of sites, `COORDINATOR` or `CLOCK`.
    round : int
        Which question it belongs to; questions are numbered from 1.
    phase : str
        What it is: a question, a contribution to its sum, a refusal, a time-out.
    arrays : mapping of name to array
        The numbers.
    meta : mapping
        Words and settings that go with them, as JSON knows them; never data.
    """

    sender: str
    recipient: str
    round: int
    phase: str
    arrays: Arrays = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)


def timeout(round_: int) -> Message:
    """The clock's word that a round has taken long enough."""
    return Message(CLOCK, COORDINATOR, round_, TIMEOUT)


def same_arrays(first: Arrays, second: Arrays) -> bool:
    """Whether two sets of named arrays are equal to the last bit."""
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name], equal_nan=first[name].dtype.kind == "f") for name in first
    )
