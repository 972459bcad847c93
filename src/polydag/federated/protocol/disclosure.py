"""What left the sites: the ledger entries of a message, and the ledgers of all sites as one table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from polydag.federated.protocol.equations import entry_name
from polydag.federated.protocol.messages import ASK, AnyArray, Arrays, Message
from polydag.federated.protocol.sums import PADS
from polydag.privacy.ledger import DATA, LEFT, PROTOCOL, REFUSED, Entry, parse

_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")


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


def answer_entries(
    study: str, message: Message, phase: str, known: Arrays, *, over: int, noise: Noise
) -> list[Entry]:
    """The entries for an answer to a question of this phase: numbers computed from rows, keys and shares.

    `known` are the arrays with which it was answered, of this question and of earlier ones.
    """
    entries = []
    for name, array in message.arrays.items():
        size = (_shape(array), array.nbytes)
        if phase == ASK and name != PADS:
            said = entry_name(name, known)
            entries.append(Entry(study, message.round, DATA, said, *size, bool(study), over, *noise))
        else:
            entries.append(Entry(study, message.round, PROTOCOL, f"{phase}: {name}", *size))
    return entries


def refusal_entry(study: str, round_: int, why: str, multiplier: float) -> Entry:
    """The entry for a question that was refused, with the noise multiplier at which it is charged.

    Numbers in the reason may be those of the data: they stay in the site's state, for its owner.
    """
    return Entry(study, round_, REFUSED, _NUMBER.sub("#", why), multiplier=multiplier)


def _shape(array: AnyArray) -> str:
    return "×".join(map(str, array.shape)) or "1"


def table(ledgers: Mapping[str, Sequence[str]]) -> tuple[Disclosed, ...]:
    """The ledgers of all sites as one table, ordered by round and then by site."""
    rows = [
        Disclosed(site, entry.round, entry.name, entry.shape, entry.bytes, entry.masked, entry.noise)
        for site, lines in ledgers.items()
        for entry in parse(lines)
        if entry.kind in LEFT
    ]
    return tuple(sorted(rows, key=lambda row: row.round))
