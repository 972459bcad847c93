"""What left the sites: the ledger entries of a message, and the ledgers of all sites as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from polydag.federated.protocol.messages import AnyArray, Message
from polydag.privacy.ledger import DATA, PROTOCOL, SUM, Entry, parse


class Disclosed(NamedTuple):
    """An array that left a site, and in which round.

    It is `masked` if only its sum with others can be read; `noise` is the standard deviation of the noise
    that the site added to it.
    """

    site: str
    round: int
    name: str
    shape: str
    bytes: int
    masked: bool
    noise: float


class Noise(NamedTuple):
    """Noise in a contribution: its standard deviation at this site, and the multiplier of the whole sum."""

    deviation: float = 0.0
    multiplier: float = 0.0


def data_entries(study: str, message: Message, *, masked: bool, over: int, noise: Noise) -> list[Entry]:
    """The entries for numbers computed from rows."""
    return [
        Entry(study, message.round, DATA, name, _shape(array), array.nbytes, masked, over, *noise, "")
        for name, array in message.arrays.items()
    ]


def protocol_entries(study: str, message: Message, phase: str) -> list[Entry]:
    """The entries for keys and shares, which say nothing about rows."""
    return [
        Entry(
            study,
            message.round,
            PROTOCOL,
            f"{phase}: {name}",
            _shape(array),
            array.nbytes,
            True,
            0,
            *Noise(),
            "",
        )
        for name, array in message.arrays.items()
    ]


def _shape(array: AnyArray) -> str:
    return "×".join(map(str, array.shape)) or "1"


def table(ledgers: Mapping[str, Sequence[str]]) -> tuple[Disclosed, ...]:
    """The ledgers of all sites as one table, ordered by round and then by site."""
    rows = [
        Disclosed(site, entry.round, entry.name, entry.shape, entry.bytes, entry.masked, entry.noise)
        for site, lines in ledgers.items()
        for entry in parse(lines)
        if entry.kind != SUM
    ]
    return tuple(sorted(rows, key=lambda row: row.round))
