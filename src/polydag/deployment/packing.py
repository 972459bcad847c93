"""Messages as bytes: a description in JSON, then the arrays as they are; nothing is ever unpickled.

Sizes are compared with the length of the bytes before an array is made of them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polydag import sealed_files
from polydag.errors import DataError
from polydag.federated.protocol.messages import AnyArray, Message

_TYPES = ("<f8", "<i8", "<u8", "<u4", "|u1", "|b1")
_LONGEST_HEAD = 1 << 24
_MOST_AXES = 8


def packed(words: Mapping[str, Any], messages: Sequence[Message] = ()) -> bytes:
    """Words and messages as bytes, the same for the same contents."""
    listed, parts = [], []
    for message in messages:
        arrays = {name: np.asarray(message.arrays[name]) for name in sorted(message.arrays)}
        little = {name: array.astype(array.dtype.newbyteorder("<")) for name, array in arrays.items()}
        about = [[name, array.dtype.str, list(array.shape)] for name, array in little.items()]
        listed.append(
            {
                "sender": message.sender,
                "recipient": message.recipient,
                "round": message.round,
                "phase": message.phase,
                "meta": dict(message.meta),
                "arrays": about,
            }
        )
        parts += [array.tobytes() for array in little.values()]
    content = {"words": dict(words), "messages": listed}
    head = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    return b"".join([len(head).to_bytes(4, "big"), head, *parts])


def unpacked(content: bytes) -> tuple[dict[str, Any], list[Message]]:
    """The words and messages in bytes of unknown origin; a `DataError` says what is wrong with them."""
    size = int.from_bytes(content[:4], "big")
    if len(content) < 4 or size > min(_LONGEST_HEAD, len(content) - 4):
        raise DataError("its contents are shorter than declared")
    try:
        head = json.loads(content[4 : 4 + size])
        words, listed = dict(head["words"]), list(head["messages"])
        start, messages = 4 + size, []
        for each in listed:
            arrays: dict[str, AnyArray] = {}
            for name, kind, shape in each["arrays"]:
                arrays[str(name)], start = _array(content, start, kind, shape)
            meta = dict(each["meta"])
            words_of = (each["sender"], each["recipient"], each["round"], each["phase"])
            messages.append(Message(*words_of, arrays, meta))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"its contents cannot be read ({type(error).__name__})") from None
    if start != len(content):
        raise DataError("its contents are longer than declared")
    return words, messages


def _array(content: bytes, start: int, kind: Any, shape: Any) -> tuple[AnyArray, int]:
    if kind not in _TYPES:
        raise DataError(f"it holds an array of {kind!r}, which is not sent")
    sizes = isinstance(shape, list) and len(shape) <= _MOST_AXES
    if not sizes or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        raise DataError("an array has no proper shape")
    dtype = np.dtype(kind)
    end = start + math.prod(shape) * dtype.itemsize
    if end > len(content):
        raise DataError(f"an array of shape {tuple(shape)} is longer than the file")
    return np.frombuffer(content[start:end], dtype=dtype).reshape(shape), end


def write_json(path: Path, content: Any) -> None:
    """Write JSON for the owner alone, completely or not at all."""
    sealed_files.replace_file(path, json.dumps(content, indent=1).encode() + b"\n", private=True)


def read_json(path: Path) -> Any:
    """The JSON in a file that polydag wrote."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error}).") from None


def read_entries(path: Path, /, **kinds: type | tuple[type, ...] | re.Pattern[str]) -> dict[str, Any]:
    """The entries of a JSON file that polydag wrote, each of its kind or pattern."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise DataError(f"{path} is damaged: it holds no entries. Restore it from a copy.")
    for name, kind in kinds.items():
        value = found.get(name, ...)
        if isinstance(kind, re.Pattern):
            sound = isinstance(value, str) and kind.fullmatch(value) is not None
        else:
            sound = isinstance(value, kind)
        if not sound:
            raise DataError(
                f"{path} is damaged: its entry {name!r} is not as written. Restore it from a copy."
            )
    return found
