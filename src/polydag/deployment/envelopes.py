"""Envelopes, the files that travel: signed by their sender, and encrypted to their recipient.

An envelope is `POLYDAG1`, a header in JSON, an X25519 key made for this envelope, the contents under
ChaCha20-Poly1305, and the sender's Ed25519 signature of all of that. The header names the study, the number
and the kind of the envelope, the sender and the recipient; it is authenticated with the contents. The size is
limited before anything is read, and nothing is decompressed.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from polydag.errors import DataError
from polydag.privacy.masking.identities import Identity, is_signed, shared_secret, study_key
from polydag.privacy.masking.keystreams import canonical, derive_key

SUFFIX = ".polydag"
VERSION = 1
LARGEST = 1 << 30  # bytes of an envelope
JOIN, QUESTION, ANSWER = "join", "question", "answer"
_MAGIC = b"POLYDAG1"
_KEY, _SIGNATURE, _TAG = 32, 64, 16
_LONGEST_HEADER = 4096
_NONCE = bytes(12)  # every envelope has a key of its own


@dataclass(frozen=True)
class Header:
    """What everyone may see of an envelope.

    Attributes
    ----------
    study : str
        The study, by the hash of its description.
    kind : {"join", "question", "answer"}
        What it is.
    number : int
        Which question, counted from 1, or which one is answered; 0 for joining.
    sender, recipient : str
        Sites or the coordinator.
    identity : str
        The sender's public key, in hexadecimal.
    version : int
        Of the format.
    """

    study: str
    kind: str
    number: int
    sender: str
    recipient: str
    identity: str
    version: int = VERSION

    @property
    def file_name(self) -> str:
        """The name of the file: join-SITE, question-1-SITE, answer-1-SITE."""
        site = self.recipient if self.kind == QUESTION else self.sender
        return f"{'-'.join([self.kind, *([str(self.number)] if self.number else []), site])}{SUFFIX}"


def sealed(header: Header, content: bytes, identity: Identity, recipient: bytes) -> bytes:
    """An envelope; `recipient` is the recipient's X25519 key."""
    words = canonical(asdict(header))
    private, public = study_key()
    key = derive_key(shared_secret(private, recipient), "envelope", words.hex(), public.hex())
    body = ChaCha20Poly1305(key).encrypt(_NONCE, content, words)
    envelope = b"".join([_MAGIC, len(words).to_bytes(4, "big"), words, public, body])
    return envelope + identity.sign(envelope)


def header_of(envelope: bytes) -> Header:
    """The header of an envelope, before its signature is checked."""
    return _split(envelope)[0]


def opened(envelope: bytes, *, expected: Header, private: bytes) -> bytes:
    """The contents of an envelope that has exactly the expected header and is signed by its identity."""
    header, words, public, body = _split(envelope)
    for field in ("version", "study", "recipient", "sender", "kind", "identity", "number"):
        found, wanted = getattr(header, field), getattr(expected, field)
        if found != wanted:
            raise DataError(_difference(field, found, wanted))
    if not is_signed(bytes.fromhex(header.identity), envelope[-_SIGNATURE:], envelope[:-_SIGNATURE]):
        raise DataError("it is not signed by its sender: it was altered, or is forged")
    key = derive_key(shared_secret(private, public), "envelope", words.hex(), public.hex())
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, body, words)
    except InvalidTag:
        raise DataError("it cannot be decrypted: it is meant for someone else") from None


def _difference(field: str, found: Any, wanted: Any) -> str:
    sentences = {
        "version": f"it has version {found} of the format, and this polydag reads version {wanted}",
        "study": f"it belongs to the study {str(found)[:12]}…, not to {str(wanted)[:12]}…",
        "recipient": f"it is meant for {found}, not for {wanted}",
        "sender": f"it comes from {found}, not from {wanted}",
        "kind": f"it is a {found} file, not a {wanted} file",
        "identity": "its sender is not the one known by this name: another identity has signed it",
        "number": f"it belongs to question {found}, not to question {wanted}",
    }
    return sentences[field]


def _split(envelope: bytes) -> tuple[Header, bytes, bytes, bytes]:
    if envelope[: len(_MAGIC)] != _MAGIC:
        raise DataError("it is not a polydag file of this version")
    size = int.from_bytes(envelope[8:12], "big")
    if size > _LONGEST_HEADER or len(envelope) < 12 + size + _KEY + _TAG + _SIGNATURE:
        raise DataError("it is cut off or malformed")
    words = envelope[12 : 12 + size]
    try:
        (_, found) = json.loads(words)
        header = Header(**found)
        texts = (header.study, header.kind, header.sender, header.recipient, header.identity)
        sound = all(isinstance(text, str) for text in texts) and type(header.number) is int
        sound = sound and len(bytes.fromhex(header.identity)) == _KEY and canonical(found) == words
    except (ValueError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise DataError("its header cannot be read")
    place = 12 + size
    return header, words, envelope[place : place + _KEY], envelope[place + _KEY : -_SIGNATURE]


def read_file(path: str | os.PathLike[str], largest: int = LARGEST) -> bytes:
    """The bytes of an envelope: an ordinary file, whose size is checked before it is read.

    In a folder that others write to, a name may also stand for a link, a pipe, or a device without end.
    """
    file = Path(path)
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as opened_file:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise DataError(f"{file} is not a file.")
            if about.st_size > largest:
                raise DataError(
                    f"{file} has {about.st_size} bytes, more than the {largest} that are accepted."
                )
            return opened_file.read(about.st_size)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}.") from None
