"""Who is who: Ed25519 identities that outlive a study, X25519 keys made for one study.

An identity's public part is given to the other sites beforehand, by a way that the coordinator does not
control (a directory that all owners have signed off, a telephone call). A study's key counts when the
identity has signed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from polydag.privacy.masking.keystreams import fresh

Directory = Mapping[str, bytes]


@dataclass(frozen=True)
class Identity:
    """A site's long-term key for signing; its 32 bytes come from the operating system."""

    secret: bytes = field(default_factory=lambda: fresh(32), repr=False)

    @property
    def public(self) -> bytes:
        """What others know it by."""
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
    """What two sites have in common and nobody else knows (X25519)."""
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
