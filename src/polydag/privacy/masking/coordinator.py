"""The coordinator's side of masked sums: it adds up what it cannot read, then removes the masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.privacy.masking import shamir
from polydag.privacy.masking.agreement import BLOCK, Agreement
from polydag.privacy.masking.keystreams import bound_key, xor_keystream
from polydag.privacy.masking.masks import apply_mask
from polydag.privacy.masking.ring import Words, add_into
from polydag.privacy.masking.site import check_value

Shares = Mapping[str, NDArray[np.uint32]]


def add_masked(contributions: Sequence[Mapping[str, Words]]) -> dict[str, Words]:
    """The sum of several sites' arrays in the ring."""
    result = {name: array.copy() for name, array in contributions[0].items()}
    for arrays in contributions[1:]:
        for name, array in arrays.items():
            add_into(result[name], array)
    return result


@dataclass(frozen=True, eq=False)
class MaskedRound:
    """All that the coordinator has received of a masked round, from which it can remove the masks.

    Attributes
    ----------
    agreement : Agreement
        That of the study.
    round : int
        The round.
    question : bytes
        The hash of its question.
    over, sites : sequences of str
        The sites that were asked, and those among them whose numbers are in the sum.
    shares : mapping of site to array
        What the sites handed over, with one row for each of `over`.
    pads : mapping of site to array
        What came with the numbers of each site in the sum, to decrypt the others' shares of its secret.
    locked, checks : mappings of site to array
        Every site's encrypted seeds of the block, and the hashes of its secrets.
    """

    agreement: Agreement
    round: int
    question: bytes
    over: Sequence[str]
    sites: Sequence[str]
    shares: Shares
    pads: Mapping[str, NDArray[np.uint8]]
    locked: Mapping[str, NDArray[np.uint8]]
    checks: Mapping[str, NDArray[np.uint8]]

    def unmask(self, total: Sequence[Words]) -> list[str]:
        """Turn the masked sum into a plain one, in place; returns the sites whose shares were wrong.

        The self-masks of the sites in the sum are removed, and the masks that they share with sites that are
        not.
        """
        secrets, wrong = self._secrets()
        included = set(self.sites)
        for site, secret in zip(self.over, secrets, strict=True):
            if site in included:
                apply_mask(total, secret, subtract=True)
            else:
                self._cancel(total, secret, site, included)
        return wrong

    def _secrets(self) -> tuple[list[bytes], list[str]]:
        """The secrets of all sites that were asked; a share that does not fit the others is left out."""
        helpers = [site for site in self.agreement.all_sites if site in self.shares]
        quorum = self.agreement.quorum
        plain = {site: self._decrypted(site) for site in helpers[:quorum]}
        if (found := self._combined(plain, helpers[:quorum])) is not None:
            return found, []
        plain |= {site: self._decrypted(site) for site in helpers[quorum:]}
        for suspect in helpers:
            others = [site for site in helpers if site != suspect]
            if len(others) >= quorum and (found := self._combined(plain, others[:quorum])) is not None:
                return found, [suspect]
        raise DataError(
            f"The shares of round {self.round} do not fit together, whichever single one is left out: "
            f"several of {', '.join(helpers)} sent wrong ones, or there are too few to tell whose is wrong."
        )

    @cached_property
    def _padded(self) -> set[str]:
        """The sites in the sum, whose pads have come with their numbers."""
        return set(self.pads) & set(self.sites)

    def _decrypted(self, helper: str) -> NDArray[np.uint32]:
        shares = self.shares[helper].astype(np.uint32)
        places = {site: place for place, site in enumerate(self.agreement.all_sites)}
        locked = [row for row, site in enumerate(self.over) if site in self._padded and site != helper]
        # A site sends one pad for each other site, in their order.
        pads = [
            self.pads[site][places[helper] - (places[site] < places[helper])]
            for site in (self.over[row] for row in locked)
        ]
        if locked:
            shares[locked] ^= np.array(pads).view("<u4")
        return shares

    def _combined(self, plain: Shares, helpers: Sequence[str]) -> list[bytes] | None:
        """The secrets by these sites' shares; None where they are not those that were distributed."""
        secrets = shamir.combine(
            [self.agreement.all_sites.index(site) + 1 for site in helpers],
            np.array([plain[site] for site in helpers], dtype=np.uint32),
        )
        found = [secret.astype("<u2").tobytes() for secret in secrets]
        step, included = (self.round - 1) % BLOCK, set(self.sites)
        for site, secret in zip(self.over, found, strict=True):
            kind = 0 if site in included else 1
            if check_value(secret) != self.checks[site][kind, step].tobytes():
                return None
        return found

    def _cancel(self, total: Sequence[Words], key: bytes, gone: str, included: set[str]) -> None:
        """Remove the masks between a site that dropped out and those in the sum."""
        all_sites = self.agreement.all_sites
        locked: NDArray[Any] = self.locked[gone][(self.round - 1) % BLOCK]
        seeds = xor_keystream(key, locked).reshape(len(all_sites) - 1, -1)
        others = [site for site in all_sites if site != gone]
        place = all_sites.index(gone)
        for other, seed in zip(others, seeds, strict=True):
            if other in included:  # of two sites the first one adds their mask, the other one subtracts it
                bound = bound_key(seed.tobytes(), self.question)
                apply_mask(total, bound, subtract=all_sites.index(other) < place)
