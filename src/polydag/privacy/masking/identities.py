"""Identities: Ed25519 keys that outlive a study, X25519 keys made for one study.

The public part of an identity is given to the other sites beforehand, through a channel that the coordinator
does not control (a directory that all owners have approved, a telephone call). A study key is valid once the
identity has signed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from polydag.privacy.masking.keystreams import random_bytes

Directory = Mapping[str, bytes]


@dataclass(frozen=True)
class Identity:
    """A site's long-term signing key; its 32 bytes come from the operating system."""

    secret: bytes = field(default_factory=lambda: random_bytes(32), repr=False)

    @property
    def public(self) -> bytes:
        """The public key by which others know the site."""
        return self._key().public_key().public_bytes_raw()

    def sign(self, text: bytes) -> bytes:
        """A signature of 64 bytes."""
        return self._key().sign(text)

    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)


def is_signed(public: bytes, signature: bytes, text: bytes) -> bool:
    """Whether the owner of an identity has signed a text."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def study_key() -> tuple[bytes, bytes]:
    """A new X25519 key: its private and its public part."""
    private = X25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def shared_secret(private: bytes, public: bytes) -> bytes:
    """The secret that two sites share and nobody else knows (X25519)."""
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
