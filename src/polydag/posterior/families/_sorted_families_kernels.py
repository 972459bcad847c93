"""Compiled sums over sorted families (see `SortedFamilies`).

Shapes of arguments that several kernels share:

families : SortedFamilies
excluded, required : uint64 arrays of shape (words,)
    The constraint of a state on the families of a node: a family must have none of the excluded bits and at
    least one of the required bits.
level : int array of shape (n,)
    The part of each variable in an ordered partition, or its place in an order.

Sums are returned as logs.
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Int
from polydag.compilation import compiled, inner, kernel

if TYPE_CHECKING:
    from polydag.posterior.families.families_by_parent import FamiliesByParent
    from polydag.posterior.families.sorted_families import SortedFamilies

_REST = -33.0  # log of the share of a sum that may be left out, 5e-15
_SMALL = -28.0  # log of the probability that may be left out, 7e-13


@inner
def _clear(excluded: NDArray[np.uint64], required: NDArray[np.uint64]) -> None:
    """Set all bits of a constraint to zero."""
    for w in range(len(excluded)):
        excluded[w] = 0
        required[w] = 0


@inner
def partition_constraint(
    candidates: Index,
    node: Int,
    level: Index,
    own: Int,
    excluded: NDArray[np.uint64],
    required: NDArray[np.uint64],
) -> None:
    """Fill in the constraint of an ordered partition on a node of part `own`.

    Parents lie in earlier parts, at least one of them in the part just before. In part 0 there are no
    parents, and no bit is required but the one that every family has.
    """
    _clear(excluded, required)
    c = candidates.shape[1]
    for p in range(c):
        where = level[candidates[node, p]]
        bit = np.uint64(1) << np.uint64(p & 63)
        if where >= own:
            excluded[p >> 6] |= bit
        elif where == own - 1:
            required[p >> 6] |= bit
    if own == 0:
        required[c >> 6] |= np.uint64(1) << np.uint64(c & 63)


@kernel
def order_constraint(
    candidates: Index,
    node: Int,
    level: Index,
    own: Int,
    excluded: NDArray[np.uint64],
    required: NDArray[np.uint64],
) -> None:
    """Fill in the constraint of an order on a node at place `own`: parents come before it."""
    _clear(excluded, required)
    c = candidates.shape[1]
    for p in range(c):
        if level[candidates[node, p]] >= own:
            excluded[p >> 6] |= np.uint64(1) << np.uint64(p & 63)
    required[c >> 6] |= np.uint64(1) << np.uint64(c & 63)


@compiled(fastmath={"reassoc", "nsz"}, inner=True)
def _narrow(
    masks: NDArray[np.uint64], values: Array, lo: Int, hi: Int, excluded: np.uint64, required: np.uint64
) -> float:
    """The sum over one block with masks of one word: masks and values of shape (families,)."""
    own, value = masks[lo:hi], values[lo:hi]
    result = 0.0
    for f in range(len(own)):
        mask = own[f]
        result += value[f] if (mask & excluded) == 0 and (mask & required) != 0 else 0.0
    return result


@inner
def _wide(
    masks: NDArray[np.uint64],
    values: Array,
    lo: Int,
    hi: Int,
    excluded: NDArray[np.uint64],
    required: NDArray[np.uint64],
) -> float:
    """The sum over one block with masks of several words: masks of shape (words, families)."""
    result = 0.0
    for f in range(lo, hi):
        bad, hit = np.uint64(0), np.uint64(0)
        for w in range(len(masks)):
            bad |= masks[w, f] & excluded[w]
            hit |= masks[w, f] & required[w]
        if bad == 0 and hit != 0:
            result += values[f]
    return result


@inner
def _add(total: float, reference: float, found: float, other: float) -> tuple[float, float]:
    """`total·exp(reference) + found·exp(other)`; the first nonzero summand sets the reference."""
    if found == 0:
        return total, reference
    if total == 0:
        return found, other
    return total + found * np.exp(other - reference), reference


@inner
def _log(total: float, reference: float) -> float:
    """The log of `total·exp(reference)`."""
    return np.log(total) + reference if total > 0 else -np.inf


@kernel  # a test runs draw_family as plain Python
def _block(
    families: SortedFamilies | FamiliesByParent,
    b: Int,
    excluded: NDArray[np.uint64],
    required: NDArray[np.uint64],
) -> float:
    """The sum over the allowed families of block b, relative to the block's reference."""
    lo, hi = families.start[b], families.start[b + 1]
    if len(families.masks) == 1:
        return _narrow(families.masks[0], families.values, lo, hi, excluded[0], required[0])
    return _wide(families.masks, families.values, lo, hi, excluded, required)


