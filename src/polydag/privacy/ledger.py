"""The disclosure ledger: every array that left a site, kept at that site, each entry sealed by a hash.

An entry's hash is that of the entry before it and of what it says, so an entry that was changed, left out or
put in afterwards breaks the chain from there on. Whoever kept the last hash elsewhere also notices an end
that was cut off.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from polydag.errors import DataError

START = "0" * 64
FILE = "ledger.jsonl"
DATA, HELP, SUM = "data", "protocol", "sum"


class Entry(NamedTuple):
    """One array that left the site.

    `kind` is "data" for numbers made from rows, "protocol" for keys and shares, which say nothing about
    them, and "sum" for a set of sites (`name`) over which a sum was allowed for the first time. `noise` is
    the standard deviation of what the site itself added; `multiplier` is the whole sum's noise in units of
    the largest effect of one row, for the account of differential privacy; 0 where there is none.
    """

    study: str
    round: int
    kind: str
    name: str
    shape: str
    bytes: int
    masked: bool
    over: int
    noise: float
    multiplier: float
    hash: str


def add(lines: Sequence[str], entries: Iterable[Entry], last: str = START) -> tuple[str, ...]:
    """Lines of a ledger with entries put at their end; `last` is the hash that an empty one goes on from."""
    if lines:
        last = lines[-1][-66:-2]
    sealed = []
    for entry in entries:
        text = _text(entry)
        last = _digest(last, text)
        sealed.append(f'{text[:-1]}, "hash": "{last}"}}')
    return (*lines, *sealed)


def _text(entry: Entry) -> str:
    """What an entry says, without its hash."""
    return json.dumps(dict(zip(entry._fields[:-1], entry, strict=False)))


def _digest(before: str, text: str) -> str:
    return hashlib.sha256((before + text).encode()).hexdigest()


def parse(lines: Iterable[str]) -> tuple[Entry, ...]:
    """The entries of lines."""
    return tuple(Entry(**json.loads(line)) for line in lines)


def broken(chain: Sequence[Entry]) -> int | None:
    """The place of the first entry that does not fit the chain; None where all do."""
    last = START
    for number, entry in enumerate(chain):
        if _digest(last, _text(entry)) != entry.hash:
            return number
        last = entry.hash
    return None


def sets_of(chain: Iterable[Entry]) -> tuple[tuple[str, ...], ...]:
    """The sets of sites over which sums were allowed."""
    return tuple(tuple(json.loads(entry.name)) for entry in chain if entry.kind == SUM)


def multipliers(chain: Iterable[Entry]) -> dict[float, int]:
    """How often numbers left under noise, by its multiplier; arrays of one message count once."""
    found: dict[float, int] = {}
    seen = set()
    for entry in chain:
        key = (entry.study, entry.round)
        if entry.multiplier > 0 and key not in seen:
            seen.add(key)
            found[entry.multiplier] = found.get(entry.multiplier, 0) + 1
    return found


def place(path: str | os.PathLike[str]) -> Path:
    """A ledger's file: the path itself, or `ledger.jsonl` in a site's folder."""
    target = Path(path)
    return target / FILE if target.is_dir() else target


def read(path: str | os.PathLike[str]) -> tuple[Entry, ...]:
    """The entries of a ledger file, whether or not the chain holds."""
    file = place(path)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise DataError(f"There is no ledger in {path}. A site keeps one as {FILE} in its folder.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read ({error}).") from None
    entries: list[Entry] = []
    for number, line in enumerate(lines, start=1):
        try:
            entries += parse([line])
        except (ValueError, TypeError):
            raise DataError(f"{file}: line {number} is not an entry of a ledger.") from None
    return tuple(entries)


def read_whole(path: str | os.PathLike[str]) -> tuple[Entry, ...]:
    """The entries of a ledger whose chain holds; nothing where there is none yet."""
    file = place(path)
    if not file.exists():
        return ()
    chain = read(file)
    if (number := broken(chain)) is not None:
        raise DataError(
            f"{file}: entry {number + 1} does not fit the one before it; the ledger was changed. "
            f"`polydag ledger {file}` shows it."
        )
    return chain


def write(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Put lines at the end of a ledger's file, for its owner's eyes only."""
    file = Path(path)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as target:
            target.writelines(f"{line}\n" for line in lines)
            target.flush()
            os.fsync(target.fileno())
    except OSError as error:
        raise DataError(f"{file} cannot be written: {error.strerror or error}.") from error


def summary(chain: Sequence[Entry]) -> list[dict[str, Any]]:
    """What left, by study and name: how often, how much, and how it was protected."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in chain:
        if entry.kind == SUM:
            continue
        key = (entry.study, entry.kind, entry.name, entry.shape, entry.masked, entry.multiplier > 0)
        row = found.setdefault(
            key,
            {
                "study": entry.study, "kind": entry.kind, "name": entry.name, "shape": entry.shape,
                "masked": entry.masked, "noisy": entry.multiplier > 0, "times": 0, "bytes": 0,
                "least_sites": entry.over,
            },
        )  # fmt: skip
        row["times"] += 1
        row["bytes"] += entry.bytes
        row["least_sites"] = min(row["least_sites"], entry.over)
    return list(found.values())


def told(chain: Sequence[Entry], delta: float) -> list[str]:
    """What left, in words for the owner; the privacy spent is told at this delta."""
    data = [entry for entry in chain if entry.kind == DATA]
    studies = list(dict.fromkeys(entry.study for entry in chain))
    if not chain:
        return ["Nothing has left this site."]
    sentences = [f"{len(studies)} {'study' if len(studies) == 1 else 'studies'}, {len(chain)} entries."]
    open_ = [entry for entry in data if not entry.masked]
    hidden = [entry for entry in data if entry.masked]
    if open_:
        sentences.append(
            f"IN THE OPEN: {len(open_)} arrays ({_size(open_)}) of numbers made from this site's rows could "
            "be read by whoever added up."
        )
    if hidden:
        least = min(entry.over for entry in hidden)
        sentences.append(
            f"Under masks: {len(hidden)} arrays ({_size(hidden)}); what could be read of them were sums over "
            f"{least} sites or more."
        )
    noisy = multipliers(data)
    if noisy:
        from polydag.privacy.dp.accounting import spent

        rounds = sum(noisy.values())
        sentences.append(
            f"Noise was added in {rounds} rounds: for any one row, epsilon = {spent(noisy, delta):.3g} at "
            f"delta = {delta:g}, under the assumption about colluding sites that each study stated."
        )
    plain = [entry for entry in data if entry.multiplier == 0]
    if noisy and plain:
        sentences.append(f"{len(plain)} arrays left without noise; no epsilon covers them.")
    return sentences


def _size(entries: Sequence[Entry]) -> str:
    return f"{sum(entry.bytes for entry in entries):,} bytes"


def protection(row: Mapping[str, Any]) -> str:
    """How an array of a summary was protected."""
    if row["kind"] == HELP:
        return "keys or shares"
    if not row["masked"]:
        return "NONE: in the open"
    noisy = " and noisy" if row["noisy"] else ""
    return f"masked{noisy}, summed over {row['least_sites']} sites"
