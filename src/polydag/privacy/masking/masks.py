"""Adding and removing masks: streams of random words, over all parts of a message in their order."""

from __future__ import annotations

from collections.abc import Sequence

from polydag.privacy.masking.keystreams import keystream_words
from polydag.privacy.masking.ring import Words, add_into


def apply_mask(parts: Sequence[Words], seed: bytes, *, subtract: bool = False) -> None:
    """Add or subtract the mask of one seed in place."""
    add_stream(parts, keystream_words(seed, sum(part.size for part in parts)), subtract=subtract)


def add_stream(parts: Sequence[Words], stream: Words, *, subtract: bool = False) -> None:
    """Add or subtract a stream of words in place."""
    start = 0
    for part in parts:
        add_into(part, stream[start : start + part.size].reshape(part.shape), subtract=subtract)
        start += part.size