@kernel
def log_sum(
    families: SortedFamilies | FamiliesByParent,
    node: Int,
    excluded: NDArray[np.uint64],
    required: NDArray[np.uint64],
    enough: float = -np.inf,
) -> float:
    """The log of the sum over the allowed families; parts of it below `enough` (a log) may be left out."""
    total, reference = 0.0, 0.0
    for b in range(families.first[node], families.first[node + 1]):
        if families.tail[b] < enough:
            break
        found = _block(families, b, excluded, required)
        if found > 0:
            total, reference = _add(total, reference, found, families.reference[b])
            enough = max(enough, np.log(total) + reference + _REST)
    return _log(total, reference)


@inner
def log_sum_before(families: SortedFamilies, node: Int, place: Index) -> float:
    """The log of the sum over the families whose parents have places before that of the node.

    Checks the parents one by one, which is faster than masks where there are few families. `place` is an int
    array of shape (n,).
    """
    sets, number, candidates = families.sets, families.number, families.candidates[node]
    total, reference, enough = 0.0, 0.0, -np.inf
    for b in range(families.first[node], families.first[node + 1]):
        if families.tail[b] < enough:
            break
        found = 0.0
        for f in range(families.start[b], families.start[b + 1]):
            allowed = True
            for k in range(sets.shape[1]):
                c = sets[number[f], k]
                if c >= 0 and place[candidates[c]] >= place[node]:
                    allowed = False
                    break
            if allowed:
                found += families.values[f]
        if found > 0:
            total, reference = _add(total, reference, found, families.reference[b])
            enough = np.log(total) + reference + _REST
    return _log(total, reference)


@compiled(fastmath={"reassoc", "nsz"}, inner=True)
def _narrow_parts(
    masks: NDArray[np.uint64],
    values: Array,
    lo: Int,
    hi: Int,
    excluded: np.uint64,
    required: np.uint64,
    bit: np.uint64,
) -> tuple[float, float, float]:
    """Three sums over one block with masks of one word; see `log_sums_by_candidate`."""
    own, value = masks[lo:hi], values[lo:hi]
    without, both, alone = 0.0, 0.0, 0.0
    for f in range(len(own)):
        mask = own[f]
        inside, hit, has = (mask & excluded) == 0, (mask & required) != 0, (mask & bit) != 0
        without += value[f] if inside and hit and not has else 0.0
        both += value[f] if inside and hit and has else 0.0
        alone += value[f] if inside and not hit and has else 0.0
    return without, both, alone


@inner
def _wide_parts(
    masks: NDArray[np.uint64],
    values: Array,
    lo: Int,
    hi: Int,
    excluded: NDArray[np.uint64],
    required: NDArray[np.uint64],
    word: Int,
    bit: np.uint64,
) -> tuple[float, float, float]:
    """Three sums over one block with masks of several words; see `log_sums_by_candidate`."""
    without, both, alone = 0.0, 0.0, 0.0
    for f in range(lo, hi):
        bad, hit = np.uint64(0), np.uint64(0)
        for w in range(len(masks)):
            bad |= masks[w, f] & excluded[w]
            hit |= masks[w, f] & required[w]
        if bad != 0:
            continue
        if masks[word, f] & bit:
            if hit != 0:
                both += values[f]
            else:
                alone += values[f]
        elif hit != 0:
            without += values[f]
    return without, both, alone


@inner
def log_sums_by_candidate(
    families: SortedFamilies,
    node: Int,
    excluded: NDArray[np.uint64],
    required: NDArray[np.uint64],
    position: Int,
) -> tuple[float, float, float]:
    """Three sums over families without excluded bits, split by the candidate at one position.

    The first is over families that have a required bit and not the candidate, the second over those that have
    both, the third over those that have the candidate and no required bit. `position` is -1 if the variable
    in question is not a candidate parent of the node.
    """
    a, b, c = 0.0, 0.0, 0.0
    ra, rb, rc = 0.0, 0.0, 0.0
    enough = -np.inf
    narrow = len(families.masks) == 1
    word = max(position, 0) >> 6
    bit = np.uint64(1) << np.uint64(position & 63) if position >= 0 else np.uint64(0)
    for block in range(families.first[node], families.first[node + 1]):
        if families.tail[block] < enough:
            break
        lo, hi = families.start[block], families.start[block + 1]
        if narrow:
            x, y, z = _narrow_parts(families.masks[0], families.values, lo, hi, excluded[0], required[0], bit)
        else:
            x, y, z = _wide_parts(families.masks, families.values, lo, hi, excluded, required, word, bit)
        if x + y + z > 0:
            other = families.reference[block]
            a, ra = _add(a, ra, x, other)
            b, rb = _add(b, rb, y, other)
            c, rc = _add(c, rc, z, other)
            enough = _log(a, ra)
            if position >= 0:
                enough = min(enough, max(_log(b, rb), _log(c, rc)))
            enough += _REST
    return _log(a, ra), _log(b, rb), _log(c, rc)


