"""Keys and streams of random words: HKDF-SHA256 for keys, AES-CTR for streams, secrets of the system.

A key makes one stream, once, with a counter that starts at zero; or, with `words_at`, one stream for each of
several numbers, which then stand in the counter's upper half.
"""

from __future__ import annotations

import json
import os
import threading
from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
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


def words_at(key: bytes, number: int, count: int) -> NDArray[np.uint64]:
    """The stream of a key for a number, which may not come twice, as 64-bit words."""
    encryptor = _encryptor(key, threading.get_ident())
    encryptor.reset_nonce(number.to_bytes(8, "big") + bytes(8))
    size = 8 * count
    return np.frombuffer(encryptor.update(_ZEROS[:size] if size <= len(_ZEROS) else bytes(size)), dtype="<u8")


@lru_cache(maxsize=4096)
def _encryptor(key: bytes, thread: int) -> CipherContext:
    """Setting up a cipher takes as long as a short stream; it is not shared between threads."""
    return Cipher(algorithms.AES(key), _START).encryptor()


def xored(key: bytes, text: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bytes under a one-time stream; the same again gives them back."""
    return text ^ np.frombuffer(stream(key, text.size), dtype=np.uint8).reshape(text.shape)
