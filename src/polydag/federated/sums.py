"""The only place where sites' numbers meet: a sum of named arrays over the sites of a round.

The coordinator takes part in a method through `total` alone. A protocol that hides the terms (masked sums)
replaces the functions of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from polydag.federated.messages import Array, Arrays

Contributions = Mapping[str, Arrays]


def objection(arrays: Arrays, others: Contributions) -> str | None:
    """Why a contribution cannot be added to those of the same round; None where it can."""
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            return f"{name} holds {array.dtype}, not numbers"
        if not np.isfinite(array).all():
            where = ", ".join(map(str, np.argwhere(~np.isfinite(array))[0]))
            return f"{name}[{where}] is {array[~np.isfinite(array)][0]}"
    first = next(iter(others.values()), arrays)
    expected = {name: array.shape for name, array in first.items()}
    found = {name: array.shape for name, array in arrays.items()}
    return None if found == expected else f"it holds {found}, others sent {expected}"


def total(received: Contributions, members: Iterable[str]) -> dict[str, Array]:
    """The sum over the contributing sites, in the order of `members` whatever order messages came in."""
    result: dict[str, Array] = {}
    for site in members:
        for name, array in received.get(site, {}).items():
            if name in result:
                result[name] += array
            else:
                result[name] = array.astype(float)
    return result
