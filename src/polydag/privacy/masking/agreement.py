"""What the sites of a study agree on before anything is summed, and which sites share masks.

Up to `quorum − 1` sites may collude with the coordinator. With `recover`, a sum can be completed without
sites that drop out during a round: every two sites share masks, and secrets are distributed so that `quorum`
sites can open a round. Without it, only the sum over all sites can ever be opened, by anyone. Then no
secrets are distributed, and it suffices that the graph of shared masks stays connected when any `quorum − 1`
sites are removed. The smallest such graph is a ring in which each site is joined to its nearest neighbours on
both sides (Harary 1962).

The agreement enters every mask. Sites that were shown different agreements (other sites, groups or keys)
derive masks that do not cancel, and nothing can be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from polydag.errors import DataError, UsageError
from polydag.privacy.differencing import MIN_SITES, group_problem
from polydag.privacy.differencing import groups as default_groups
from polydag.privacy.masking.keystreams import canonical

BLOCK = 32  # rounds for which secrets are distributed at once


@dataclass(frozen=True)
class Agreement:
    """The agreement of one study, the same at every site.

    Attributes
    ----------
    study : str
        A name that no other study has.
    all_sites : tuple of str
        The sites, in a fixed order.
    quorum : int
        One more than the number of sites that may collude without learning anything; with `recover`, this
        many sites can open a round.
    recover : bool
        Whether sums can be completed without sites that dropped out.
    groups : tuple of tuples of str
        The sites in groups. Sums are over unions of groups, and a site never changes its group.
    parts : mapping of label to tuple of str
        Which sites hold rows of each part of the data (a set of intervened variables); sums are per part.
    """

    study: str
    all_sites: tuple[str, ...]
    quorum: int
    recover: bool
    groups: tuple[tuple[str, ...], ...]
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def default(
        cls,
        study: str,
        all_sites: tuple[str, ...],
        *,
        recover: bool,
        quorum: int | None = None,
        groups: Sequence[Sequence[str]] | None = None,
        parts: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Self:
        """The default agreement: two thirds of the sites may collude; groups are of three to five sites."""
        quorum = 2 * len(all_sites) // 3 + 1 if quorum is None else quorum
        fixed = default_groups(all_sites) if groups is None else tuple(map(tuple, groups))
        return cls(study, all_sites, quorum, recover, fixed, parts or {"": all_sites})

    def check(self, min_sites: int = MIN_SITES) -> None:
        """Raise a `UsageError` if the agreement would not protect a site."""
        n = len(self.all_sites)
        if n < min_sites:
            raise UsageError(
                f"Masked sums need at least {min_sites} sites, and there are {n}: in a sum over two, each "
                "can compute the other's contribution. Add parties, or use Privacy(mode='none') (--set "
                "privacy=none) to add up without masks."
            )
        if self.recover and not n < 2 * self.quorum <= 2 * n:
            raise UsageError(
                f"Where sites may drop out, the quorum must be more than half of the {n} sites and at most "
                f"{n}; got {self.quorum}."
            )
        if not 2 <= self.quorum <= n:
            raise UsageError(f"The quorum must be from 2 to the {n} sites; got {self.quorum}.")
        if why := group_problem(self.all_sites, self.groups, min_sites):
            raise UsageError(why)
        for part, holders in self.parts.items():
            if len(set(holders)) < min_sites or not set(holders) <= set(self.all_sites):
                raise UsageError(
                    f"Only {' and '.join(holders) or 'nobody'} {'have' if len(holders) > 1 else 'has'} rows "
                    f"in which {part or 'nothing'} was set: a sum over fewer than {min_sites} sites shows "
                    "what these sites add, masked or not. Leave these rows out, or use Privacy(mode='none') "
                    "(--set privacy=none) to add up without masks."
                )

    @property
    def colluding(self) -> int:
        """How many sites may tell the coordinator all they know without harming the others."""
        return min(self.quorum - 1, len(self.all_sites) - 2)  # all but one can compute the last one's part

    def to_json(self) -> dict[str, Any]:
        """The agreement as JSON."""
        return {
            "study": self.study,
            "all_sites": list(self.all_sites),
            "quorum": self.quorum,
            "recover": self.recover,
            "groups": [list(group) for group in self.groups],
            "parts": {part: list(holders) for part, holders in self.parts.items()},
        }

    @classmethod
    def from_json(cls, words: Mapping[str, Any]) -> Self:
        """The agreement in a message."""
        try:
            found = cls(
                str(words["study"]),
                tuple(map(str, words["all_sites"])),
                int(words["quorum"]),
                bool(words["recover"]),
                tuple(tuple(map(str, group)) for group in words["groups"]),
                {str(part): tuple(map(str, own)) for part, own in words["parts"].items()},
            )
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            raise DataError("The coordinator's agreement cannot be read.") from None
        if found.to_json() != words:
            raise DataError("The coordinator's agreement holds more, or something else, than it should.")
        return found

    def partners(self, name: str, roster: str) -> tuple[str, ...]:
        """The sites with which a site shares masks; the order of the ring follows from everyone's keys."""
        n, reach = len(self.all_sites), (self.quorum + 1) // 2
        if self.recover or 2 * reach >= n - 1:
            return tuple(site for site in self.all_sites if site != name)
        ring = _ring(self.all_sites, roster)
        place = ring.index(name)
        steps = [step for k in range(1, reach + 1) for step in (k, -k)]
        near = {ring[(place + step) % n] for step in steps}
        return tuple(site for site in self.all_sites if site in near)


@lru_cache(maxsize=8)
def _ring(all_sites: tuple[str, ...], roster: str) -> list[str]:
    return sorted(all_sites, key=lambda each: hashlib.sha256(canonical(roster, each)).digest())
