"""A site's folder: its identity, its ledger, and the state of the study that it takes part in.

Whatever a site is about to send is on its disk first. State, ledger entries and what is spent of the budget
are one record of a journal, which is complete or absent; only when it has reached the disk are messages
handed out. The ledger is brought up to date from the same record. If the ledger knows more than the journal,
an older journal has been put back, and nobody knows what has left the site since: the study is abandoned
here, and a new one begins with fresh keys.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import numpy as np

from polydag import sealed_files
from polydag.errors import DataError
from polydag.federated.protocol.messages import Arrays, Message
from polydag.federated.protocol.programs import Local
from polydag.federated.protocol.site import Site, SiteState
from polydag.federated.protocol.site_protection import SiteProtection, derived_version_key
from polydag.federated.protocol.storage.states import from_arrays, to_arrays
from polydag.privacy import ledger
from polydag.privacy.masking.identities import Identity, kept_identity, new_identity
from polydag.privacy.policy import Policy

IDENTITY, JOURNAL, VERSIONS = "identity.key", "journal.bin", "versions.key"
_MAGIC = b"polydag1"
_LARGEST = 1 << 26  # bytes of a journal, after which it starts anew with its last record
_ABANDONED = (
    "An older state of this study was put back at the site, and numbers may have left it since: the study is "
    "abandoned here. Start a new one."
)


class SiteFolder:
    """A site that keeps all it needs in one folder, which nobody but its owner can read.

    Parameters
    ----------
    path : path
        The folder; made where it does not exist.
    name : str
        The site.
    local : Local
        The party's side of the method, with its data.
    policy : Policy
        What the owner allows.
    masked : bool
        Whether numbers leave under masks only.
    selection : str
        Which of its rows take part, as the study says.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        local: Local,
        policy: Policy,
        *,
        masked: bool = True,
        selection: str = "",
    ) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror or error}.") from error
        if (self.path / VERSIONS).exists() and not (self.path / ledger.FILE).exists():
            raise DataError(
                f"{self.path / ledger.FILE} is missing, although this site has kept one: without it, what "
                "was spent and summed before would be forgotten. Put it back from a copy."
            )
        identity = kept_identity(self.path / IDENTITY)
        self.ledger = ledger.Ledger(self.path / ledger.FILE, identity)
        try:
            self._journal = _Journal(self.path / JOURNAL)
            self.state, self._base = self._restored(name)
        except DataError:
            self.ledger.close()
            raise
        earlier = self.ledger.entries[: self._base]
        key = _version_key(self.path, identity)
        protection = SiteProtection(identity, policy, earlier, key, selection) if masked else None
        self.site = Site(local, policy.min_rows, protection)

    def _restored(self, name: str) -> tuple[SiteState, int]:
        """The state of the last record, and the number of ledger entries before the study."""
        record = self._journal.last()
        if record is None:
            return SiteState(name), len(self.ledger.entries)
        base = int(record["base"])
        state = from_arrays(SiteState, {key: array for key, array in record.items() if key != "base"})
        if state.name != name:
            raise DataError(f"{self.path} is the folder of {state.name}, not of {name}.")
        written = len(self.ledger.entries) - base
        if written < 0:
            raise DataError(
                f"{self.ledger.file} has {len(self.ledger.entries)} entries, and there were {base} when the "
                "study began: an older copy was restored. Restore the latest one."
            )
        if written > len(state.ledger):
            state = dataclasses.replace(state, closed=True, refusals=(*state.refusals, _ABANDONED))
        else:
            self.ledger.append(state.ledger[written:])
        return state, base

    def step(self, inbox: Iterable[Message]) -> list[Message]:
        """Answer questions; the answers are on the disk before they are returned."""
        before = self.state
        after, outbox = self.site.step(before, inbox)
        if after is not before:
            self._journal.append({**to_arrays(after), "base": np.array(self._base)})
            self.ledger.append(after.ledger[len(before.ledger) :], wait=False)
            self.state = after
        return outbox

    def begin_study(self) -> None:
        """Forget the state of a finished or abandoned study; its ledger entries count for the next one."""
        self._journal.clear()
        self.state, self._base = SiteState(self.state.name), len(self.ledger.entries)
        protection = self.site.protection
        if protection is not None:
            protection = dataclasses.replace(protection, earlier=self.ledger.entries)
        self.site = dataclasses.replace(self.site, protection=protection)

    def close(self) -> None:
        """Release the folder for other programs."""
        self._journal.close()
        self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def renew_identity(path: str | os.PathLike[str]) -> Identity:
    """Give the site in a folder a new identity, which the old one signs in the ledger.

    Tell the other sites the new public key. What the ledger remembers, of groups, budget and versions of the
    data, stays in force. The old identity is kept beside the new one, numbered.
    """
    folder = Path(path)
    old = kept_identity(folder / IDENTITY)
    _version_key(folder, old)
    with ledger.Ledger(folder / ledger.FILE, old) as own:
        new = new_identity(folder / IDENTITY)
        own.rotate(new)
    return new


