"""What a method consists of: a program that asks and is told sums, and a local side that answers.

Neither sees a message or a single site's numbers, so the way in which sums are formed can change (masked,
noisy) without a change to any method. State is a flat mapping of named arrays, so that it can be saved as it
is; everything else in these objects is fixed before the first round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from polydag.federated.protocol.messages import Array, Arrays

State = Mapping[str, Array]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Ask:
    """A question to the sites.

    Attributes
    ----------
    task : str
        What a site is to compute.
    arrays, meta : mappings
        What it needs to know for that.
    sites : tuple of str, optional
        Whom it goes to; all members by default.
    returns : mapping of name to shape
        The arrays that every answer consists of; another one is refused.
    """

    task: str
    arrays: Arrays = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    sites: tuple[str, ...] | None = None
    returns: Shapes = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Answer:
    """The end of a program; the arrays are told to all sites."""

    arrays: Arrays


class Total(NamedTuple):
    """The sum of what sites answered, and how many there were."""

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


def columns_of_most(each: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The columns of a study: those that most sites have, in their order; the first of equals.

    Examples
    --------
    >>> columns_of_most([("a", "c"), ("a", "b"), ("a", "b")])
    ('a', 'b')
    """
    return Counter(each).most_common(1)[0][0]


class Local(Protocol):
    """A site's side of a method: it holds the site's data.

    One that adds noise to what it answers also has `noise(ask) -> Noise`, which says what it will add.
    """

    @property
    def n_rows(self) -> float:
        """How many rows there are."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        ...

    @property
    def data(self) -> Any:
        """What it was made from, as far as it was kept: enough to make it again."""
        ...

    def mark(self) -> bytes:
        """A mark of the data, so that stored rounds are not taken for those of other data."""
        ...

    def objection(self, state: State, ask: Ask) -> str | None:
        """Why a question cannot be answered as it came: something is missing, or not a number.

        Raises `DataError` where the site does not take part.
        """
        ...

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """What the site adds to the sum, for a question to which there is no objection."""
        ...

    def told(self, state: State, arrays: Arrays) -> list[str]:
        """What the owner should know, given what came back from the coordinator."""
        ...
