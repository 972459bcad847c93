"""Messages between the sites and the coordinator: what they hold, whether they are sound, and their hash."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydag.privacy.masking.keystreams import canonical

AnyArray = NDArray[Any]
Arrays = Mapping[str, AnyArray]

COORDINATOR = "coordinator"
CLOCK = "clock"
ASK, CONTRIBUTION, REFUSED, TIMEOUT = "ask", "contribution", "refused", "timeout"
ANSWER = "answer"
# Further phases of a masked sum; a reply has the name of its question.
JOIN, ROSTER, DEAL, PARCELS, AGREE, OPEN = "join", "roster", "deal", "parcels", "agree", "open"
ORDER = (JOIN, ROSTER, DEAL, PARCELS, ASK, AGREE, OPEN, ANSWER)

SIGNATURE, EXCHANGE = "signature", "exchange"
LAST_ROUND = 2**31
_TYPES = ("<f8", "<i8", "<u8", "<u4", "|u1", "|b1")
_DEPTH = 8


@dataclass(frozen=True, eq=False)
class Message:
    """One message, which is never changed once it exists.

    Attributes
    ----------
    sender, recipient : str
        Names of sites, `COORDINATOR` or `CLOCK`.
    round : int
        The number of the question it belongs to, from 1.
    phase : str
        What it is: a question, a contribution to the sum, a refusal, a time-out.
    arrays : mapping of name to array
        The numbers.
    meta : mapping
        Words and settings that accompany them, as in JSON; never data. `signature` is that of its sender.
    """

    sender: str
    recipient: str
    round: int
    phase: str
    arrays: Arrays = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    _hashed: dict[str, Any] = field(default_factory=dict, repr=False)

    def with_signature(self, signature: str) -> Message:
        """The message with a signature or tag; its hash stays the same and is not computed again."""
        signed = dataclasses.replace(self, meta={**self.meta, SIGNATURE: signature}, _hashed={})
        known = {"content": (signed.arrays, signed.meta), "words": (self.sender, self.round, self.phase)}
        signed._hashed.update(known, digest=self.digest)
        return signed

    @property
    def digest(self) -> bytes:
        """The SHA-256 of all but recipient and signature: the same for every site that is asked the same.

        It is computed once for the copies of a message that go to several sites.
        """
        content = (self.arrays, self.meta)
        words = (self.sender, self.round, self.phase)
        known = self._hashed.get("content", ()), self._hashed.get("words")
        if known[1] != words or [id(each) for each in known[0]] != [id(each) for each in content]:
            self._hashed.update(content=content, words=words, digest=_digest(self))
        found: bytes = self._hashed["digest"]
        return found


def _digest(message: Message) -> bytes:
    meta = {name: value for name, value in message.meta.items() if name != SIGNATURE}
    names = sorted(message.arrays)
    arrays = [np.ascontiguousarray(message.arrays[name]) for name in names]
    shapes = [[name, array.dtype.str, list(array.shape)] for name, array in zip(names, arrays, strict=True)]
    head = canonical("message", message.sender, message.round, message.phase, meta, shapes)
    digest = hashlib.sha256(len(head).to_bytes(8, "big") + head)
    for array in arrays:
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()


def message_problem(message: Message, most_bytes: float = math.inf) -> str | None:
    """Why something that arrived is not a message; checked before anything in it is used."""
    known = message._hashed.get("sound")  # of the copies that go to several sites, one is enough
    if known is not None and all(a is b for a, b in zip(known[:5], _parts(message), strict=True)):
        return None if known[5] <= most_bytes else f"it holds {known[5]} bytes"
    why = _problem(message, most_bytes)
    if why is None:
        size = sum(array.nbytes for array in message.arrays.values())
        message._hashed["sound"] = (*_parts(message), size)
    return why


def _parts(message: Message) -> tuple[Any, ...]:
    return message.arrays, message.meta, message.round, message.sender, message.phase


def _problem(message: Message, most_bytes: float) -> str | None:
    if type(message.round) is not int or not 0 <= message.round < LAST_ROUND:
        return "its round is not a number from 0 to 2^31"
    if not all(isinstance(word, str) for word in (message.sender, message.recipient, message.phase)):
        return "its sender, recipient or phase is not a word"
    if not isinstance(message.arrays, Mapping) or not isinstance(message.meta, Mapping):
        return "its content is not a mapping"
    size = 0
    for name, array in message.arrays.items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            return "it holds something that is not an array"
        if array.dtype.newbyteorder("<").str not in _TYPES:
            return f"{name} holds {array.dtype}, which is not sent"
        size += array.nbytes
    if size > most_bytes:
        return f"it holds {size} bytes, and the owner allows {most_bytes:.0f}"
    if not _is_json(message.meta, _DEPTH):
        return "its words are not JSON"
    signature = message.meta.get(SIGNATURE, "")
    if not isinstance(signature, str) or len(signature) > 200:
        return "its signature is not a word"
    return None


_PLAIN = frozenset((str, bool, type(None)))


def _is_json(value: Any, depth: int) -> bool:
    kind = type(value)  # most values are words, and lists of words
    if kind in _PLAIN:
        return True
    if kind is list or kind is tuple:
        return depth > 0 and (
            _PLAIN.issuperset(map(type, value)) or all(_is_json(own, depth - 1) for own in value)
        )
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < 2**63
    if depth == 0 or not isinstance(value, Mapping):
        return False
    return all(isinstance(name, str) and _is_json(own, depth - 1) for name, own in value.items())


def reply_to(phase: str) -> str:
    """The phase of the reply to a question."""
    return CONTRIBUTION if phase == ASK else phase


def position(round_: int, phase: str) -> int:
    """The position of a question in a study: a later one has a higher number."""
    return len(ORDER) * round_ + ORDER.index(phase)


def timeout(round_: int) -> Message:
    """The clock's message that a round has taken long enough."""
    return Message(CLOCK, COORDINATOR, round_, TIMEOUT)


def same_arrays(first: Arrays, second: Arrays) -> bool:
    """Whether two sets of named arrays are equal to the last bit."""
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name], equal_nan=first[name].dtype.kind == "f") for name in first
    )
