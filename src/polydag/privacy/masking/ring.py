"""Real numbers in fixed point as elements of the ring of integers modulo 2^64, 2^128, …

A number is held in `limbs` words of 64 bits, lowest first, in two's complement. Each term of a sum over K
sites must stay below `bound(K)` in magnitude. Then the sum stays within the signed range of the ring whatever
the other terms are, and it is exact: adding rounded terms loses nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array
from polydag.errors import DataError

Words = NDArray[np.uint64]
_WORD = 2.0**64


@dataclass(frozen=True)
class Ring:
    """Integers modulo `2**(64 * limbs)`, whose last `fraction` bits are the fractional part."""

    limbs: int
    fraction: int

    def bound(self, parties: int) -> float:
        """The bound on the magnitude of a term below which a sum of `parties` terms cannot overflow."""
        return float(np.ldexp(1.0, 64 * self.limbs - 1 - self.fraction)) / parties

    @property
    def resolution(self) -> float:
        """The distance between neighbouring numbers; rounding changes a term by at most half of it."""
        return float(np.ldexp(1.0, -self.fraction))

    def encode(self, values: Array, parties: int, name: str = "value", columns: Sequence[str] = ()) -> Words:
        """The words of each number, an array of shape `(limbs, *values.shape)`.

        Raises a `DataError` for a number that is not finite or so large that a sum could overflow. The
        message names its position, or its column where the last axis is one of columns, or its columns in
        the triangle of a scatter; it never shows the number itself, which is the site's secret.
        """
        values = np.asarray(values, dtype=float)
        limit = float(np.ldexp(self.bound(parties), self.fraction)) - 1
        words = np.empty((self.limbs, *values.shape), dtype=np.uint64)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = np.rint(values * 2.0**self.fraction)
        if not (np.abs(scaled) < limit).all():
            raise self._too_large(values, limit, parties, name, columns)
        if self.limbs == 1:
            words[0] = scaled.astype(np.int64).view(np.uint64)
            return words
        rest = np.abs(scaled)
        for limb in reversed(range(self.limbs)):  # exact, since a float has 53 significant bits
            top = np.floor(rest / _WORD**limb)
            words[limb] = top.astype(np.uint64)
            rest = rest - top * _WORD**limb
        words[...] = np.where(values < 0, _negated(words), words)
        return words

    def _too_large(
        self, values: Array, limit: float, parties: int, name: str, columns: Sequence[str]
    ) -> DataError:
        with np.errstate(over="ignore", invalid="ignore"):
            place = tuple(np.argwhere(~(np.abs(np.rint(values * 2.0**self.fraction)) < limit))[0])
        at = f"{name}[{', '.join(map(str, place))}]" if place else name
        d = len(columns)
        if place and values.shape[-1] == d:
            at = f"{name} of column {columns[place[-1]]}"
        elif "scatter" in name and values.shape == (d * (d + 1) // 2,):  # the triangle of a matrix
            pair = dict.fromkeys(columns[own[place[-1]]] for own in np.triu_indices(d))
            at = f"{name} of column {' and '.join(pair)}"
        return DataError(
            f"{at} cannot be added under masks: sums over {parties} sites, such as sums of squares, take "
            f"numbers up to 10^{math.floor(math.log10(self.bound(parties)))}. Use units in which the "
            "column's numbers are smaller, the same at every site."
        )

    def decode(self, words: Words) -> Array:
        """The numbers that the words represent, to floating-point precision."""
        if self.limbs == 1:
            plain: Array = np.ldexp(words[0].view(np.int64).astype(float), -self.fraction)
            return plain
        negative = words[-1] >> np.uint64(63) == 1
        size = np.where(negative, _negated(words), words)
        total = np.zeros(words.shape[1:])
        for limb in reversed(range(self.limbs)):
            total = total * _WORD + size[limb].astype(float)
        result: Array = np.ldexp(np.where(negative, -total, total), -self.fraction)
        return result


WIDE = Ring(limbs=4, fraction=112)  # numbers in any units, and squares: below 1e43 / K, in steps of 2e-34
NARROW = Ring(limbs=1, fraction=32)  # numbers close to one, such as weights in known units


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
