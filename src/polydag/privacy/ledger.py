"""The disclosure ledger: every array that left a site, kept at that site in a chain of hashes.

The hash of an entry covers its content and the hash of the entry before it, so an entry that is changed,
removed or inserted later breaks the chain from there on. Anyone who keeps the last hash elsewhere also
notices when the end of the ledger is missing.
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
DATA, PROTOCOL, SUM = "data", "protocol", "sum"


class Entry(NamedTuple):
    """One array that left the site.

    `kind` is "data" for numbers computed from rows, "protocol" for keys and shares, which say nothing about
    rows, and "sum" for a set of sites (`name`) over which a sum was allowed for the first time. `noise` is
    the standard deviation of the noise that the site itself added; `multiplier` is the noise of the whole sum
    in units of the largest effect of one row, for the privacy account. Both are 0 without noise.
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
    """The lines of a ledger with entries appended; `last` is the hash that an empty one continues from."""
    if lines:
        last = lines[-1][-66:-2]
    sealed = []
    for entry in entries:
        text = _text(entry)
        last = _digest(last, text)
        sealed.append(f'{text[:-1]}, "hash": "{last}"}}')
    return (*lines, *sealed)


def _text(entry: Entry) -> str:
    """The content of an entry, without its hash."""
    return json.dumps(dict(zip(entry._fields[:-1], entry, strict=False)))


def _digest(before: str, text: str) -> str:
    return hashlib.sha256((before + text).encode()).hexdigest()


def parse(lines: Iterable[str]) -> tuple[Entry, ...]:
    """The entries of lines."""
    return tuple(Entry(**json.loads(line)) for line in lines)


def first_broken(chain: Sequence[Entry]) -> int | None:
    """The position of the first entry that breaks the chain; None where the chain is intact."""
    last = START
    for number, entry in enumerate(chain):
        if _digest(last, _text(entry)) != entry.hash:
            return number
        last = entry.hash
    return None


def summed_sets(chain: Iterable[Entry]) -> tuple[tuple[str, ...], ...]:
    """The sets of sites over which sums were allowed."""
    return tuple(tuple(json.loads(entry.name)) for entry in chain if entry.kind == SUM)


def multipliers(chain: Iterable[Entry]) -> dict[float, int]:
    """How many messages with noise left, by noise multiplier."""
    found: dict[float, int] = {}
    seen = set()
    for entry in chain:
        key = (entry.study, entry.round)
        if entry.multiplier > 0 and key not in seen:
            seen.add(key)
            found[entry.multiplier] = found.get(entry.multiplier, 0) + 1
    return found


def ledger_file(path: str | os.PathLike[str]) -> Path:
    """The file of a ledger: the path itself, or `ledger.jsonl` in a site's folder."""
    target = Path(path)
    return target / FILE if target.is_dir() else target


def read(path: str | os.PathLike[str]) -> tuple[Entry, ...]:
    """The entries of a ledger file, whether or not its chain is intact."""
    file = ledger_file(path)
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
            raise DataError(f"{file}: line {number} is not a ledger entry.") from None
    return tuple(entries)


def read_intact(path: str | os.PathLike[str]) -> tuple[Entry, ...]:
    """The entries of a ledger with an intact chain; none where there is no file yet."""
    file = ledger_file(path)
    if not file.exists():
        return ()
    chain = read(file)
    if (number := first_broken(chain)) is not None:
        raise DataError(
            f"{file}: entry {number + 1} does not fit the one before it; the ledger was changed. "
            f"Inspect it with `polydag ledger {file}`."
        )
    return chain


def write(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Append lines to the file of a ledger, which only its owner may read."""
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
    """What left the site, by study and name: how often, how much, and how it was protected."""
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


def describe(chain: Sequence[Entry], delta: float) -> list[str]:
    """What left the site, in sentences for its owner; epsilon is given at this delta."""
    data = [entry for entry in chain if entry.kind == DATA]
    studies = list(dict.fromkeys(entry.study for entry in chain))
    if not chain:
        return ["Nothing has left this site."]
    sentences = [f"{len(studies)} {'study' if len(studies) == 1 else 'studies'}, {len(chain)} entries."]
    open_ = [entry for entry in data if not entry.masked]
    hidden = [entry for entry in data if entry.masked]
    if open_:
        sentences.append(
            f"IN THE OPEN: {len(open_)} arrays ({_size(open_)}) computed from this site's rows could be read "
            "by the coordinator."
        )
    if hidden:
        least = min(entry.over for entry in hidden)
        sentences.append(
            f"Under masks: {len(hidden)} arrays ({_size(hidden)}); only sums over {least} sites or more "
            "could be read."
        )
    noisy = multipliers(data)
    if noisy:
        from polydag.privacy.dp.accounting import spent

        rounds = sum(noisy.values())
        sentences.append(
            f"Noise was added in {rounds} rounds: for any one row, epsilon = {spent(noisy, delta):.3g} at "
            f"delta = {delta:g}, under each study's assumption about colluding sites."
        )
    plain = [entry for entry in data if entry.multiplier == 0]
    if noisy and plain:
        sentences.append(f"{len(plain)} arrays left without noise; epsilon does not cover them.")
    return sentences


def _size(entries: Sequence[Entry]) -> str:
    return f"{sum(entry.bytes for entry in entries):,} bytes"


def protection(row: Mapping[str, Any]) -> str:
    """How the arrays in a row of the summary were protected."""
    if row["kind"] == PROTOCOL:
        return "keys or shares"
    if not row["masked"]:
        return "NONE: in the open"
    noisy = " and noisy" if row["noisy"] else ""
    return f"masked{noisy}, summed over {row['least_sites']} sites"
