"""Compiled sweeps of independence tests over conditioning sets.

A sweep visits, for each node i, all subsets S of its candidates K(i) with sizes between `low` and `high`, and
tests i against every target t in T(i) outside S. Sets are grown one member at a time, depth first: what is
known given S (the covariances left over; the rows' strata) serves all targets and all larger sets, so a
Gaussian test costs a few operations whatever the size of S. Sets are visited in the order of the candidates,
without allocation.

Lists are flat with pointers: K(i) is `K.members[K.start[i] : K.start[i + 1]]`. `seen[S-member, t]` says
whether the member is a candidate of the target too; the later end of a pair skips sets that the earlier one
has visited.
"""

# mypy: disable-error-code="no-any-return"
# (elements of arrays have no type of their own)
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import inner, kernel
from polydag.stats._configurations_kernels import refine

ALIKE = 1e-9  # p-values that differ by a smaller share are taken as equal: the first set counts
DEPENDENT = 1e-10  # a variable of which so little variance is left is a combination of the others


class Lists(NamedTuple):
    """A list of nodes for each node."""

    start: Index
    members: Index


class Tally(NamedTuple):
    """What a sweep leaves behind, by target: the best value with its set, and the sets that separate."""

    best: Array  # the smallest squared correlation, or the largest p
    best_set: NDArray[np.int32]
    votes: Index  # separating sets
    hit_start: Index
    hits: Index  # those that hold a given candidate: a row of candidates per target
    made: Index  # tests, by node
    skipped: Index
    failed: Index  # by node: 1 + the variable that others determine, how many, and which


@kernel
def fisher_sweep(
    C: Array,
    nodes: Index,
    K: Lists,
    T: Lists,
    seen: Mask,
    low: Int,
    high: Int,
    bound: Array,
    voting: bool,
    tally: Tally,
) -> None:
    """Partial correlations of each node with its targets; r² below `bound[|S|]` separates."""
    for i in nodes:
        candidates = K.members[K.start[i] : K.start[i + 1]]
        first, q = T.start[i], T.start[i + 1] - T.start[i]
        m = len(candidates) if high > 0 else 0
        top = min(high, m)
        if q == 0 or m < low:
            continue
        columns, place = _columns(candidates[:m], T.members[first : first + q], i)
        c = len(columns)
        left = np.empty((max(top, 1), m + 1, c))  # covariances of the candidates and i with all, given S
        spread = np.empty((max(top, 1), c))  # variances given S; NaN for its members
        # This end comes second, and the first one has visited all of S.
        inside = np.zeros((max(top, 1), q), np.bool_)
        for b in range(c):
            spread[0, b] = C[columns[b], columns[b]]
            left[0, m, b] = C[i, columns[b]]
            for a in range(m):
                left[0, a, b] = C[candidates[a], columns[b]]
        if voting:
            for t in range(q):
                inside[0, t] = columns[t] < i
        chosen, cursor = np.empty(top + 1, np.int64), np.zeros(top + 1, np.int64)
        if low == 0:
            _fisher_root(left[0, m], spread[0], i, first, q, inside[0], bound[0], voting, tally)
        depth, entered = 0, True
        while depth >= 0 and top > 0:
            if entered and depth + 1 >= low:
                for a in range(cursor[depth], m):
                    chosen[depth] = a
                    bad = _fisher_children(
                        left[depth], spread[depth], inside[depth], place, i, columns, candidates, chosen,
                        depth, first, q, seen, bound[depth + 1], voting, tally,
                    )  # fmt: skip
                    if bad >= 0:
                        _note_failure(tally.failed[i], bad, candidates, chosen, depth + 1)
                        return
            entered = False
            a = cursor[depth]
            if depth + 1 >= top or m - a - 1 < max(1, low - depth - 1):
                depth -= 1
                continue
            cursor[depth] += 1
            chosen[depth] = a
            s = place[a]
            if spread[depth, s] <= DEPENDENT:
                _note_failure(tally.failed[i], columns[s], candidates, chosen, depth)
                return
            _sweep_out(left, spread, place, depth, a, m)
            if voting:
                for t in range(q):
                    inside[depth + 1, t] = inside[depth, t] and seen[candidates[a], columns[t]]
            cursor[depth + 1] = a + 1
            depth += 1
            entered = True


