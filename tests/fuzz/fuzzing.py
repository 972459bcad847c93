"""A small mutator of bytes, and how long to fuzz.

`make test` tries a fixed number of cases with fixed seeds. `make fuzz` sets POLYDAG_FUZZ_SECONDS: every test
then goes on with new seeds until its time is up. A failure prints the seed, and `cases(seed=…)` repeats it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator

import numpy as np

from polydag.errors import DataError, UsageError

SECONDS = float(os.environ.get("POLYDAG_FUZZ_SECONDS", "0"))
TOKENS = [
    b"",
    b"\x00",
    b"\r",
    b"\n",
    b"\r\n",
    b'"',
    b"\\",
    b",",
    b"\xff",
    b"\xef\xbb\xbf",
    b"{" * 3000,
    b"[" * 3000,
    b"9" * 5000,
    b"-1",
    b"1e400",
    b"nan",
    b"\xed\xa0\x80",
    b"/*",
    b"<!--",
    b'encoding="klingon"',
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
]


def cases(count: int, seed: int | None = None) -> Iterator[tuple[int, np.random.Generator]]:
    """Seeds and generators: `count` fixed ones, or new ones until the time for fuzzing is up."""
    if seed is not None:
        yield seed, np.random.default_rng(seed)
    elif not SECONDS:
        for fixed in range(count):
            yield fixed, np.random.default_rng(fixed)
    else:
        start = time.monotonic()
        tried = 0
        while time.monotonic() < start + SECONDS:
            tried += 1
            new = secrets.randbits(48)
            yield new, np.random.default_rng(new)
        print(f"{tried} cases")


def mutated(raw: bytes, rng: np.random.Generator) -> bytes:
    """The bytes after one to six small accidents."""
    data = bytearray(raw)
    for _ in range(int(rng.integers(1, 7))):
        at = int(rng.integers(len(data) + 1))
        span = int(rng.integers(1, 1 + max(1, len(data) // int(rng.choice([2, 20, 200])))))
        match int(rng.integers(7)):
            case 0 if data:
                data[at % len(data)] ^= 1 << int(rng.integers(8))
            case 1 if data:
                data[at % len(data)] = int(rng.integers(256))
            case 2:
                del data[at : at + span]
            case 3:
                data[at:at] = rng.bytes(span)
            case 4:
                data[at:at] = TOKENS[int(rng.integers(len(TOKENS)))]
            case 5:
                other = int(rng.integers(len(data) + 1))
                data[at:at] = data[other : other + span]
            case 6:
                del data[at:]
    return bytes(data)


def survives(action: Callable[[], object], seed: int) -> bool:
    """Whether the action answered; a refusal by `DataError` or `UsageError` is fine, all else fails."""
    try:
        action()
    except (DataError, UsageError):
        return False
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    return True
