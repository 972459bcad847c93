"""The coordinator's side of masked sums: it adds up what it cannot read, then takes off masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydag.privacy.masking import shamir
from polydag.privacy.masking.agreement import BLOCK, Terms
from polydag.privacy.masking.keystreams import xored
from polydag.privacy.masking.ring import Words, add_into
from polydag.privacy.masking.site import apply


def added(terms: Sequence[Mapping[str, Words]]) -> dict[str, Words]:
    """The sum of several sites' arrays, in the ring."""
    result = {name: array.copy() for name, array in terms[0].items()}
    for arrays in terms[1:]:
        for name, array in arrays.items():
            add_into(result[name], array)
    return result


def unmask(
    total: Sequence[Words],
    terms: Terms,
    round_: int,
    over: Sequence[str],
    sites: Sequence[str],
    shares: Mapping[str, NDArray[np.uint32]],
    locked: Mapping[str, NDArray[np.uint8]],
) -> None:
    """Make the masked sum over `sites` a plain one, in place.

    `shares` holds what sites handed over, a row for each of `over`; `locked` every site's seeds of the block.
    Self-masks of those in the sum are taken off, and masks that they have in common with those who are not.
    """
    helpers = [site for site in terms.members if site in shares][: terms.threshold]
    secrets = shamir.combine(
        [terms.members.index(site) + 1 for site in helpers],
        np.array([shares[site] for site in helpers], dtype=np.uint32),
    )
    included = set(sites)
    for row, site in enumerate(over):
        secret = secrets[row].astype("<u2").tobytes()
        if site in included:
            apply(total, secret, subtract=True)
        else:
            _cancel(total, secret, terms, round_, site, included, locked[site])


def _cancel(
    total: Sequence[Words],
    key: bytes,
    terms: Terms,
    round_: int,
    gone: str,
    included: set[str],
    locked: NDArray[Any],
) -> None:
    """Take off the masks between a site that dropped out and those in the sum."""
    seeds = xored(key, locked[(round_ - 1) % BLOCK]).reshape(len(terms.members) - 1, -1)
    others = [site for site in terms.members if site != gone]
    place = terms.members.index(gone)
    for other, seed in zip(others, seeds, strict=True):
        if other in included:  # the one that stayed has subtracted it where the other stands before it
            apply(total, seed.tobytes(), subtract=terms.members.index(other) < place)