@inner
def _columns(candidates: Index, targets: Index, i: Int) -> tuple[Index, Index]:
    """Targets, then the candidates that are none, then i; and where each candidate is."""
    q, m = len(targets), len(candidates)
    columns, place = np.empty(q + m + 1, np.int64), np.empty(m, np.int64)
    for t in range(q):
        columns[t] = targets[t]
    end, t = q, 0
    for a in range(m):
        while t < q and targets[t] < candidates[a]:
            t += 1
        if t < q and targets[t] == candidates[a]:
            place[a] = t
        else:
            place[a] = end
            columns[end] = candidates[a]
            end += 1
    columns[end] = i
    return columns[: end + 1], place


@inner
def _sweep_out(left: Array, spread: Array, place: Index, depth: Int, a: Int, m: Int) -> None:
    """Condition on candidate a as well; only rows of later candidates are needed further down."""
    c = left.shape[2]
    s = place[a]
    pivot = 1.0 / spread[depth, s]
    row = left[depth, a]
    for b in range(a + 1, m + 1):
        share = left[depth, b, s] * pivot
        for k in range(c):
            left[depth + 1, b, k] = left[depth, b, k] - share * row[k]
    for k in range(c):
        spread[depth + 1, k] = spread[depth, k] - row[k] * row[k] * pivot
    spread[depth + 1, s] = np.nan


@inner
def _fisher_root(
    own: Array,
    spread: Array,
    i: Int,
    first: Int,
    q: Int,
    inside: Mask,
    bound: float,
    voting: bool,
    tally: Tally,
) -> None:
    """Test all targets without conditioning."""
    for t in range(q):
        r2 = own[t] * own[t] / (spread[len(spread) - 1] * spread[t])
        if not voting:
            tally.best[first + t] = r2
        elif r2 < bound and not inside[t]:
            tally.votes[first + t] += 1
    tally.made[i] += q


@inner
def _fisher_children(
    left: Array,
    spread: Array,
    inside: Mask,
    place: Index,
    i: Int,
    columns: Index,
    candidates: Index,
    chosen: Index,
    depth: Int,
    first: Int,
    q: Int,
    seen: Mask,
    bound: float,
    voting: bool,
    tally: Tally,
) -> Int:
    """Test all targets given S and the last of `chosen`; a variable that others determine, or -1."""
    a = chosen[depth]
    s = place[a]
    row, own = left[a], left[len(left) - 1]
    if spread[s] <= DEPENDENT:
        return columns[s]
    pivot = 1.0 / spread[s]
    share = own[s] * pivot
    mine = spread[len(spread) - 1] - own[s] * share
    if mine <= DEPENDENT:
        return i
    made = 0
    for t in range(q):
        theirs = spread[t] - row[t] * row[t] * pivot
        if t == s or math.isnan(theirs):
            continue
        if theirs <= DEPENDENT:
            return columns[t]
        rest = own[t] - share * row[t]
        r2 = rest * rest / (mine * theirs)
        made += 1
        if not voting:
            if not tally.best[first + t] <= r2:  # NaN before the first test
                tally.best[first + t] = r2
                for d in range(depth + 1):
                    tally.best_set[first + t, d] = candidates[chosen[d]]
        elif r2 < bound and not (inside[t] and seen[candidates[a], columns[t]]):
            _vote(tally, i, first, t, len(candidates), chosen, depth + 1)
    tally.made[i] += made
    return -1


@inner
def _vote(tally: Tally, i: Int, first: Int, t: Int, m: Int, chosen: Index, size: Int) -> None:
    """Count a separating set, and its members."""
    tally.votes[first + t] += 1
    for d in range(size):
        tally.hits[tally.hit_start[i] + t * m + chosen[d]] += 1


@inner
def _note_failure(failed: Index, variable: Int, candidates: Index, chosen: Index, size: Int) -> None:
    """Keep which variable is determined by which others."""
    failed[0] = variable + 1
    count = 0
    for d in range(size):
        if candidates[chosen[d]] != variable:
            failed[2 + count] = candidates[chosen[d]]
            count += 1
    failed[1] = count


