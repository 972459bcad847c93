"""Keys and streams of random words: HKDF-SHA256 for keys, AES-CTR for streams, secrets from the system.

A key produces one stream, once, with a counter that starts at zero; or, with `keystream_words_at`, one stream
for each of several numbers, which then occupy the upper half of the counter.
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


def keystream_words_at(key: bytes, number: int, count: int) -> NDArray[np.uint64]:
    """The stream of a key for a number, which must not be used twice, as 64-bit words."""
    encryptor = _encryptor(key, threading.get_ident())
    encryptor.reset_nonce(number.to_bytes(8, "big") + bytes(8))
    return np.frombuffer(encryptor.update(_zeros(8 * count)), dtype="<u8")


def _zeros(size: int) -> memoryview | bytes:
    return _ZEROS[:size] if size <= len(_ZEROS) else bytes(size)


@lru_cache(maxsize=4096)
def _encryptor(key: bytes, thread: int) -> CipherContext:
    """Setting up a cipher takes as long as a short stream; it is not shared between threads."""
    return Cipher(algorithms.AES(key), _START).encryptor()


def xor_keystream(key: bytes, text: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bytes encrypted with a one-time stream; a second application decrypts them."""
    return text ^ np.frombuffer(keystream(key, text.size), dtype=np.uint8).reshape(text.shape)
