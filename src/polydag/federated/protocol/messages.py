"""Messages between the sites and the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]
Arrays = Mapping[str, AnyArray]

COORDINATOR = "coordinator"
CLOCK = "clock"
ASK, CONTRIBUTION, DECLINED, REFUSED, TIMEOUT = "ask", "contribution", "declined", "refused", "timeout"
ANSWER = "answer"
# Further phases of a masked sum; a reply has the name of its question.
JOIN, ROSTER, DEAL, PARCELS, AGREE, OPEN = "join", "roster", "deal", "parcels", "agree", "open"
ORDER = (JOIN, ROSTER, DEAL, PARCELS, ASK, AGREE, OPEN, ANSWER)


@dataclass(frozen=True, eq=False)
class Message:
    """One message, which is never changed once it exists.

    Attributes
    ----------
    sender, recipient : str
        Names of sites, `COORDINATOR` or `CLOCK`.
    round : int
        The number of the question it belongs to, from 1.
    phase : str
        What it is: a question, a contribution to the sum, a refusal, a time-out.
    arrays : mapping of name to array
        The numbers.
    meta : mapping
        Words and settings that accompany them, as in JSON; never data.
    """

    sender: str
    recipient: str
    round: int
    phase: str
    arrays: Arrays = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)


def reply_to(phase: str) -> str:
    """The phase of the reply to a question."""
    return CONTRIBUTION if phase == ASK else phase


def position(round_: int, phase: str) -> int:
    """The position of a question in a study: a later one has a higher number."""
    return len(ORDER) * round_ + ORDER.index(phase)


def timeout(round_: int) -> Message:
    """The clock's message that a round has taken long enough."""
    return Message(CLOCK, COORDINATOR, round_, TIMEOUT)


def same_arrays(first: Arrays, second: Arrays) -> bool:
    """Whether two sets of named arrays are equal to the last bit."""
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name], equal_nan=first[name].dtype.kind == "f") for name in first
    )
