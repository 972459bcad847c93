"""Identities: Ed25519 keys that outlive a study, X25519 keys made for one study.

The public part of an identity is given to the other sites beforehand, through a channel that the coordinator
does not control (a directory that all owners have approved, a telephone call). A study key is valid once the
identity has signed it. An identity is kept in a file that only its owner can read.
"""

from __future__ import annotations

import hmac
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from polydag.errors import DataError
from polydag.privacy.masking.keystreams import derive_key, random_bytes

Directory = Mapping[str, bytes]


@dataclass(frozen=True)
class Identity:
    """A site's long-term signing key; its 32 bytes come from the operating system."""

    secret: bytes = field(default_factory=lambda: random_bytes(32), repr=False)

    @property
    def public(self) -> bytes:
        """The public key by which others know the site."""
        return _private_key(self.secret).public_key().public_bytes_raw()

    def sign(self, text: bytes) -> bytes:
        """A signature of 64 bytes."""
        return _private_key(self.secret).sign(text)


@lru_cache(maxsize=64)
def _private_key(secret: bytes) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(secret)


def kept_identity(path: str | os.PathLike[str]) -> Identity:
    """The identity in a file; a new one where there is no such file yet."""
    file = Path(path)
    try:
        if not file.exists():
            return new_identity(file)
        if file.stat().st_mode & 0o077:
            raise DataError(f"{file} can be read by others; make it readable for its owner only (chmod 600).")
        secret = bytes.fromhex(file.read_text(encoding="ascii").strip())
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read as an identity ({error}).") from None
    if len(secret) != 32:
        raise DataError(f"{file} does not hold an identity: 64 hexadecimal digits.")
    return Identity(secret)


def new_identity(path: str | os.PathLike[str]) -> Identity:
    """A new identity in a file; one that is there already is kept beside it, numbered."""
    file, identity = Path(path), Identity()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        aside = file.with_name(f".{file.name}.tmp")
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
            target.write(identity.secret.hex() + "\n")
            target.flush()
            os.fsync(target.fileno())
        if file.exists():
            number = next(n for n in itertools.count(1) if not _retired(file, n).exists())
            file.rename(_retired(file, number))
        aside.replace(file)
    except OSError as error:
        raise DataError(f"{file} cannot be written: {error.strerror or error}.") from error
    return identity


def _retired(file: Path, number: int) -> Path:
    return file.with_name(f"{file.name}.{number}")


def is_signed(public: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the owner of an identity has signed a text."""
    try:
        _public_key(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=1024)
def _public_key(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


class Channel(NamedTuple):
    """The keys by which the coordinator and one site know each other's messages, one for each direction.

    They follow from X25519 keys of this study, which both have signed. A tag takes a fiftieth of the time of
    a signature.
    """

    questions: bytes
    answers: bytes

    @classmethod
    def of(cls, private: bytes, public: bytes, study: str, site: str) -> Self:
        """From one's own private key and the other's public one."""
        secret = shared_secret(private, public)
        return cls(*(derive_key(secret, "messages", study, site, way) for way in cls._fields))


def tag(key: bytes, text: bytes) -> bytes:
    """What shows that a text comes from someone who knows the key: 32 bytes."""
    return hmac.digest(key, text, "sha256")


def is_tagged(key: bytes, given: bytes, text: bytes) -> bool:
    """Whether a text was tagged under the key."""
    return hmac.compare_digest(tag(key, text), given)


def study_key() -> tuple[bytes, bytes]:
    """A new X25519 key: its private and its public part."""
    private = X25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def shared_secret(private: bytes, public: bytes) -> bytes:
    """The secret that two sites share and nobody else knows (X25519).

    Raises a `DataError` for a public key of low order, whose secret everybody knows.
    """
    try:
        key = X25519PublicKey.from_public_bytes(public)
        return X25519PrivateKey.from_private_bytes(private).exchange(key)
    except ValueError:
        raise DataError("A public key is not valid: its secret would be known to everybody.") from None
