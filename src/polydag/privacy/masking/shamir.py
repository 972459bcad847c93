"""Shamir's secret sharing (1979) of many short secrets at once, as products of matrices.

The field is that of the integers modulo 65537. A 16-bit word is an element; the points are the positions 1,
2, … of the sites. A product of two elements has 34 bits, so a matrix product over up to 2^19 terms is exact
in floating point, and sharing takes one call to BLAS. Coefficients come from the operating system.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array
from polydag.errors import UsageError
from polydag.privacy.masking.keystreams import keystream, random_bytes

PRIME = 65537
Elements = NDArray[np.uint32]


def split(secrets: NDArray[np.uint16], quorum: int, points: int) -> Elements:
    """Shares of each word for the points 1..`points`: an array of shape `(points, *secrets.shape)`.

    Any `quorum` of them reconstruct the secrets; fewer reveal nothing about them.
    """
    if not 1 <= quorum <= points < PRIME:
        raise UsageError(f"The quorum must be from 1 to the number of sites, {points}; got {quorum}.")
    flat = secrets.reshape(-1).astype(float)
    coefficients = np.vstack([flat[None], _elements((quorum - 1, flat.size))])
    powers = np.ones((points, quorum))
    for k in range(1, quorum):
        powers[:, k] = powers[:, k - 1] * np.arange(1, points + 1) % PRIME
    shares = (powers @ coefficients) % PRIME
    result: Elements = shares.astype(np.uint32).reshape(points, *secrets.shape)
    return result


def _elements(shape: tuple[int, int]) -> Array:
    """Uniform elements of the field: 2^32 − 1 = 65535 · 65537, so all 32-bit words but one can be used."""
    count = shape[0] * shape[1]
    while True:
        drawn = np.frombuffer(keystream(random_bytes(), 4 * count), dtype="<u4")
        if not (drawn == 2**32 - 1).any():  # happens once in 2^32 words; then all are drawn again
            return (drawn % PRIME).astype(float).reshape(shape)


def lagrange_weights(points: Sequence[int]) -> Array:
    """Lagrange coefficients of the value at 0 of the polynomial through these points."""
    result = []
    for i in points:
        top = bottom = 1
        for j in points:
            if j != i:
                top = top * j % PRIME
                bottom = bottom * (j - i) % PRIME
        result.append(float(top * pow(bottom, -1, PRIME) % PRIME))
    return np.array(result)


def combine(points: Sequence[int], shares: Elements) -> NDArray[np.uint16]:
    """The secrets from `quorum` shares of shape `(len(points), …)` at these points."""
    if len(set(points)) != len(points):
        raise UsageError("Shares of one secret must come from different sites.")
    flat = shares.reshape(len(points), -1).astype(float)
    found = (lagrange_weights(points) @ flat) % PRIME
    result: NDArray[np.uint16] = found.astype(np.uint16).reshape(shares.shape[1:])
    return result
