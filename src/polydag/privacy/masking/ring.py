"""Real numbers in fixed point as elements of the ring of integers modulo 2^64, 2^128, …

A number is held in `limbs` words of 64 bits, lowest first, in two's complement. A term of a sum over K sites
may be no larger than `bound(K)`; then the sum, whatever the other terms, stays within the ring's signed
range, so that it is exact: adding up rounded terms loses nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.privacy.masking._ring_kernels import to_fixed_point

Words = NDArray[np.uint64]
_WORD = 2.0**64


@dataclass(frozen=True)
class Ring:
    """Integers modulo `2**(64 * limbs)`, of which the last `fraction` bits stand after the point."""

    limbs: int
    fraction: int

    def bound(self, parties: int) -> float:
        """What the magnitude of a term must stay below so that a sum of `parties` terms cannot overflow."""
        return float(np.ldexp(1.0, 64 * self.limbs - 1 - self.fraction)) / parties

    @property
    def resolution(self) -> float:
        """The distance between two neighbouring numbers; rounding moves a term by half of it at most."""
        return float(np.ldexp(1.0, -self.fraction))

    def encode(
        self, values: NDArray[np.float64], parties: int, name: str = "value", columns: Sequence[str] = ()
    ) -> Words:
        """The words of each number, an array of shape `(limbs, *values.shape)`.

        Numbers that are not finite, or so large that a sum could overflow, are refused with their place, by
        its column where the array has one place for each. The number itself is not told: it is the site's.
        """
        values = np.asarray(values, dtype=float)
        limit = float(np.ldexp(self.bound(parties), self.fraction)) - 1
        words = np.empty((self.limbs, *values.shape), dtype=np.uint64)
        if self.limbs == 1:
            flat = np.ascontiguousarray(values).reshape(-1)
            if not to_fixed_point(flat, 2.0**self.fraction, limit, words.view(np.int64).reshape(-1)):
                raise self._too_large(values, limit, parties, name, columns)
            return words
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.rint(values * 2.0**self.fraction)
        if not (np.abs(scaled) < limit).all():
            raise self._too_large(values, limit, parties, name, columns)
        rest = np.abs(scaled)
        for limb in reversed(range(self.limbs)):  # each step is exact: a float's bits lie within 53 places
            top = np.floor(rest / _WORD**limb)
            words[limb] = top.astype(np.uint64)
            rest = rest - top * _WORD**limb
        words[...] = np.where(values < 0, _negated(words), words)
        return words

    def _too_large(
        self, values: NDArray[np.float64], limit: float, parties: int, name: str, columns: Sequence[str]
    ) -> DataError:
        with np.errstate(over="ignore", invalid="ignore"):
            place = tuple(np.argwhere(~(np.abs(np.rint(values * 2.0**self.fraction)) < limit))[0])
        at = f"{name}[{', '.join(map(str, place))}]" if place else name
        if place and values.shape[-1] == len(columns):
            at = f"{name} of column {columns[place[-1]]}"
        return DataError(
            f"{at} cannot be added under masks: over {parties} sites a number must be finite and below "
            f"{self.bound(parties):.3g} in magnitude. Bring the column into the same units at every site, "
            "none of them so small."
        )

    def decode(self, words: Words) -> NDArray[np.float64]:
        """The numbers that the words stand for, as near as floating point has them."""
        if self.limbs == 1:
            plain: NDArray[np.float64] = np.ldexp(words[0].view(np.int64).astype(float), -self.fraction)
            return plain
        negative = words[-1] >> np.uint64(63) == 1
        size = np.where(negative, _negated(words), words)
        total = np.zeros(words.shape[1:])
        for limb in reversed(range(self.limbs)):
            total = total * _WORD + size[limb].astype(float)
        result: NDArray[np.float64] = np.ldexp(np.where(negative, -total, total), -self.fraction)
        return result


WIDE = Ring(limbs=5, fraction=160)  # numbers of any unit and squares: below 7e47 / K, in steps of 7e-49
NARROW = Ring(limbs=1, fraction=32)  # numbers of about one, such as weights in known units


def _negated(words: Words) -> Words:
    result = ~words
    add_into(result, np.concatenate([np.ones((1, *words.shape[1:]), np.uint64), np.zeros_like(words[1:])]))
    return result


def add_into(words: Words, more: Words, *, subtract: bool = False) -> None:
    """Add (or subtract) elements of the ring in place, carrying from limb to limb."""
    if len(words) == 1:
        (np.subtract if subtract else np.add)(words[0], more[0], out=words[0])
        return
    carry = np.zeros(words.shape[1:], dtype=np.uint64)
    for limb in range(len(words)):
        before = words[limb].copy()
        if subtract:
            step = before - more[limb]
            words[limb] = step - carry
            carry = ((before < more[limb]) | (step < carry)).astype(np.uint64)
        else:
            step = before + more[limb]
            words[limb] = step + carry
            carry = ((step < before) | (words[limb] < step)).astype(np.uint64)
