"""Keys and streams of random words: HKDF-SHA256 for keys, AES-CTR for streams, secrets of the system.

A key makes one stream, once: the counter starts at zero, so no key may serve twice.
"""

from __future__ import annotations

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
_JSON = json.JSONEncoder(separators=(",", ":"), sort_keys=True)
SEED = 16  # bytes of a seed: AES with 128 bits


def fresh(size: int = SEED) -> bytes:
    """Random bytes of the operating system; no `random_state` reaches here."""
    return os.urandom(size)


def derive(secret: bytes, *about: Any, size: int = 32) -> bytes:
    """A key from a secret, for the purpose that `about` describes (HKDF with SHA-256)."""
    return HKDF(hashes.SHA256(), size, salt=None, info=canonical(*about)).derive(secret)


def canonical(*values: Any) -> bytes:
    """Values that JSON knows as bytes, the same for the same values."""
    return _JSON.encode(["polydag", *values]).encode()


def stream(key: bytes, size: int) -> bytes:
    """The first `size` bytes of AES-CTR under a key that is used for nothing else."""
    zeros = _ZEROS[:size] if size <= len(_ZEROS) else bytes(size)
    return Cipher(algorithms.AES(key), _START).encryptor().update(zeros)


def words(key: bytes, count: int) -> NDArray[np.uint64]:
    """A stream as 64-bit words."""
    return np.frombuffer(stream(key, 8 * count), dtype="<u8")


def xored(key: bytes, text: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bytes under a one-time stream; the same again gives them back."""
    return text ^ np.frombuffer(stream(key, text.size), dtype=np.uint8).reshape(text.shape)
