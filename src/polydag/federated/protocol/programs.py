"""What a method consists of: a program that asks and receives sums, and a party's side that answers.

Neither sees a message or the numbers of another party, so sums can be formed in another way (masked, noisy)
without changing any method. State is a flat mapping of named arrays, which can be saved as it is; everything
else in these objects is fixed before the first round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from polydag.federated.protocol.messages import AnyArray, Arrays

State = Mapping[str, AnyArray]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Ask:
    """A question to the sites.

    Attributes
    ----------
    task : str
        What a site is to compute.
    arrays, meta : mappings
        What it needs for that.
    sites : tuple of str, optional
        The sites that are asked; all sites by default.
    returns : mapping of name to shape
        The arrays in every answer; the coordinator refuses any other answer.
    """

    task: str
    arrays: Arrays = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    sites: tuple[str, ...] | None = None
    returns: Shapes = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Answer:
    """The end of a program; the arrays are sent to all sites."""

    arrays: Arrays


class Total(NamedTuple):
    """The sum of the sites' answers, and how many there were."""

    arrays: Arrays
    n_sites: int


class Program(Protocol):
    """The coordinator's side of a method."""

    @property
    def tolerates_absence(self) -> bool:
        """Whether a round may end without some of the sites."""
        ...

    def begin(self) -> tuple[State, Ask]:
        """The first question."""
        ...

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The next question, given the sum of the answers to the last."""
        ...


def majority_columns(each: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The columns of a study: those that most sites have, in their order; the first of equals.

    Examples
    --------
    >>> majority_columns([("a", "c"), ("a", "b"), ("a", "b")])
    ('a', 'b')
    """
    return Counter(each).most_common(1)[0][0]


class Local(Protocol):
    """A party's side of a method, which holds the party's data.

    One that adds noise to its answers also has `noise(ask) -> Noise`, which says how much it will add.
    """

    @property
    def n_rows(self) -> float:
        """The number of rows."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        ...

    @property
    def data(self) -> Any:
        """The data, as far as it was kept: rows or statistics."""
        ...

    def fingerprint(self) -> bytes:
        """A hash of the data, so that stored rounds are not taken for those of other data."""
        ...

    def objection(self, state: State, ask: Ask) -> str | None:
        """Why a question cannot be answered as it arrived: something is missing, or not a number.

        Raises `DataError` where the party does not take part.
        """
        ...

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The party's contribution to the sum, for a question to which there is no objection."""
        ...

    def notes(self, state: State, arrays: Arrays) -> list[str]:
        """What the owner should know, given what the coordinator has sent."""
        ...
