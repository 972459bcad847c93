"""The disclosure ledger: everything that left a site, kept at that site, hashed in a chain and signed.

The hash of an entry covers its content and the hash of the entry before it, and the site signs the last hash
whenever it writes, so nobody without the site's identity can change, remove or insert an entry. What remains
is to cut the end off, or to write the whole ledger anew with the identity. The other sites of every study
notice that: each keeps the number of entries and the last hash of the others' ledgers as of the study's
beginning.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from polydag.errors import DataError
from polydag.privacy.masking.identities import Identity, is_signed
from polydag.sealed_files import write_all

START = "0" * 64
_UNSIGNED = b'"signature": ""}'
FILE = "ledger.jsonl"
DATA, PROTOCOL, SUM = "data", "protocol", "sum"
IDENTITY, GROUP, HEAD, VERSION, REFUSED = "identity", "group", "head", "version", "refused"
LEFT = (DATA, PROTOCOL)  # the kinds of what left the site


class Entry(NamedTuple):
    """One thing that the ledger remembers.

    `kind` is "data" for numbers computed from rows and "protocol" for keys and shares, which say nothing
    about rows. "refused" is a question that was not answered (`name` is the reason). The others are what
    later studies are held against: "identity" is the public key that signs from here on, "sum" and "group"
    are sets of sites (`name`) over which a sum was allowed, and the site's own group; "head" is the state of
    another site's ledger; "version" that of the site's own data. `noise` is the standard deviation of the
    noise that the site itself added; `multiplier` is the noise of the whole sum in units of the largest
    effect of one row, for the privacy account. Both are 0 without noise.
    """

    study: str
    round: int
    kind: str
    name: str
    shape: str = ""
    bytes: int = 0
    masked: bool = True
    over: int = 0
    noise: float = 0.0
    multiplier: float = 0.0
    hash: str = ""
    signature: str = ""


def text_of(entry: Entry) -> str:
    """The content of an entry, without its hash and signature: a line of a ledger that is not yet sealed."""
    return json.dumps(dict(zip(entry._fields[:-2], entry, strict=False)), ensure_ascii=False)


def sealed(lines: Iterable[str], last: str = START, identity: Identity | None = None) -> tuple[str, ...]:
    """Lines with their hashes, after the entry with the hash `last`; the identity signs the last of them."""
    result = []
    for text in lines:
        last = _digest(last, text)
        result.append((text, last))
    signed = {} if identity is None else {last: identity.sign(_signed(last)).hex()}
    return tuple(
        f'{text[:-1]}, "hash": "{hash_}", "signature": "{signed.get(hash_, "")}"}}' for text, hash_ in result
    )


def _digest(before: str, text: str) -> str:
    return hashlib.sha256((before + text).encode()).hexdigest()


def _signed(digest: str) -> bytes:
    return b"polydag ledger " + digest.encode()


def parse(lines: Iterable[str]) -> tuple[Entry, ...]:
    """The entries of lines."""
    return tuple(Entry(**json.loads(line)) for line in lines)


def first_broken(chain: Sequence[Entry], public: bytes | None = None) -> int | None:
    """The position of the first entry that breaks the chain, or that nobody has signed; else None.

    Where the ledger of a certain site is expected, `public` is its identity, which must have signed last.
    """
    last, key, unsigned = START, b"", 0
    for number, entry in enumerate(chain):
        if not hmac.compare_digest(_digest(last, text_of(entry)), entry.hash):
            return number
        if entry.kind == IDENTITY and not key:
            key = _hex(entry.name)
        if entry.signature:
            if not is_signed(key, _hex(entry.signature), _signed(entry.hash)):
                return unsigned
            unsigned = number + 1
        if entry.kind == IDENTITY:
            key = _hex(entry.name)
        last = entry.hash
    signs = public is not None or (bool(chain) and chain[0].kind == IDENTITY)
    if signs and (unsigned < len(chain) or key != (key if public is None else public)):
        return min(unsigned, len(chain) - 1)
    return None


def _hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def summed_sets(chain: Iterable[Entry]) -> tuple[tuple[str, ...], ...]:
    """The sets of sites over which sums were allowed."""
    return tuple(tuple(json.loads(entry.name)) for entry in chain if entry.kind == SUM)


def own_groups(chain: Iterable[Entry]) -> tuple[tuple[str, ...], ...]:
    """The groups in which the site has been summed; they should all be the same."""
    return tuple(tuple(json.loads(entry.name)) for entry in chain if entry.kind == GROUP)


def head_entry(study: str, round_: int, site: str, head: bytes) -> Entry:
    """What is kept of another site's ledger."""
    name = json.dumps([site, int.from_bytes(head[:8], "big"), head[8:].hex()], ensure_ascii=False)
    return Entry(study, round_, HEAD, name)


