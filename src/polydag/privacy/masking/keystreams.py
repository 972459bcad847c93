"""Keys and streams of random words: HKDF-SHA256 and BLAKE2b for keys, AES-CTR for streams.

Secrets come from the operating system. A key produces one stream, once, with a counter that starts at zero.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

_START = modes.CTR(bytes(16))
_ZEROS = memoryview(bytes(1 << 17))
_JSON = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False)
SEED = 16  # bytes of a seed: AES with 128 bits


def random_bytes(size: int = SEED) -> bytes:
    """Random bytes from the operating system; no `random_state` has any effect here."""
    return os.urandom(size)


def derive_key(secret: bytes, *purpose: Any, size: int = 32) -> bytes:
    """A key derived from a secret for one purpose (HKDF with SHA-256)."""
    return HKDF(hashes.SHA256(), size, salt=None, info=canonical(*purpose)).derive(secret)


def canonical(*values: Any) -> bytes:
    """JSON values as bytes, the same for the same values."""
    return _JSON.encode(["polydag", *values]).encode()


def keystream(key: bytes, size: int) -> bytes:
    """The first `size` bytes of AES-CTR under a key that is used for nothing else."""
    return Cipher(algorithms.AES(key), _START).encryptor().update(_zeros(size))


def keystream_words(key: bytes, count: int) -> NDArray[np.uint64]:
    """A stream as 64-bit words."""
    return np.frombuffer(keystream(key, 8 * count), dtype="<u8")


def bound_key(secret: bytes, question: bytes, size: int = SEED) -> bytes:
    """The key that a secret gives for one question and no other (keyed BLAKE2b)."""
    return hashlib.blake2b(question, key=secret, digest_size=size).digest()


def _zeros(size: int) -> memoryview | bytes:
    return _ZEROS[:size] if size <= len(_ZEROS) else bytes(size)


def xor_keystream(key: bytes, text: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bytes encrypted with a one-time stream; a second application decrypts them."""
    return text ^ np.frombuffer(keystream(key, text.size), dtype=np.uint8).reshape(text.shape)