def _version_key(folder: Path, identity: Identity) -> bytes:
    """The key of the versions of the data, which is kept when the identity is renewed."""
    file = folder / VERSIONS
    if not file.exists():
        sealed_files.replace_file(file, derived_version_key(identity).hex().encode(), private=True)
    return kept_identity(file).secret


class _Journal:
    """Records in a file, each complete or absent; the last complete one counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error

    def last(self) -> dict[str, np.ndarray] | None:
        """The last complete record; a torn one behind it is cut off."""
        content = self.path.read_bytes()
        place, found, end = 0, None, 0
        while (head := content[place : place + 48]) and len(head) == 48 and head[:8] == _MAGIC:
            size = int.from_bytes(head[8:16], "big")
            body = content[place + 48 : place + 48 + size]
            if len(body) != size or hashlib.sha256(body).digest() != head[16:]:
                break
            place += 48 + size
            found, end = body, place
        if end < len(content):
            os.ftruncate(self._handle, end)
        return None if found is None else _decoded(found)

    def append(self, arrays: Arrays) -> None:
        """Write a record; returns when it is on the disk."""
        body = _encoded(arrays)
        record = _MAGIC + len(body).to_bytes(8, "big") + hashlib.sha256(body).digest() + body
        size = os.fstat(self._handle).st_size
        try:
            if size > _LARGEST:
                self._restart(record)
            else:
                sealed_files.write_all(self._handle, record)
                os.fdatasync(self._handle)
        except OSError as error:
            os.ftruncate(self._handle, size)  # later records would be cut off behind a torn one
            raise DataError(
                f"{self.path} cannot be written: {error.strerror or error}. Nothing was sent."
            ) from error

    def _restart(self, record: bytes) -> None:
        aside = self.path.with_name(f".{self.path.name}.tmp")
        aside.unlink(missing_ok=True)
        handle = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        sealed_files.write_all(handle, record)
        os.fsync(handle)
        aside.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        os.close(self._handle)
        self._handle = handle

    def clear(self) -> None:
        os.ftruncate(self._handle, 0)
        os.fsync(self._handle)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _encoded(arrays: Arrays) -> bytes:
    """Arrays as bytes: a line that describes them, then their contents; a zip archive takes far longer."""
    about = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    head = json.dumps(about).encode() + b"\n"
    return b"".join([head, *(np.ascontiguousarray(array).tobytes() for array in arrays.values())])


def _decoded(body: bytes) -> dict[str, np.ndarray]:
    head, _, content = body.partition(b"\n")
    found, start = {}, 0
    for name, (kind, shape) in json.loads(head).items():
        count, dtype = math.prod(shape), np.dtype(kind)
        part = np.frombuffer(content, dtype=dtype, count=count, offset=start)
        found[name] = part.reshape(shape).copy()
        start += count * dtype.itemsize
    return found
