"""The only place where sites' numbers meet: a sum of named arrays over the sites of a round.

In the open, terms are added as they are. Masked (`SecureSum`), terms are elements of a ring under masks that
cancel in the sum; nobody, not even the coordinator, can read a single one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.federated.protocol.messages import AnyArray, Arrays
from polydag.privacy.masking.ring import NARROW, WIDE, Ring, Words

Contributions = Mapping[str, Arrays]
PADS = "pads"  # beside the numbers of a sum that can be opened: see `polydag.privacy.masking.site`
_POWERS = range(-300, 301)
_DIGITS = 1e10  # to which a column's sum of squares must be resolved


def total(received: Contributions, all_sites: Iterable[str]) -> dict[str, AnyArray]:
    """The sum over the contributing sites, in the order of `all_sites` and not in that of the messages."""
    result: dict[str, AnyArray] = {}
    for site in all_sites:
        for name, array in received.get(site, {}).items():
            if name in result:
                result[name] += array
            else:
                result[name] = array.astype(float)
    return result


def resolution_problem(names: Sequence[str], n: float, deviations: Array) -> str | None:
    """Why columns with these standard deviations over n rows would lose digits in a masked sum."""
    squares = n * deviations**2
    lost = np.flatnonzero((deviations > 0) & (squares < _DIGITS * WIDE.resolution))
    if not lost.size:
        return None
    digits = math.floor(-math.log10(WIDE.resolution))
    return (
        f"Column {names[lost[0]]} varies by so little that its squares would be lost in sums under masks, "
        f"which keep {digits} digits after the point. Use units in which its numbers are larger, the same at "
        "every site."
    )


Narrow = Mapping[str, Sequence[int]]


def narrow_of(meta: Mapping[str, Any]) -> Narrow:
    """The arrays of a question that are summed in single words, with the powers of two of their units."""
    said = meta.get("narrow", {})
    if not isinstance(said, Mapping) or not all(map(_are_powers, said.values())):
        raise DataError(
            f"The question gives the units as {said!r}; expected are powers of two for each array."
        )
    return said


def _are_powers(own: Any) -> bool:
    whole = isinstance(own, (list, tuple)) and {int}.issuperset(map(type, own))
    return whole and (not own or (min(own) in _POWERS and max(own) in _POWERS))


@dataclass(frozen=True)
class SecureSum:
    """Named arrays as elements of a ring, and back.

    Arrays in `narrow` hold numbers of a known size, about `2**power`, with one power for the whole array or
    one for each position of its last axis; one word suffices for them.
    """

    parties: int
    narrow: Narrow = field(default_factory=dict)

    def ring(self, name: str) -> Ring:
        """The ring of an array's numbers."""
        return NARROW if name in self.narrow else WIDE

    def encode(self, arrays: Arrays, columns: Sequence[str] = ()) -> tuple[list[Words], dict[str, Words]]:
        """Every array as words: concatenated into one long array per ring, and as views of these by name.

        Raises a `DataError` that names the position or the column of a number that could make the sum
        overflow.
        """
        parts: list[Words] = []
        views: dict[str, Words] = {}
        arrays = {name: self._shifted(name, array, -1) for name, array in arrays.items()}
        for ring in (NARROW, WIDE):
            own = [name for name in sorted(arrays) if self.ring(name) is ring]
            if own:
                flat = np.concatenate([np.ravel(arrays[name]) for name in own])
                try:
                    part = ring.encode(flat, self.parties)
                except DataError:
                    for name in own:  # which array, and where in it
                        ring.encode(arrays[name], self.parties, name, columns)
                    raise
                parts.append(part)
                views |= _views(part, {name: arrays[name].shape for name in own})
        return parts, views

    def decode(self, parts: Mapping[str, Words]) -> dict[str, AnyArray]:
        """The arrays of an unmasked sum."""
        plain = {name: self.ring(name).decode(part) for name, part in parts.items()}
        return {name: self._shifted(name, array, 1) for name, array in plain.items()}

    def _shifted(self, name: str, array: AnyArray, sign: int) -> AnyArray:
        """An array converted from its units or back into them; exact, since these are powers of two."""
        powers = self.narrow.get(name)
        if powers is None:
            return array
        if len(powers) not in (1, array.shape[-1]):
            raise DataError(f"{name} of shape {array.shape} has {len(powers)} units.")
        result: AnyArray = array * np.ldexp(1.0, sign * np.array(powers, dtype=np.int64))
        return result

    def joined(self, arrays: Mapping[str, Words]) -> tuple[list[Words], dict[str, Words]]:
        """Copies of words, concatenated as `encode` does, and views of these by name."""
        parts: list[Words] = []
        views: dict[str, Words] = {}
        for ring in (NARROW, WIDE):
            own = {name: arrays[name] for name in sorted(arrays) if self.ring(name) is ring}
            if own:
                part = np.concatenate([array.reshape(ring.limbs, -1) for array in own.values()], axis=1)
                parts.append(part)
                views |= _views(part, {name: array.shape[1:] for name, array in own.items()})
        return parts, views


def _views(part: Words, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Words]:
    """The arrays that are concatenated in one, by name."""
    views, start = {}, 0
    for name, shape in shapes.items():
        end = start + math.prod(shape)
        views[name] = part[:, start:end].reshape(len(part), *shape)
        start = end
    return views
