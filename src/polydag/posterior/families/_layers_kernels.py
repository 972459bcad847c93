"""Compiled scores of all sets of variables up to a size, layer by layer.

A layer takes every *prefix* P of k variables, in lexicographic order, and scores the sets `P + {e}` for all e
after the last of P. One pass over the rows counts all these e at once: the indicators of their levels (all
but the first, which is what remains) lie side by side as bytes in 64-bit words, and words are added up per
configuration of P. A byte is emptied into a wide count before it can run over. Sets are numbered as in
`polydag.posterior.families.subsets`.
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Int
from polydag.compilation import inner, kernel
from polydag.scores.discrete.pseudocounts import PER_CELL, PER_OCCUPIED, PER_TABLE

_DENSE = 1024  # up to so many configurations have a place each, whether they occur or not
_FULL = 255
_SMALL = 16  # up to this count, logarithms shared by many cells are cheaper than log-gammas
_LOST = 1e-14  # share of a variance, below which what is left of it is rounding
_ROUNDING = 1e-12  # what is left of a sum of weights after taking all of them out again


@kernel
def discrete_layer(
    prefixes: Index,
    columns: NDArray[np.uint8],
    weights: Array,
    packed: NDArray[np.uint64],
    unit: bool,
    first: Index,
    arities: Index,
    start: Index,
    choose: Index,
    prior: Int,
    pseudo: Array,
    rising: Array,
    products: Index,
    strength: float,
    top: Int,
    occupied: Index,
    joint: Array,
    alone: Array,
) -> None:
    """Fill `joint` (A) and `alone` (B) for the sets one larger than the prefixes: a score is A(π + i) + B(π).

    Priors per cell and per table have one A a set; a prior per occupied configuration has one for each member
    as the child. B is wanted for sets up to `top` members: for a prior per cell one for each different arity
    of a child. `rising[t, N]` holds `log Γ(a_t + N) - log Γ(a_t)`, `a = pseudo`.
    """
    n, m = columns.shape
    k = prefixes.shape[1]
    fields = int(first[n])
    words = packed.shape[1]
    cap = _most_cells(arities, k, m)
    codes = np.zeros((k + 1, m), np.int32)
    cells = np.ones(k + 1, np.int64)
    small = np.zeros((cap, words), np.uint64)
    small_bytes = small.view(np.uint8)
    held = np.zeros(cap, np.int64)
    counts = np.zeros((cap, fields))
    totals = np.zeros(cap)
    current = np.full(k, -1, np.int64)
    more, big = np.zeros(_SMALL, np.int64), np.empty(cap * arities.max() if prior == PER_OCCUPIED else 0)
    for line in range(len(prefixes)):
        base, size = start[k + 1], 1
        keep = True
        for j in range(k):
            variable = prefixes[line, j]
            base += choose[variable, j + 1]
            size *= arities[variable]
            # Consecutive prefixes share their beginning, and what was worked out for it.
            if keep and current[j] == variable:
                continue
            keep = False
            current[j] = variable
            cells[j + 1] = _refine(codes[j], cells[j], columns[variable], arities[variable], codes[j + 1])
        after = prefixes[line, k - 1] + 1 if k else 0
        if after == n:
            continue
        seen = int(cells[k])
        if unit:
            _count_packed(
                codes[k], seen, packed, first[after], fields, small, small_bytes, held, counts, totals
            )
        else:
            _count_weighted(codes[k], seen, columns, weights, after, first, counts, totals)
        for e in range(after, n):
            rank = base + choose[e, k + 1]
            begin, extra = first[e], arities[e] - 1
            if prior == PER_OCCUPIED:
                _score_per_occupied(
                    counts, totals, seen, begin, extra, rank, current, e, k, start, choose, arities,
                    strength, top, occupied, joint, alone, more, big,
                )  # fmt: skip
                continue
            if prior == PER_TABLE and len(products) == 0:
                value = _rising_sum(counts, totals, seen, begin, extra, strength / (size * arities[e]))
            else:
                table = 0 if prior == PER_CELL else np.searchsorted(products, size * arities[e])
                value = _looked_up(counts, totals, seen, begin, extra, rising, pseudo, table)
            joint[rank, 0] = value
            if k + 1 > top:
                continue
            if prior == PER_TABLE:
                alone[rank, 0] = -value
                continue
            for t in range(alone.shape[1]):
                alone[rank, t] = -_looked_up(counts, totals, seen, begin, extra, rising, pseudo, t + 1)


@inner
def _looked_up(
    counts: Array, totals: Array, seen: Int, begin: Int, extra: Int, rising: Array, pseudo: Array, table: Int
) -> float:
    """As `_rising_sum`, for a pseudocount with a table."""
    value = 0.0
    for c in range(seen):
        rest = totals[c]
        if rest == 0.0:
            continue
        for f in range(begin, begin + extra):
            count = counts[c, f]
            rest -= count
            value += _rise(rising, pseudo, table, count)
        value += _rise(rising, pseudo, table, rest)
    return value


@inner
def _rise(rising: Array, pseudo: Array, table: Int, count: float) -> float:
    place = int(count)
    if place < rising.shape[1] and place == count:
        return rising[table, place]
    return math.lgamma(pseudo[table] + count) - math.lgamma(pseudo[table])


@inner
def _most_cells(arities: Index, k: Int, m: Int) -> int:
    """No prefix of k variables has more configurations than this."""
    largest = np.sort(arities)[::-1]
    product = 1.0
    for j in range(min(k, len(largest))):
        product *= largest[j]
    return int(min(product, max(_DENSE, m)))


@inner
def _refine(
    codes: NDArray[np.int32], cells: Int, column: NDArray[np.uint8], arity: Int, out: NDArray[np.int32]
) -> Int:
    """Number the configurations of one more variable; only those that occur where there would be too many."""
    m = len(codes)
    for r in range(m):
        out[r] = codes[r] * arity + column[r]
    if cells * arity <= _DENSE:
        return cells * arity
    place = np.full(cells * arity, -1, np.int32)
    found = 0
    for r in range(m):
        if place[out[r]] < 0:
            place[out[r]] = found
            found += 1
        out[r] = place[out[r]]
    return found


@inner
def _count_packed(
    codes: NDArray[np.int32],
    seen: Int,
    packed: NDArray[np.uint64],
    begin: Int,
    end: Int,
    small: NDArray[np.uint64],
    small_bytes: NDArray[np.uint8],
    held: Index,
    counts: Array,
    totals: Array,
) -> None:
    word, words = begin // 8, packed.shape[1]
    for c in range(seen):
        held[c] = 0
        totals[c] = 0.0
        for f in range(begin, end):
            counts[c, f] = 0.0
        for w in range(word, words):
            small[c, w] = 0
    for r in range(len(codes)):
        c = codes[r]
        line, row = small[c, word:], packed[r, word:]
        for w in range(words - word):
            line[w] += row[w]
        held[c] += 1
        if held[c] == _FULL:
            _empty(c, word, words, begin, end, small, small_bytes, held, counts, totals)
    for c in range(seen):
        if held[c] > 0:
            _empty(c, word, words, begin, end, small, small_bytes, held, counts, totals)


@inner
def _empty(
    c: Int,
    word: Int,
    words: Int,
    begin: Int,
    end: Int,
    small: NDArray[np.uint64],
    small_bytes: NDArray[np.uint8],
    held: Index,
    counts: Array,
    totals: Array,
) -> None:
    for f in range(begin, end):
        counts[c, f] += small_bytes[c, f]
    for w in range(word, words):
        small[c, w] = 0
    totals[c] += held[c]
    held[c] = 0


@inner
def _count_weighted(
    codes: NDArray[np.int32],
    seen: Int,
    columns: NDArray[np.uint8],
    weights: Array,
    after: Int,
    first: Index,
    counts: Array,
    totals: Array,
) -> None:
    """The same for rows that count more or less than once."""
    n = columns.shape[0]
    counts[:seen, first[after] :] = 0.0
    totals[:seen] = 0.0
    for r in range(len(codes)):
        c, weight = codes[r], weights[r]
        totals[c] += weight
        for e in range(after, n):
            level = columns[e, r]
            if level > 0:
                counts[c, first[e] + level - 1] += weight


@inner
def _score_per_occupied(
    counts: Array,
    totals: Array,
    seen: Int,
    begin: Int,
    extra: Int,
    rank: Int,
    prefix: Index,
    e: Int,
    k: Int,
    start: Index,
    choose: Index,
    arities: Index,
    strength: float,
    top: Int,
    occupied: Index,
    joint: Array,
    alone: Array,
    more: Index,
    big: Array,
) -> None:
    """Pseudocounts that depend on how many configurations of the parents occur: one A for each child."""
    own, large = 0, 0
    more[:] = 0
    for c in range(seen):
        rest = totals[c]
        for f in range(begin, begin + extra + 1):
            count = counts[c, f] if f < begin + extra else rest
            rest -= count
            if count <= _ROUNDING * totals[c]:
                continue
            own += 1
            if count <= _SMALL and count == int(count):
                more[int(count) - 1] += 1
            else:
                big[large] = count
                large += 1
    for t in range(_SMALL - 2, -1, -1):
        more[t] += more[t + 1]
    if k + 1 <= top:
        occupied[rank] = own
        alone[rank, 0] = -_rising_tally(more, big, large, strength / max(own, 1))
    for child in range(min(k + 1, joint.shape[1])):
        others = start[k]
        for j in range(k):
            member = prefix[j] if j < child else (prefix[j + 1] if j + 1 < k else e)
            others += choose[member, j + 1]
        arity = arities[prefix[child]] if child < k else arities[e]
        joint[rank, child] = _rising_tally(more, big, large, strength / (max(occupied[others], 1) * arity))


@inner
def _rising_tally(more: Index, big: Array, large: Int, cell: float) -> float:
    """`Σ log Γ(cell + N) - log Γ(cell)` over cells, of which `more[t]` small ones have N > t."""
    value = 0.0
    for t in range(_SMALL):
        if more[t] == 0:
            break
        value += more[t] * math.log(cell + t)
    if large:
        value -= large * math.lgamma(cell)
    for i in range(large):
        value += math.lgamma(cell + big[i])
    return value


@inner
def _rising_sum(counts: Array, totals: Array, seen: Int, begin: Int, extra: Int, cell: float) -> float:
    """`Σ log Γ(cell + N) - log Γ(cell)` over the cells of a table."""
    empty = math.lgamma(cell)
    value = 0.0
    for c in range(seen):
        rest = totals[c]
        for f in range(begin, begin + extra):
            count = counts[c, f]
            rest -= count
            if count > 0.0:
                value += math.lgamma(cell + count) - empty
        if rest > _ROUNDING * totals[c]:
            value += math.lgamma(cell + rest) - empty
    return value


@kernel
def determinant_layer(prefixes: Index, R: Array, start: Index, choose: Index, out: Array) -> None:
    """Log determinants of R over the sets one larger than the prefixes, by Cholesky; NaN if singular."""
    n = len(R)
    k = prefixes.shape[1]
    L = np.zeros((k + 1, k + 1))
    row = np.zeros(k + 1)
    for line in range(len(prefixes)):
        base, total = start[k + 1], 0.0
        for i in range(k):
            base += choose[prefixes[line, i], i + 1]
            for j in range(i + 1):
                value = R[prefixes[line, i], prefixes[line, j]]
                for t in range(j):
                    value -= L[i, t] * L[j, t]
                if i == j and not value > _LOST * R[prefixes[line, i], prefixes[line, i]]:
                    value = math.nan
                L[i, j] = math.sqrt(value) if i == j else value / L[j, j]
            total += 2.0 * math.log(L[i, i])
        for e in range(prefixes[line, k - 1] + 1 if k else 0, n):
            left = R[e, e]
            for i in range(k):
                value = R[e, prefixes[line, i]]
                for t in range(i):
                    value -= row[t] * L[i, t]
                row[i] = value / L[i, i]
                left -= row[i] * row[i]
            lost = not left > _LOST * R[e, e]
            out[base + choose[e, k + 1], 0] = math.nan if lost else total + math.log(left)


@kernel
def gather(
    child: Int,
    sets: NDArray[np.int16],
    start: Index,
    choose: Index,
    joint: Array,
    alone: Array,
    which: Int,
    out: Array,
) -> None:
    """`A(π + child) + B(π)` for all sets π of the other variables."""
    limit = sets.shape[1]
    several = joint.shape[1] > 1
    for s in range(len(sets)):
        lower, upper, place, size = 0, 0, 0, 0
        for j in range(limit):
            position = sets[s, j]
            if position < 0:
                break
            size += 1
            if position < child:
                place += 1
                lower += choose[position, j + 1]
                upper += choose[position, j + 1]
            else:
                lower += choose[position + 1, j + 1]
                upper += choose[position + 1, j + 2]
        upper += choose[child, place + 1]
        column = place if several else 0
        out[s] = joint[start[size + 1] + upper, column] + alone[start[size] + lower, which]
