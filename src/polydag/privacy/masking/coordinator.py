"""The coordinator's side of masked sums: it adds up what it cannot read, then removes the masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydag.privacy.masking import shamir
from polydag.privacy.masking.agreement import BLOCK, Agreement
from polydag.privacy.masking.keystreams import xor_keystream
from polydag.privacy.masking.masks import apply_mask
from polydag.privacy.masking.ring import Words, add_into


def add_masked(contributions: Sequence[Mapping[str, Words]]) -> dict[str, Words]:
    """The sum of several sites' arrays in the ring."""
    result = {name: array.copy() for name, array in contributions[0].items()}
    for arrays in contributions[1:]:
        for name, array in arrays.items():
            add_into(result[name], array)
    return result


def unmask(
    total: Sequence[Words],
    agreement: Agreement,
    round_: int,
    over: Sequence[str],
    sites: Sequence[str],
    shares: Mapping[str, NDArray[np.uint32]],
    locked: Mapping[str, NDArray[np.uint8]],
) -> None:
    """Turn the masked sum over `sites` into a plain one, in place.

    Parameters
    ----------
    over, sites
        The sites that were asked, and those among them whose numbers are in the sum.
    shares : mapping of site to array
        What the sites handed over, with one row for each of `over`.
    locked : mapping of site to array
        Every site's encrypted seeds of the block.

    Notes
    -----
    The self-masks of the sites in the sum are removed, and the masks that they share with sites that are not.
    """
    helpers = [site for site in agreement.all_sites if site in shares][: agreement.quorum]
    secrets = shamir.combine(
        [agreement.all_sites.index(site) + 1 for site in helpers],
        np.array([shares[site] for site in helpers], dtype=np.uint32),
    )
    included = set(sites)
    for row, site in enumerate(over):
        secret = secrets[row].astype("<u2").tobytes()
        if site in included:
            apply_mask(total, secret, subtract=True)
        else:
            _cancel(total, secret, agreement, round_, site, included, locked[site])


def _cancel(
    total: Sequence[Words],
    key: bytes,
    agreement: Agreement,
    round_: int,
    gone: str,
    included: set[str],
    locked: NDArray[Any],
) -> None:
    """Remove the masks between a site that dropped out and those in the sum."""
    all_sites = agreement.all_sites
    seeds = xor_keystream(key, locked[(round_ - 1) % BLOCK]).reshape(len(all_sites) - 1, -1)
    others = [site for site in all_sites if site != gone]
    place = all_sites.index(gone)
    for other, seed in zip(others, seeds, strict=True):
        if other in included:  # of two sites the first one adds their mask, the other one subtracts it
            apply_mask(total, seed.tobytes(), subtract=all_sites.index(other) < place)
