"""What left a site: one entry an array."""

from __future__ import annotations

from typing import NamedTuple

from polydag.federated.messages import COORDINATOR, Message


class Disclosed(NamedTuple):
    """An array that left a site, and in which round; `masked` where only a sum with others can be read."""

    site: str
    round: int
    name: str
    shape: str
    bytes: int
    masked: bool


def entries(message: Message, *, masked: bool = False) -> list[Disclosed]:
    """The entries of a message that leaves a site for the coordinator."""
    if message.recipient != COORDINATOR:
        return []
    return [
        Disclosed(
            message.sender, message.round, name, "×".join(map(str, array.shape)) or "1", array.nbytes, masked
        )
        for name, array in message.arrays.items()
    ]
