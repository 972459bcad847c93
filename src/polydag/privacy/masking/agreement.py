"""What the sites of a study agree on before anything is summed, and who masks with whom.

Up to `threshold − 1` sites may collude with the coordinator. With `recover`, a sum can be completed without
sites that drop out in mid-round: every two sites share masks, and secrets are shared out so that `threshold`
sites can open a round. Without it, no sum but that over all members can ever be opened, by anyone: nothing is
shared out, and it is enough that the graph of who has masks in common with whom stays connected without any
`threshold − 1` sites. The least such graph is a ring, each with the nearest on both sides (Harary 1962).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from polydag.errors import DataError, UsageError
from polydag.privacy.masking.keystreams import canonical

LEAST = 3  # with two sites in a sum, each knows the other's part
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
        One more than may collude without learning anything; with `recover`, as many can open a round.
    recover : bool
        Whether sums can be completed without sites that dropped out.
    """

    study: str
    members: tuple[str, ...]
    threshold: int
    recover: bool

    @classmethod
    def usual(
        cls, study: str, members: tuple[str, ...], *, recover: bool, threshold: int | None = None
    ) -> Self:
        """The default terms: two thirds of the sites may collude."""
        return cls(study, members, 2 * len(members) // 3 + 1 if threshold is None else threshold, recover)

    def require_sound(self, least: int = LEAST) -> None:
        """Raise what is wrong with the terms, as a site sees it."""
        n = len(self.members)
        if n < least:
            raise UsageError(
                f"Masked sums need at least {least} sites, and there are {n}: of a sum over two, each knows "
                "the other's part. Take more sites, or say privacy='none' (--set privacy=none) to add up in "
                "the open."
            )
        if self.recover and not n < 2 * self.threshold <= 2 * n:
            raise UsageError(
                f"Where sites may drop out, the threshold must be more than half of the {n} sites, at most "
                f"{n}; got {self.threshold}."
            )
        if not 2 <= self.threshold <= n:
            raise UsageError(f"The threshold must be from 2 to the {n} sites; got {self.threshold}.")

    @property
    def colluding(self) -> int:
        """How many sites may tell the coordinator all they know, without harm to the others."""
        return min(self.threshold - 1, len(self.members) - 2)  # all but one know the last one's part

    def as_words(self) -> dict[str, Any]:
        """The terms as JSON knows them."""
        return {
            "study": self.study,
            "members": list(self.members),
            "threshold": self.threshold,
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
                bool(words["recover"]),
            )
        except (KeyError, TypeError, ValueError):
            raise DataError("The coordinator's terms cannot be read.") from None

    def partners(self, name: str, roster: str) -> tuple[str, ...]:
        """With whom a site has masks in common; the ring's order follows from everyone's keys."""
        n, reach = len(self.members), (self.threshold + 1) // 2
        if self.recover or 2 * reach >= n - 1:
            return tuple(member for member in self.members if member != name)
        ring = _ring(self.members, roster)
        place = ring.index(name)
        steps = [step for k in range(1, reach + 1) for step in (k, -k)]
        near = {ring[(place + step) % n] for step in steps}
        return tuple(member for member in self.members if member in near)


@lru_cache(maxsize=8)
def _ring(members: tuple[str, ...], roster: str) -> list[str]:
    return sorted(members, key=lambda each: hashlib.sha256(canonical(roster, each)).digest())