@kernel
def g2_sweep(
    X: NDArray[np.int32],
    weight: Array,
    arity: Index,
    rows_per_df: Int,
    nodes: Index,
    K: Lists,
    T: Lists,
    seen: Mask,
    low: Int,
    high: Int,
    alpha: float,
    voting: bool,
    tally: Tally,
) -> None:
    """G² of each node with its targets; `X[v]` are the levels of variable v in the distinct rows."""
    rows = X.shape[1]
    total = 0.0
    for w in weight:
        total += w
    for i in nodes:
        candidates = K.members[K.start[i] : K.start[i + 1]]
        first, q = T.start[i], T.start[i + 1] - T.start[i]
        m = len(candidates)
        top = min(high, m)
        if q == 0 or m < low:
            continue
        targets = T.members[first : first + q]
        widest = 0
        for t in targets:
            widest = max(widest, arity[t])
        strata = np.zeros((top + 1, rows), np.int32)
        count = np.ones(top + 1, np.int64)
        chosen, cursor = np.empty(top + 1, np.int64), np.zeros(top + 1, np.int64)
        depth, entered = 0, True
        while depth >= 0:
            if entered and depth >= low:
                table = np.empty(count[depth] * arity[i] * widest)
                for t in range(q):
                    if _visited_already(i, targets[t], candidates, chosen, depth, seen):
                        continue
                    g2, df = g_square(
                        strata[depth],
                        count[depth],
                        X[i],
                        arity[i],
                        X[targets[t]],
                        arity[targets[t]],
                        weight,
                        table,
                    )
                    if df == 0 or total < rows_per_df * df:
                        tally.skipped[i] += 1
                        continue
                    tally.made[i] += 1
                    p = chi2_tail(g2, df)
                    if voting:
                        if p > alpha:
                            _vote(tally, i, first, t, m, chosen, depth)
                    elif not tally.best[first + t] * (1.0 + ALIKE) >= p:  # NaN before the first test
                        tally.best[first + t] = p
                        for d in range(depth):
                            tally.best_set[first + t, d] = candidates[chosen[d]]
            entered = False
            a = cursor[depth]
            if depth >= top or m - a < max(1, low - depth):
                depth -= 1
                continue
            cursor[depth] += 1
            chosen[depth] = a
            s = candidates[a]
            count[depth + 1] = refine(strata[depth], count[depth], X[s], arity[s], strata[depth + 1])
            cursor[depth + 1] = a + 1
            depth += 1
            entered = True


@inner
def _visited_already(
    i: Int, target: Int, candidates: Index, chosen: Index, size: Int, seen: Mask
) -> bool | np.bool_:
    """Whether the target is in the set, or is the first end of the pair and has visited the set."""
    before = target < i
    for d in range(size):
        member = candidates[chosen[d]]
        if member == target:
            return True
        before = before and seen[member, target]
    return before


@kernel
def g_square(
    strata: NDArray[np.int32],
    count: Int,
    x: NDArray[np.int32],
    a: Int,
    y: NDArray[np.int32],
    b: Int,
    weight: Array,
    table: Array,
) -> tuple[float, int]:
    """G² and its degrees of freedom, summed over strata; levels absent from a stratum do not count there."""
    cells = a * b
    for cell in range(count * cells):
        table[cell] = 0.0
    for r in range(len(strata)):
        table[strata[r] * cells + x[r] * b + y[r]] += weight[r]
    return g_square_of_table(table[: count * cells], count, a, b)


@kernel
def g_square_of_table(table: Array, count: Int, a: Int, b: Int) -> tuple[float, int]:
    """G² and its degrees of freedom of a flat table (strata, levels of one variable, levels of the other)."""
    cells = a * b
    rows, columns = np.empty(a), np.empty(b)
    g2, df = 0.0, 0
    for s in range(count):
        block = table[s * cells : (s + 1) * cells]
        total, occupied_rows, occupied_columns = 0.0, 0, 0
        for v in range(b):
            columns[v] = 0.0
        for u in range(a):
            rows[u] = 0.0
            for v in range(b):
                rows[u] += block[u * b + v]
                columns[v] += block[u * b + v]
            total += rows[u]
            occupied_rows += rows[u] > 0
        for v in range(b):
            occupied_columns += columns[v] > 0
        df += max(occupied_rows - 1, 0) * max(occupied_columns - 1, 0)
        for u in range(a):
            for v in range(b):
                seen = block[u * b + v]
                if seen > 0:
                    g2 += seen * math.log(seen * total / (rows[u] * columns[v]))
    return max(2.0 * g2, 0.0), df


@kernel
def chi2_tail(x: float, df: float) -> float:
    """P(χ² > x): the incomplete gamma function by its series or, for large x, Lentz's continued fraction."""
    a, z = 0.5 * df, 0.5 * x
    if z <= 0.0:
        return 1.0
    scale = math.exp(a * math.log(z) - z - math.lgamma(a))
    if z < a + 1.0:
        term = total = 1.0 / a
        k = a
        while term > 1e-17 * total:
            k += 1.0
            term *= z / k
            total += term
        return max(1.0 - scale * total, 0.0)
    b = z + 1.0 - a
    c, d = 1e300, 1.0 / b
    h = d
    for k in range(1, 10_000):
        step = -k * (k - a)
        b += 2.0
        d = 1.0 / (step * d + b)
        c = b + step / c
        h *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return scale * h
