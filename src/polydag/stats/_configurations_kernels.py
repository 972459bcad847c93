"""Compiled numbering of the configurations of several discrete variables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Index, Int
from polydag.compilation import inner


@inner
def refine(
    index: NDArray[np.int32] | Index,
    seen: Int,
    column: NDArray[np.int32],
    arity: Int,
    out: NDArray[np.int32] | Index,
) -> int:
    """Number the configurations of one more variable, counting only those that occur.

    `index` (rows,) numbers the configurations so far, from 0 to `seen - 1`; `column` (rows,) holds levels;
    the new numbers go to `out` (rows,). Returns how many there are.
    """
    place = np.full(seen * arity, -1, np.int64)
    count = 0
    for r in range(len(column)):
        cell = index[r] * arity + column[r]
        if place[cell] < 0:
            place[cell] = count
            count += 1
        out[r] = place[cell]
    return count