@kernel
def allowed(
    families: SortedFamilies, f: Int, excluded: NDArray[np.uint64], required: NDArray[np.uint64]
) -> bool:
    """Whether the constraint allows family f."""
    bad, hit = np.uint64(0), np.uint64(0)
    for w in range(len(families.masks)):
        bad |= families.masks[w, f] & excluded[w]
        hit |= families.masks[w, f] & required[w]
    return bad == 0 and hit != 0


@kernel
def draw_family(
    families: SortedFamilies,
    node: Int,
    excluded: NDArray[np.uint64],
    required: NDArray[np.uint64],
    total: float,
    rng: np.random.Generator,
) -> int:
    """Draw one of the allowed families in proportion to its score; `total` is the log of their sum.

    Families that the constraint rules out may score any number of nats more than the best allowed one, so
    that `exp(reference - total)` overflows. Blocks without an allowed family are therefore skipped before
    they are scaled; in all others the difference is at most the span of a block. If rounding leaves a
    remainder, it goes to the best allowed family.
    """
    left = rng.random()
    best = -1
    for b in range(families.first[node], families.first[node + 1]):
        found = _block(families, b, excluded, required)
        if found == 0:
            continue
        factor = np.exp(families.reference[b] - total)
        if best >= 0 and found * factor <= left:
            left -= found * factor
            continue
        for f in range(families.start[b], families.start[b + 1]):
            if allowed(families, f, excluded, required):
                if best < 0:
                    best = f
                left -= factor * families.values[f]
                if left < 0:
                    return f
    return best


@kernel
def parent_probabilities(
    families: SortedFamilies,
    node: Int,
    excluded: NDArray[np.uint64],
    required: NDArray[np.uint64],
    total: float,
    result: Array,
) -> None:
    """Fill in `result`, of shape (n,): the probability of each edge into the node given the constraint.

    `total` is the log of the sum over the allowed families.
    """
    masks, values, number, sets = families.masks, families.values, families.number, families.sets
    own = np.zeros(families.candidates.shape[1] + 1)  # the last entry collects padding
    for b in range(families.first[node], families.first[node + 1]):
        if families.tail[b] < total + _SMALL:
            break
        factor = np.exp(families.reference[b] - total)
        for f in range(families.start[b], families.start[b + 1]):
            bad, hit = np.uint64(0), np.uint64(0)
            for w in range(len(masks)):
                bad |= masks[w, f] & excluded[w]
                hit |= masks[w, f] & required[w]
            if bad == 0 and hit != 0:
                for k in range(sets.shape[1]):
                    own[sets[number[f], k]] += factor * values[f]
    for v in range(len(result)):
        result[v] = 0.0
    for p in range(len(own) - 1):
        result[families.candidates[node, p]] = own[p]


@kernel
def cut(scores: Array, begin: Index, shortest: Int, longest: Int, span: float) -> tuple[Index, Index]:
    """Cut lists of decreasing log scores into blocks.

    The first block of a list has at most `shortest` families, each following one at most twice as many up to
    `longest`, and the scores of a block differ by at most `span`.

    Parameters
    ----------
    scores : array of shape (families,)
    begin : int array of shape (lists + 1,)

    Returns
    -------
    first : int array of shape (lists + 1,)
    start : int array of shape (blocks + 1,)
    """
    first = np.zeros(len(begin), dtype=np.int64)
    start = np.zeros(len(scores) + 1, dtype=np.int64)
    blocks = 0
    for one in range(len(begin) - 1):
        most = shortest
        f = begin[one]
        while f < begin[one + 1]:
            top, end = scores[f], min(f + most, begin[one + 1])
            f += 1
            while f < end and scores[f] >= top - span:
                f += 1
            blocks += 1
            start[blocks] = f
            most = min(2 * most, longest)
        first[one + 1] = blocks
    return first, start[: blocks + 1].copy()


@kernel
def scale(scores: Array, first: Index, start: Index) -> tuple[Array, Array, Array]:
    """Scores relative to the best of their block, the best scores, and log sums from each block on.

    `scores`, `first` and `start` as for `cut`; returns values of shape (families,), reference and tail of
    shape (blocks,).
    """
    values = np.empty(len(scores))
    reference, tail = np.empty(len(start) - 1), np.empty(len(start) - 1)
    for one in range(len(first) - 1):
        rest = -np.inf
        for b in range(first[one + 1] - 1, first[one] - 1, -1):
            reference[b] = scores[start[b]]
            total = 0.0
            for f in range(start[b], start[b + 1]):
                values[f] = math.exp(scores[f] - reference[b])
                total += values[f]
            rest = np.logaddexp(rest, math.log(total) + reference[b])
            tail[b] = rest
    return values, reference, tail
