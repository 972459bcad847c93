"""Compiled pieces of PC: sweeps over conditioning sets, and orientation of a sparse skeleton.

A sweep visits, for each node i, all subsets S of its candidates K(i) with sizes between `low` and `high`, and
tests i against every target t in T(i) outside S. Sets are grown one member at a time, depth first: what is
known given S (the covariances left over; the rows' strata) serves all targets and all larger sets, so a
Gaussian test costs a few operations whatever the size of S. Sets are visited in the order of the candidates,
without allocation.

Lists are flat with pointers: K(i) is `K.members[K.start[i] : K.start[i + 1]]`. `seen[S-member, t]` says
whether the member is a candidate of the target too; the later end of a pair passes over sets that the earlier
one has visited.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

DEPENDENT = 1e-10  # a variable of which so little variance is left is a combination of the others


class Lists(NamedTuple):
    """A list of nodes for each node."""

    start: NDArray[np.int64]
    members: NDArray[np.int64]


class Tally(NamedTuple):
    """What a sweep leaves behind, by target: the best value with its set, and the sets that separate."""

    best: NDArray[np.float64]  # the smallest squared correlation, or the largest p
    best_set: NDArray[np.int32]
    votes: NDArray[np.int64]  # separating sets
    hit_start: NDArray[np.int64]
    hits: NDArray[np.int64]  # those that hold a given candidate: a row of candidates per target
    made: NDArray[np.int64]  # tests, by node
    skipped: NDArray[np.int64]
    failed: NDArray[np.int64]  # by node: 1 + the variable that others determine, how many, and which


@njit(cache=True, nogil=True)
def fisher_sweep(C, nodes, K, T, seen, low, high, bound, voting, tally):  # type: ignore[no-untyped-def]
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
        inside = np.zeros(
            (max(top, 1), q), np.bool_
        )  # this end comes second, and all of S was seen by the first
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


@njit(cache=True, nogil=True)
def _columns(candidates, targets, i):  # type: ignore[no-untyped-def]
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


@njit(cache=True, nogil=True)
def _sweep_out(left, spread, place, depth, a, m):  # type: ignore[no-untyped-def]
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


@njit(cache=True, nogil=True)
def _fisher_root(own, spread, i, first, q, inside, bound, voting, tally):  # type: ignore[no-untyped-def]
    """Test all targets without conditioning."""
    for t in range(q):
        r2 = own[t] * own[t] / (spread[len(spread) - 1] * spread[t])
        if not voting:
            tally.best[first + t] = r2
        elif r2 < bound and not inside[t]:
            tally.votes[first + t] += 1
    tally.made[i] += q


@njit(cache=True, nogil=True)
def _fisher_children(  # type: ignore[no-untyped-def]
    left, spread, inside, place, i, columns, candidates, chosen, depth, first, q, seen, bound, voting, tally
):  # fmt: skip
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


@njit(cache=True, nogil=True)
def _vote(tally, i, first, t, m, chosen, size):  # type: ignore[no-untyped-def]
    """Count a separating set, and its members."""
    tally.votes[first + t] += 1
    for d in range(size):
        tally.hits[tally.hit_start[i] + t * m + chosen[d]] += 1


@njit(cache=True, nogil=True)
def _note_failure(failed, variable, candidates, chosen, size):  # type: ignore[no-untyped-def]
    """Keep which variable is determined by which others."""
    failed[0] = variable + 1
    count = 0
    for d in range(size):
        if candidates[chosen[d]] != variable:
            failed[2 + count] = candidates[chosen[d]]
            count += 1
    failed[1] = count


@njit(cache=True, nogil=True)
def g2_sweep(  # type: ignore[no-untyped-def]
    X, weight, arity, rows_per_df, nodes, K, T, seen, low, high, alpha, voting, tally
):  # fmt: skip
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
                    if _passed_over(i, targets[t], candidates, chosen, depth, seen):
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
                    elif not tally.best[first + t] >= p:  # NaN before the first test
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
            count[depth + 1] = _refine(strata[depth], count[depth], X[s], arity[s], strata[depth + 1])
            cursor[depth + 1] = a + 1
            depth += 1
            entered = True


@njit(cache=True, nogil=True)
def _passed_over(i, target, candidates, chosen, size, seen):  # type: ignore[no-untyped-def]
    """Whether the target is in the set, or is the first end of the pair and has visited the set."""
    before = target < i
    for d in range(size):
        member = candidates[chosen[d]]
        if member == target:
            return True
        before = before and seen[member, target]
    return before


@njit(cache=True, nogil=True)
def _refine(strata, count, levels, arity, finer):  # type: ignore[no-untyped-def]
    """Split strata by a variable, numbering only those that occur."""
    number = np.full(count * arity, -1, np.int32)
    found = 0
    for r in range(len(strata)):
        key = strata[r] * arity + levels[r]
        if number[key] < 0:
            number[key] = found
            found += 1
        finer[r] = number[key]
    return found


@njit(cache=True, nogil=True)
def g_square(strata, count, x, a, y, b, weight, table):  # type: ignore[no-untyped-def]
    """G² and its degrees of freedom, summed over strata; levels absent from a stratum do not count there."""
    cells = a * b
    for cell in range(count * cells):
        table[cell] = 0.0
    for r in range(len(strata)):
        table[strata[r] * cells + x[r] * b + y[r]] += weight[r]
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


@njit(cache=True, nogil=True)
def chi2_tail(x, df):  # type: ignore[no-untyped-def]
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


@njit(cache=True, nogil=True)
def accept_colliders(triples, arrows, near):  # type: ignore[no-untyped-def]
    """Draw colliders i -> k <- j, in the order given, into `arrows`; which of them fitted.

    One that turns an arrow round, or closes a directed cycle, is left out.
    """
    kept = np.zeros(len(triples), np.bool_)
    mark = np.zeros(len(arrows), np.int64)
    for number in range(len(triples)):
        i, k, j = triples[number]
        if arrows[i, k] and arrows[j, k]:
            kept[number] = True
        elif not _leads(arrows, near, k, i, j, mark, number + 1):
            arrows[i, k] = arrows[j, k] = True
            kept[number] = True
    return kept


@njit(cache=True, nogil=True)
def _leads(arrows, near, start, first, second, mark, stamp):  # type: ignore[no-untyped-def]
    """Whether arrows lead from `start` to one of two nodes."""
    stack = np.empty(len(arrows), np.int64)
    stack[0], size = start, 1
    mark[start] = stamp
    while size > 0:
        size -= 1
        v = stack[size]
        for u in near.members[near.start[v] : near.start[v + 1]]:
            if arrows[v, u] and mark[u] != stamp:
                if u == first or u == second:
                    return True
                mark[u] = stamp
                stack[size] = u
                size += 1
    return False


@njit(cache=True, nogil=True)
def extend(arrows, joined, near, weakness):  # type: ignore[no-untyped-def]
    """A DAG with this skeleton and these (acyclic) arrows, and few new v-structures.

    Sinks are taken out one by one (Dor and Tarsi 1992): a node without arrows out of it whose undirected
    edges make no new v-structure. Where there is none, the one that makes the fewest is taken, among equals
    the one with the greatest weakness; returns the number of such.
    """
    p = len(arrows)
    result = arrows.copy()
    left = np.ones(p, np.bool_)
    cost = np.empty(p, np.int64)
    for v in range(p):
        cost[v] = _sink_cost(v, arrows, joined, near, left)
    forced = 0
    for _ in range(p):
        x = -1
        for v in range(p):
            if (
                left[v]
                and cost[v] >= 0
                and (x < 0 or cost[v] < cost[x] or (cost[v] == cost[x] and weakness[v] > weakness[x]))
            ):
                x = v
        forced += cost[x] > 0
        left[x] = False
        around = near.members[near.start[x] : near.start[x + 1]]
        for u in around:
            if left[u]:
                result[u, x] = True
        for u in around:
            if left[u]:
                cost[u] = _sink_cost(u, arrows, joined, near, left)
    return result, forced


@njit(cache=True, nogil=True)
def _sink_cost(x, arrows, joined, near, left):  # type: ignore[no-untyped-def]
    """New v-structures if all edges left at x point to it; -1 where an arrow leaves it."""
    around = near.members[near.start[x] : near.start[x + 1]]
    cost = 0
    for u in around:
        if not left[u]:
            continue
        if arrows[x, u]:
            return -1
        for v in around:
            if v > u and left[v] and not joined[u, v] and not (arrows[u, x] and arrows[v, x]):
                cost += 1
    return cost


@njit(cache=True, nogil=True)
def close(A, near, ambiguous):  # type: ignore[no-untyped-def]
    """Apply Meek's rules to A in rounds until nothing follows, in place.

    `ambiguous` are sorted keys `(i p + k) p + j`, i < j, of triples i - k - j that are not known to be no
    collider: rules that rest on such a triple are not applied.
    """
    p = len(A)
    while True:
        fresh_i, fresh_j = [0], [0]
        for i in range(p):
            for j in near.members[near.start[i] : near.start[i + 1]]:
                if A[i, j] and A[j, i] and _implied(A, near, ambiguous, i, j):
                    fresh_i.append(i)
                    fresh_j.append(j)
        for place in range(1, len(fresh_i)):
            A[fresh_j[place], fresh_i[place]] = False
        # Implied both ways: contradictory premises, and neither is drawn.
        both = 0
        for place in range(1, len(fresh_i)):
            i, j = fresh_i[place], fresh_j[place]
            if i < j and not A[i, j]:
                A[i, j] = A[j, i] = True
                both += 1
        if len(fresh_i) - 1 == 2 * both:
            return


@njit(cache=True, nogil=True)
def _implied(A, near, ambiguous, i, j):  # type: ignore[no-untyped-def]
    """Whether i - j must be i -> j."""
    around = near.members[near.start[i] : near.start[i + 1]]
    for k in around:
        if k == j:
            continue
        apart = not (A[k, j] or A[j, k])
        into, out = A[k, i] and not A[i, k], A[i, k] and not A[k, i]
        if into and apart and not _among(ambiguous, len(A), k, i, j):  # R1: k -> i - j
            return True
        if out and A[k, j] and not A[j, k]:  # R2: i -> k -> j
            return True
        if into or out:
            continue
        if A[k, j] and not A[j, k]:  # R3: i - k -> j, i - l -> j, k and l apart
            for h in around:
                if (
                    h > k and A[i, h] and A[h, i] and A[h, j] and not A[j, h] and not A[h, k] and not A[k, h]
                    and not _among(ambiguous, len(A), k, i, h)
                ):  # fmt: skip
                    return True
        if apart and not _among(
            ambiguous, len(A), k, i, j
        ):  # R4: i - k -> l -> j, l next to i, k and j apart
            for h in around:
                if A[k, h] and not A[h, k] and A[h, j] and not A[j, h]:
                    return True
    return False


@njit(cache=True, nogil=True)
def _among(keys, p, i, k, j):  # type: ignore[no-untyped-def]
    """Whether a triple i - k - j is listed, by bisection."""
    key = (min(i, j) * p + k) * p + max(i, j)
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low < len(keys) and keys[low] == key