def head_problem(chain: Iterable[Entry], site: str, head: bytes) -> str | None:
    """Why the ledger that another site claims to have contradicts the one it had before."""
    count, digest = int.from_bytes(head[:8], "big"), head[8:].hex()
    for entry in chain:
        if entry.kind == HEAD:
            name, before, hash_ = json.loads(entry.name)
            if name == site and (count < before or (count == before and digest != hash_)):
                return (
                    f"The ledger of {site} had {before} entries in study {entry.study}, and now {site} "
                    f"claims {count}: it was shortened or rewritten"
                )
    return None


def testimony_problem(chain: Sequence[Entry], site: str, witness: Iterable[Entry]) -> str | None:
    """Why a site's ledger is not the one whose states another site has kept in its own.

    On joining, a site shows the number of its entries and the last hash only; one that has written its whole
    ledger anew, with more entries, is found by this comparison and not before.
    """
    for entry in witness:
        if entry.kind != HEAD:
            continue
        name, count, digest = json.loads(entry.name)
        if name == site and count and (count > len(chain) or chain[count - 1].hash != digest):
            return (
                f"the ledger that {site} had in study {entry.study} ended with entry {count}, and that entry "
                "is missing here or is another one: it was shortened or rewritten"
            )
    return None


def multipliers(chain: Iterable[Entry]) -> dict[float, int]:
    """How many messages with noise left, by noise multiplier; questions refused after the charge count."""
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


def read_intact(path: str | os.PathLike[str], public: bytes | None = None) -> tuple[Entry, ...]:
    """The entries of a ledger with an intact chain; none where there is no file yet."""
    file = ledger_file(path)
    if not file.exists():
        return ()
    chain = read(file)
    if (number := first_broken(chain, public)) is not None:
        raise DataError(
            f"{file}: entry {number + 1} does not fit the one before it, or is not signed by this site; the "
            f"ledger was changed. Inspect it with `polydag ledger {file}`."
        )
    return chain


class Ledger:
    """The ledger of a site on its disk, locked for one study at a time.

    Parameters
    ----------
    path : path
        The file, or the site's folder.
    identity : Identity
        Signs the entries.
    """

    def __init__(self, path: str | os.PathLike[str], identity: Identity) -> None:
        self.file = ledger_file(path)
        self.identity = identity
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            self._handle = os.open(self.file, flags, 0o600)
        except OSError as error:
            raise DataError(f"{self.file} cannot be written: {error.strerror or error}.") from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise DataError(
                f"{self.file} is in use by another study. A site takes part in one study at a time, so that "
                "together they do not spend more than its owner allows."
            ) from None
        try:
            self.entries: tuple[Entry, ...] = ()
            self._cut_unfinished()
            if os.fstat(self._handle).st_size:
                self.entries = read_intact(self.file, identity.public)
            else:
                self.append([text_of(Entry("", 0, IDENTITY, identity.public.hex()))])
        except DataError:
            self.close()
            raise

    def _cut_unfinished(self) -> None:
        """Cut off what a power cut has left of entries that were being written: nothing was sent yet."""
        lines = self.file.read_bytes().split(b"\n")
        if not lines.pop():
            return  # the last line is whole
        while lines and lines[-1].endswith(_UNSIGNED):
            lines.pop()
        os.ftruncate(self._handle, sum(len(line) + 1 for line in lines))

    def rotate(self, identity: Identity) -> None:
        """Go on with another identity, which the one before signs."""
        self.append([text_of(Entry("", 0, IDENTITY, identity.public.hex()))])
        self.identity = identity

    def append(self, lines: Sequence[str], *, wait: bool = True) -> None:
        """Seal lines and write them; returns when they are on the disk, unless the caller need not wait."""
        if not lines:
            return
        last = self.entries[-1].hash if self.entries else START
        new = sealed(lines, last, self.identity)
        size = os.fstat(self._handle).st_size
        try:
            write_all(self._handle, "".join(f"{line}\n" for line in new).encode())
            if wait:
                os.fsync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, size)  # a part of an entry would break the chain
            raise DataError(f"{self.file} cannot be written: {error.strerror or error}.") from error
        self.entries = (*self.entries, *parse(new))

    def close(self) -> None:
        """Release the lock."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def summary(chain: Sequence[Entry]) -> list[dict[str, Any]]:
    """What left the site, by study and name: how often, how much, and how it was protected."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in chain:
        if entry.kind not in LEFT:
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
    studies = list(dict.fromkeys(entry.study for entry in data))
    if not any(entry.kind in LEFT for entry in chain):
        return ["Nothing has left this site."]
    sentences = [f"{len(studies)} {'study' if len(studies) == 1 else 'studies'}, {len(chain)} entries."]
    open_ = [entry for entry in data if not entry.masked]
    hidden = [entry for entry in data if entry.masked]
    if open_:
        sentences.append(
            f"NOT MASKED: {len(open_)} arrays ({_size(open_)}) computed from this site's rows could be read "
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
    if refused := sum(entry.kind == REFUSED for entry in chain):
        sentences.append(f"{refused} {'question was' if refused == 1 else 'questions were'} refused.")
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
        return "NONE: not masked"
    noisy = " and noisy" if row["noisy"] else ""
    return f"masked{noisy}, summed over {row['least_sites']} sites"
