"""What the sites of a study agree on before anything is summed, and who masks with whom.

With `recover`, a sum can be completed without sites that drop out in mid-round: every two sites share masks,
and secrets are shared out so that `threshold` sites can open a round. Without it, no sum but that over all
members can ever be opened, by anyone: nothing is shared out, and it is enough that every site has masks in
common with `neighbours` others. Their graph (a ring, each with the nearest on both sides; Harary 1962) stays
connected without any `neighbours − 1` sites, so as many may collude with the coordinator and still see no
more than the sum over all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from polydag.errors import DataError, UsageError
from polydag.privacy.streams import canonical

LEAST = 3  # with two sites in a sum, each knows the other's part
_ALL_UP_TO, _NEIGHBOURS = 12, 4
BLOCK = 32  # rounds for which secrets are shared out at once


@dataclass(frozen=True)
class Terms:
    """One study's terms, the same at every site.

    Attributes
    ----------
    study : str
        A name that no other study has.
    members : tuple of str
        The sites, in a fixed order.
    threshold : int
        How many sites can open a round together; one fewer may collude without learning anything.
    neighbours : int
        With how many others a site has masks in common, where no drop-outs are recovered; even, or all.
    recover : bool
        Whether sums can be completed without sites that dropped out.
    """

    study: str
    members: tuple[str, ...]
    threshold: int
    neighbours: int
    recover: bool

    @classmethod
    def usual(
        cls,
        study: str,
        members: tuple[str, ...],
        *,
        recover: bool,
        threshold: int | None = None,
        neighbours: int | None = None,
    ) -> Self:
        """The default terms: two thirds open a round; masks with all up to a dozen sites, then with some."""
        n = len(members)
        if neighbours is None:
            neighbours = n - 1 if recover or n <= _ALL_UP_TO else _NEIGHBOURS
        return cls(study, members, 2 * n // 3 + 1 if threshold is None else threshold, neighbours, recover)

    def require_sound(self, least: int = LEAST) -> None:
        """Raise what is wrong with the terms, as a site sees it."""
        n = len(self.members)
        if n < least:
            raise UsageError(
                f"Masked sums need at least {least} sites, and there are {n}: of a sum over two, each knows "
                "the other's part. Take more sites, or say privacy='none' (--set privacy=none) to add up in "
                "the open."
            )
        if not n < 2 * self.threshold <= 2 * n:
            raise UsageError(
                f"The threshold must be more than half of the {n} sites, at most {n}; got {self.threshold}."
            )
        if self.neighbours != n - 1 and (self.recover or not 2 <= self.neighbours < n or self.neighbours % 2):
            raise UsageError(
                f"neighbours must be even and below {n}, or {n - 1} for all (as it is where sites may drop "
                f"out); got {self.neighbours}."
            )

    @property
    def colluding(self) -> int:
        """How many sites may tell the coordinator all they know, without harm to the others."""
        if self.recover:
            return self.threshold - 1
        everyone = self.neighbours == len(self.members) - 1
        return len(self.members) - 2 if everyone else self.neighbours - 1

    def as_words(self) -> dict[str, Any]:
        """The terms as JSON knows them."""
        return {
            "study": self.study,
            "members": list(self.members),
            "threshold": self.threshold,
            "neighbours": self.neighbours,
            "recover": self.recover,
        }

    @classmethod
    def from_words(cls, words: Mapping[str, Any]) -> Self:
        """The terms of a message."""
        try:
            return cls(
                str(words["study"]),
                tuple(map(str, words["members"])),
                int(words["threshold"]),
                int(words["neighbours"]),
                bool(words["recover"]),
            )
        except (KeyError, TypeError, ValueError):
            raise DataError("The coordinator's terms cannot be read.") from None

    def partners(self, name: str, roster: str) -> tuple[str, ...]:
        """With whom a site has masks in common; the ring's order follows from everyone's keys."""
        if self.neighbours == len(self.members) - 1:
            return tuple(member for member in self.members if member != name)
        ring = _ring(self.members, roster)
        place, n = ring.index(name), len(ring)
        steps = [step for k in range(1, self.neighbours // 2 + 1) for step in (k, -k)]
        near = {ring[(place + step) % n] for step in steps}
        return tuple(member for member in self.members if member in near)


@lru_cache(maxsize=8)
def _ring(members: tuple[str, ...], roster: str) -> list[str]:
    return sorted(members, key=lambda each: hashlib.sha256(canonical(roster, each)).digest())
