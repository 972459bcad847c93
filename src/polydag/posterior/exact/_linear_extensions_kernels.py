"""Compiled counting of linear extensions with memoisation.

A set S of elements is a word of 64 bits. All sets are convex, since only minimal or maximal elements are
removed, so that direct relations determine what is minimal in S.

Shapes of arguments that several kernels share:

below, above : uint64 arrays of shape (n,)
    The direct predecessors and successors of each element.
choose : array of shape (65, 65)
    Binomial coefficients.
keys : uint64 array of shape (slots,)
values : array of shape (slots,)
    A hash table of the sets counted so far; slots is a power of two.
used : int array of shape (1,)
    How many slots are taken.
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.compilation import inner, kernel

_ONE = np.uint64(1)


@inner
def _slot(keys: NDArray[np.uint64], S: np.uint64) -> np.uint64:
    """The slot of a set, or the free slot where it belongs."""
    last = np.uint64(len(keys) - 1)
    h = S * np.uint64(0x9E3779B97F4A7C15)
    at = (h >> np.uint64(32)) & last
    while keys[at] != 0 and keys[at] != S:
        at = (at + _ONE) & last
    return at


@inner
def _size(S: np.uint64) -> int:
    """The number of elements."""
    size = 0
    while S:
        S &= S - _ONE
        size += 1
    return size


@inner
def _lowest(S: np.uint64) -> int:
    """The index of the lowest bit."""
    v = 0
    while not S & _ONE:
        S >>= _ONE
        v += 1
    return v


@inner
def _component(below: NDArray[np.uint64], above: NDArray[np.uint64], S: np.uint64) -> np.uint64:
    """The connected component of the first element of S."""
    found, fresh = np.uint64(0), S & (~S + _ONE)
    while fresh:
        v = _lowest(fresh)
        found |= _ONE << np.uint64(v)
        fresh = (fresh | ((below[v] | above[v]) & S)) & ~found
    return found


@inner
def _ends(below: NDArray[np.uint64], above: NDArray[np.uint64], S: np.uint64) -> np.uint64:
    """The minimal or the maximal elements of S, whichever are fewer."""
    low, high = np.uint64(0), np.uint64(0)
    left = S
    while left:
        v = _lowest(left)
        bit = _ONE << np.uint64(v)
        left &= ~bit
        if not below[v] & S:
            low |= bit
        if not above[v] & S:
            high |= bit
    return low if _size(low) <= _size(high) else high


@kernel
def count(
    below: NDArray[np.uint64],
    above: NDArray[np.uint64],
    S: np.uint64,
    choose: Array,
    keys: NDArray[np.uint64],
    values: Array,
    used: Index,
) -> float:
    """The number of linear extensions of S; -1 where the table is full.

    Components are counted separately and interleaved. Within a component each of the minimal elements in turn
    is the first, or each of the maximal ones the last. One element stands for all with the same relations.
    """
    size = _size(S)
    if size <= 1:
        return 1.0
    at = _slot(keys, S)
    if keys[at] == S:
        return values[at]
    component = _component(below, above, S)
    result = 0.0
    if component != S:
        first = count(below, above, component, choose, keys, values, used)
        rest = count(below, above, S & ~component, choose, keys, values, used) if first >= 0 else -1.0
        result = first * rest * choose[size, _size(component)] if rest >= 0 else -1.0
    else:
        ends = _ends(below, above, S)
        while ends:
            v = _lowest(ends)
            twins, others = 0, ends
            while others:
                w = _lowest(others)
                bit = _ONE << np.uint64(w)
                others &= ~bit
                if (below[w] ^ below[v]) & S == 0 and (above[w] ^ above[v]) & S == 0:
                    twins += 1
                    ends &= ~bit
            part = count(below, above, S & ~(_ONE << np.uint64(v)), choose, keys, values, used)
            if part < 0:
                result = -1.0
                break
            result += twins * part
    if result < 0 or 2 * (used[0] + 1) > len(keys):
        return -1.0
    at = _slot(keys, S)  # other sets have been stored in the meantime
    keys[at] = S
    values[at] = result
    used[0] += 1
    return result
