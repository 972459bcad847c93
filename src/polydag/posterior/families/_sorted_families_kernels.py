"""Compiled sums over ranked families (see `Ranked`), all as logarithms.

`outside` are the bits that a family must not have, `wanted` those of which it must have one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_REST = -33.0  # log of the share of a sum that may be left out: 5e-15
_SMALL = -28.0  # the same for probabilities, which are of size 1: 7e-13


@njit(cache=True, nogil=True)
def _clear(outside, wanted):  # type: ignore[no-untyped-def]
    for w in range(len(outside)):
        outside[w] = 0
        wanted[w] = 0


@njit(cache=True, nogil=True)
def limits(candidates, node, level, own, outside, wanted):  # type: ignore[no-untyped-def]
    """What a node on level `own` may have: parents on lower levels, one of them on the level just below.

    On level 0 nothing is wanted, since there can be no parents.
    """
    _clear(outside, wanted)
    c = candidates.shape[1]
    for p in range(c):
        where = level[candidates[node, p]]
        bit = np.uint64(1) << np.uint64(p & 63)
        if where >= own:
            outside[p >> 6] |= bit
        elif where == own - 1:
            wanted[p >> 6] |= bit
    if own == 0:
        wanted[c >> 6] |= np.uint64(1) << np.uint64(c & 63)


@njit(cache=True, nogil=True)
def predecessors(candidates, node, level, own, outside, wanted):  # type: ignore[no-untyped-def]
    """As `limits`, with nothing wanted on any level."""
    _clear(outside, wanted)
    c = candidates.shape[1]
    for p in range(c):
        if level[candidates[node, p]] >= own:
            outside[p >> 6] |= np.uint64(1) << np.uint64(p & 63)
    wanted[c >> 6] |= np.uint64(1) << np.uint64(c & 63)


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _narrow(masks, values, lo, hi, outside, wanted):  # type: ignore[no-untyped-def]
    """The sum of a block with masks of one word."""
    own, value = masks[lo:hi], values[lo:hi]
    result = 0.0
    for f in range(len(own)):
        mask = own[f]
        result += value[f] if (mask & outside) == 0 and (mask & wanted) != 0 else 0.0
    return result


@njit(cache=True, nogil=True)
def _wide(masks, values, lo, hi, outside, wanted):  # type: ignore[no-untyped-def]
    """The same with more words."""
    result = 0.0
    for f in range(lo, hi):
        bad, hit = np.uint64(0), np.uint64(0)
        for w in range(len(masks)):
            bad |= masks[w, f] & outside[w]
            hit |= masks[w, f] & wanted[w]
        if bad == 0 and hit != 0:
            result += values[f]
    return result


@njit(cache=True, nogil=True)
def _add(total, reference, found, other):  # type: ignore[no-untyped-def]
    """`total·e^reference + found·e^other`; the first that is not zero gives the reference."""
    if found == 0:
        return total, reference
    if total == 0:
        return found, other
    return total + found * np.exp(other - reference), reference


@njit(cache=True, nogil=True)
def _log(total, reference):  # type: ignore[no-untyped-def]
    return np.log(total) + reference if total > 0 else -np.inf


@njit(cache=True, nogil=True)
def _block(ranked, b, outside, wanted):  # type: ignore[no-untyped-def]
    lo, hi = ranked.start[b], ranked.start[b + 1]
    if len(ranked.masks) == 1:
        return _narrow(ranked.masks[0], ranked.values, lo, hi, outside[0], wanted[0])
    return _wide(ranked.masks, ranked.values, lo, hi, outside, wanted)


@njit(cache=True, nogil=True)
def log_sum(ranked, node, outside, wanted, enough=-np.inf):  # type: ignore[no-untyped-def]
    """The logarithm of the sum over the families that a state allows; less than `enough` does not matter."""
    total, reference = 0.0, 0.0
    for b in range(ranked.first[node], ranked.first[node + 1]):
        if ranked.tail[b] < enough:
            break
        found = _block(ranked, b, outside, wanted)
        if found > 0:
            total, reference = _add(total, reference, found, ranked.reference[b])
            enough = max(enough, np.log(total) + reference + _REST)
    return _log(total, reference)


@njit(cache=True, nogil=True)
def log_sum_before(ranked, node, place):  # type: ignore[no-untyped-def]
    """The same for the families whose parents have places before the node's.

    It looks at the parents one by one, which is quicker than masks where there are few families.
    """
    sets, number, candidates = ranked.sets, ranked.number, ranked.candidates[node]
    total, reference, enough = 0.0, 0.0, -np.inf
    for b in range(ranked.first[node], ranked.first[node + 1]):
        if ranked.tail[b] < enough:
            break
        found = 0.0
        for f in range(ranked.start[b], ranked.start[b + 1]):
            allowed = True
            for k in range(sets.shape[1]):
                c = sets[number[f], k]
                if c >= 0 and place[candidates[c]] >= place[node]:
                    allowed = False
                    break
            if allowed:
                found += ranked.values[f]
        if found > 0:
            total, reference = _add(total, reference, found, ranked.reference[b])
            enough = np.log(total) + reference + _REST
    return _log(total, reference)


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _narrow_parts(masks, values, lo, hi, outside, wanted, bit):  # type: ignore[no-untyped-def]
    """The sums of a block by whether a family has what is wanted, and whether it has one bit."""
    own, value = masks[lo:hi], values[lo:hi]
    without, both, alone = 0.0, 0.0, 0.0
    for f in range(len(own)):
        mask = own[f]
        inside, hit, has = (mask & outside) == 0, (mask & wanted) != 0, (mask & bit) != 0
        without += value[f] if inside and hit and not has else 0.0
        both += value[f] if inside and hit and has else 0.0
        alone += value[f] if inside and not hit and has else 0.0
    return without, both, alone


@njit(cache=True, nogil=True)
def _wide_parts(masks, values, lo, hi, outside, wanted, word, bit):  # type: ignore[no-untyped-def]
    """The same with more words."""
    without, both, alone = 0.0, 0.0, 0.0
    for f in range(lo, hi):
        bad, hit = np.uint64(0), np.uint64(0)
        for w in range(len(masks)):
            bad |= masks[w, f] & outside[w]
            hit |= masks[w, f] & wanted[w]
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


@njit(cache=True, nogil=True)
def log_parts(ranked, node, outside, wanted, position):  # type: ignore[no-untyped-def]
    """Sums with and without the candidate at one position, as logarithms.

    Of the families inside: what is wanted without the candidate; what is wanted with it; the candidate
    without anything else that is wanted. `position` is -1 for no candidate of the node.
    """
    a, b, c = 0.0, 0.0, 0.0
    ra, rb, rc = 0.0, 0.0, 0.0
    enough = -np.inf
    narrow = len(ranked.masks) == 1
    word = max(position, 0) >> 6
    bit = np.uint64(1) << np.uint64(position & 63) if position >= 0 else np.uint64(0)
    for block in range(ranked.first[node], ranked.first[node + 1]):
        if ranked.tail[block] < enough:
            break
        lo, hi = ranked.start[block], ranked.start[block + 1]
        if narrow:
            x, y, z = _narrow_parts(ranked.masks[0], ranked.values, lo, hi, outside[0], wanted[0], bit)
        else:
            x, y, z = _wide_parts(ranked.masks, ranked.values, lo, hi, outside, wanted, word, bit)
        if x + y + z > 0:
            other = ranked.reference[block]
            a, ra = _add(a, ra, x, other)
            b, rb = _add(b, rb, y, other)
            c, rc = _add(c, rc, z, other)
            enough = _log(a, ra)
            if position >= 0:
                enough = min(enough, max(_log(b, rb), _log(c, rc)))
            enough += _REST
    return _log(a, ra), _log(b, rb), _log(c, rc)


@njit(cache=True, nogil=True)
def allowed(ranked, f, outside, wanted):  # type: ignore[no-untyped-def]
    """Whether a state allows one family."""
    bad, hit = np.uint64(0), np.uint64(0)
    for w in range(len(ranked.masks)):
        bad |= ranked.masks[w, f] & outside[w]
        hit |= ranked.masks[w, f] & wanted[w]
    return bad == 0 and hit != 0


@njit(cache=True, nogil=True)
def draw(ranked, node, outside, wanted, total, rng):  # type: ignore[no-untyped-def]
    """One of the families that a state allows, by their scores; `total` is the logarithm of their sum.

    The families that a state rules out may lead the best allowed one by any number of nats, so that
    `reference - total` overflows. Blocks without an allowed family are therefore skipped before they are
    scaled. In all others the difference is at most the span of a block. If rounding leaves a remainder, it
    goes to the best allowed family.
    """
    left = rng.random()
    best = -1
    for b in range(ranked.first[node], ranked.first[node + 1]):
        found = _block(ranked, b, outside, wanted)
        if found == 0:
            continue
        factor = np.exp(ranked.reference[b] - total)
        if best >= 0 and found * factor <= left:
            left -= found * factor
            continue
        for f in range(ranked.start[b], ranked.start[b + 1]):
            if allowed(ranked, f, outside, wanted):
                if best < 0:
                    best = f
                left -= factor * ranked.values[f]
                if left < 0:
                    return f
    return best


@njit(cache=True, nogil=True)
def shares(ranked, node, outside, wanted, total, result):  # type: ignore[no-untyped-def]
    """The probability of each edge into the node, given what a state allows; `result` has one per parent."""
    masks, values, number, sets = ranked.masks, ranked.values, ranked.number, ranked.sets
    own = np.zeros(ranked.candidates.shape[1] + 1)  # the last for places without a member
    for b in range(ranked.first[node], ranked.first[node + 1]):
        if ranked.tail[b] < total + _SMALL:
            break
        factor = np.exp(ranked.reference[b] - total)
        for f in range(ranked.start[b], ranked.start[b + 1]):
            bad, hit = np.uint64(0), np.uint64(0)
            for w in range(len(masks)):
                bad |= masks[w, f] & outside[w]
                hit |= masks[w, f] & wanted[w]
            if bad == 0 and hit != 0:
                for k in range(sets.shape[1]):
                    own[sets[number[f], k]] += factor * values[f]
    for v in range(len(result)):
        result[v] = 0.0
    for p in range(len(own) - 1):
        result[ranked.candidates[node, p]] = own[p]
