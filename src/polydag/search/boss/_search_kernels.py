"""Grow-shrink trees and best moves of an order, compiled (Andrews et al. 2023, sections 3 and 4).

The tree of a variable v has v itself as root (node number v). A node stands for the parents taken on the way
to it; its list holds the candidates that gain beyond those, the best first. Growing parents among the
predecessors of v follows a path: take the first candidate of the list that is a predecessor, go to its node,
and stop where there is none. What shrinking then leaves depends on the node alone. So following a path again
costs no score.

Lists of Gaussian scores are computed on the way. The workspace holds the factorisation of the parents on the
last path, and the next path keeps what it has in common with that one: a new node costs one elimination step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import inner, kernel
from polydag.scores.gaussian.form import DETERMINED
from polydag.search._sorting_kernels import descending

NEW, ASKED = -1, -2  # in `first`: not visited yet; a path waits for the list
DONE, SWEPT, WAITING, FULL, PAUSED = 0, 1, 2, 3, 4
# In `state`: whose turn, moves refused in a row, moves, nodes asked for, lists computed, no more space.
TURN, IDLE, MOVED, OPEN, WORK, SHORT = 0, 1, 2, 3, 4, 5
_PAUSE = 4000  # lists between two returns to the caller, who can then be interrupted
_ALIKE = 1e9  # gains are compared to nine decimals


class Trees(NamedTuple):
    """All trees. Nodes: whose, the node above, where its list names this one; list; parents kept; scores.

    The pool of lists: candidates, their gains, the nodes they lead to (-1: none yet). `used` counts nodes and
    pool entries; `grown` scores the parents on the path, `score` those that shrinking keeps (`kept` is -1
    where no path has ended).
    """

    owner: Index
    above: Index
    entry: Index
    first: Index
    size: Index
    kept: Index
    kept_size: Index
    grown: Array
    score: Array
    item: NDArray[np.int32]
    gain: Array
    child: NDArray[np.int32]
    used: Index


class Order(NamedTuple):
    """An order, the place of each variable in it, and the tree node where each one's path ends."""

    sequence: Index
    place: Index
    end: Index


class Limits(NamedTuple):
    """What knowledge and screening say: `[u, v]` required; `[v, u]` barred; the required parents, listed."""

    required: Mask
    barred: Mask
    fixed_start: Index
    fixed: Index
    tolerance: float


class Gaussian(NamedTuple):
    """The terms of a Gaussian score for each group of variables, and a workspace; empty for other scores.

    Row k of `explained` is what parent k of the path explains of each variable (a Cholesky row); row k of
    `variance` and `covariance` are the variables' remaining variance and covariance with the node, given the
    first k parents; `along` and `left` are the same of the node itself. `loaded` is the node whose path it
    is, and the number of its parents.
    """

    C: Array
    group: Index
    constant: Array
    slope: Array
    half: float
    explained: Array
    variance: Array
    covariance: Array
    left: Array
    member: Index
    path: Index
    gain: Array
    candidate: Index
    loaded: Index


@inner
def _path(T: Trees, K: Limits, node: Int, found: Index) -> int:
    """Write the parents that a node stands for, those required first; how many there are."""
    v = T.owner[node]
    count = K.fixed_start[v + 1] - K.fixed_start[v]
    for k in range(count):
        found[k] = K.fixed[K.fixed_start[v] + k]
    up = node
    while T.above[up] >= 0:
        count += 1
        up = T.above[up]
    k = count
    while T.above[node] >= 0:
        k -= 1
        found[k] = T.item[T.entry[node]]
        node = T.above[node]
    return int(count)


@kernel
def members(T: Trees, K: Limits, node: Int) -> Index:
    """The parents a node stands for: those required, then those taken, in this order."""
    found = np.empty(len(K.required), np.int64)
    count = _path(T, K, node, found)
    return found[:count]


@inner
def _eliminate(S: Gaussian, C: Array, s: Int, k: Int) -> None:
    """Take out what s, as parent k of the path, explains of every variable and of the node."""
    pivot = S.variance[k, s]
    inverse = 1.0 / math.sqrt(pivot) if pivot > DETERMINED * C[s, s] else 0.0
    own = S.covariance[k, s] * inverse
    S.left[k + 1] = S.left[k] - own * own
    row, line = S.explained[k], C[s]
    p = len(line)
    for c in range(p):
        row[c] = line[c]
    whole = k - k % 4
    for i in range(0, whole, 4):  # four at a time: memory traffic is what takes time
        one, two, three, four = S.explained[i], S.explained[i + 1], S.explained[i + 2], S.explained[i + 3]
        f, g, h, j = one[s], two[s], three[s], four[s]
        for c in range(p):
            row[c] -= f * one[c] + g * two[c] + h * three[c] + j * four[c]
    for i in range(whole, k):
        above = S.explained[i]
        factor = above[s]
        for c in range(p):
            row[c] -= factor * above[c]
    before, after = S.variance[k], S.variance[k + 1]
    cross, across = S.covariance[k], S.covariance[k + 1]
    for c in range(p):
        value = row[c] * inverse
        row[c] = value
        after[c] = before[c] - value * value
        across[c] = cross[c] - value * own


@inner
def _load(T: Trees, S: Gaussian, K: Limits, node: Int, C: Array) -> int:
    """Factorise the parents of a node, keeping what they share with those loaded; their number."""
    v = T.owner[node]
    count: int = _path(T, K, node, S.path)
    same = 0
    if S.loaded[0] == v:
        while same < min(count, S.loaded[1]) and S.path[same] == S.member[same]:
            same += 1
    else:
        S.left[0] = C[v, v]
        for c in range(len(C)):
            S.variance[0, c] = C[c, c]
            S.covariance[0, c] = C[v, c]
    for k in range(same, count):
        S.member[k] = S.path[k]
        _eliminate(S, C, S.path[k], k)
    S.loaded[0], S.loaded[1] = v, count
    return count


@inner
def _list(T: Trees, S: Gaussian, K: Limits, node: Int) -> None:
    """Compute and write a node's list; there is space for it."""
    v = T.owner[node]
    g = S.group[v]
    C = S.C[g]
    k = _load(T, S, K, node, C)
    base, rate = S.constant[g, k], S.slope[g, k]
    # The logarithm is taken only of partial correlations strong enough to pay.
    threshold = -math.expm1(base / rate) if S.half == 0.0 else -np.inf
    spare = DETERMINED * C[v, v]
    rest = max(S.left[k], spare)
    level, cross, barred = S.variance[k], S.covariance[k], K.barred[v]
    count = 0
    for x in range(len(C) if S.left[k] > spare or S.half != 0.0 else 0):
        scale = max(level[x], DETERMINED * C[x, x]) * rest
        if not cross[x] * cross[x] > threshold * scale or barred[x] or x == v:
            continue
        share = min(cross[x] * cross[x] / scale, 1.0 - 1e-12)
        if level[x] <= DETERMINED * C[x, x] or S.left[k] <= spare:
            share = 0.0
        gain = base - rate * math.log1p(-share)
        if S.half != 0.0:
            gain -= 0.5 * S.half * math.log(scale)
        if gain > K.tolerance:
            taken = False
            for i in range(k):
                taken |= S.member[i] == x
            if not taken:
                S.candidate[count], S.gain[count] = x, gain
                count += 1
    write_list(T, node, S.candidate[:count], S.gain[:count])


@kernel
def write_list(T: Trees, node: Int, candidates: Index, gains: Array) -> None:
    """Write the candidates that gain, the best first, the smallest index among equals."""
    # Rounded, since candidates that are alike should not be told apart by the last bit.
    rounded = np.empty(len(gains))
    for k in range(len(gains)):
        rounded[k] = np.rint(gains[k] * _ALIKE)
    best_first = descending(rounded)
    start = T.used[1]
    for k in range(len(best_first)):
        T.item[start + k] = candidates[best_first[k]]
        T.gain[start + k] = gains[best_first[k]]
        T.child[start + k] = -1
    T.first[node], T.size[node] = start, len(best_first)
    T.used[1] = start + len(best_first)


@kernel
def write_kept(T: Trees, node: Int, kept: Index, score: float) -> None:
    """Write what shrinking leaves of a node's parents."""
    start = T.used[1]
    for k in range(len(kept)):
        T.item[start + k] = kept[k]
    T.kept[node], T.kept_size[node] = start, len(kept)
    T.score[node] = score
    T.used[1] = start + len(kept)


@kernel
def gaussian_shrink(S: Gaussian, v: Int, parents: Index, fixed: Int, tolerance: float) -> tuple[Index, float]:
    """Take out parents, the worst first, while that gains, but none of the first `fixed`; the gain of it.

    With b the coefficients and P the inverse of the parents' covariances, parent j has the variance
    `1/P[j, j]` given the others, and taking it out leaves `b[j]²/P[j, j]` more of v; P and b of the others
    follow by elimination.
    """
    g = S.group[v]
    C = S.C[g]
    k = remaining = len(parents)
    P, b, left = _regression(C, v, parents)
    gone = np.zeros(k, np.bool_)
    spare = DETERMINED * C[v, v]
    total = 0.0
    while remaining > fixed:
        base, rate = S.constant[g, remaining - 1], S.slope[g, remaining - 1]
        worst, loss = -1, -tolerance
        for j in range(fixed, k):
            if gone[j]:
                continue
            x = parents[j]
            own = 1.0 / P[j, j] if P[j, j] > 0.0 else 0.0
            without = left + b[j] * b[j] * own
            share = min((without - left) / max(without, spare), 1.0 - 1e-12)
            if own <= DETERMINED * C[x, x] or without <= spare:
                share = 0.0
            gain = base - rate * math.log1p(-share)
            if S.half != 0.0:
                gain -= 0.5 * S.half * math.log(max(own, DETERMINED * C[x, x]) * max(without, spare))
            if gain < loss:
                worst, loss = j, gain
        if worst < 0:
            break
        gone[worst] = True
        remaining -= 1
        total -= loss
        if P[worst, worst] > 0.0:
            left += b[worst] * b[worst] / P[worst, worst]
            for i in range(k):
                factor = P[i, worst] / P[worst, worst]
                if i != worst and not gone[i]:
                    b[i] -= factor * b[worst]
                    for t in range(k):
                        P[i, t] -= factor * P[worst, t]
    kept = np.empty(remaining, np.int64)
    count = 0
    for j in range(k):
        if not gone[j]:
            kept[count] = parents[j]
            count += 1
    return kept, total


@inner
def _regression(C: Array, v: Int, parents: Index) -> tuple[Array, Array, float]:
    """The inverse of the parents' covariances, the coefficients, the variance left of v."""
    k = len(parents)
    L = np.zeros((k, k))  # the inverse of the Cholesky factor, row by row
    row, line = np.empty(k), np.empty(k)
    P, b = np.zeros((k, k)), np.zeros(k)
    left = C[v, v]
    for i in range(k):
        s = parents[i]
        pivot = C[s, s]
        for t in range(i):
            line[t] = C[s, parents[t]]
        for j in range(i):
            value = 0.0
            for t in range(j + 1):
                value += L[j, t] * line[t]
            row[j] = value
            pivot -= value * value
        inverse = 1.0 / math.sqrt(pivot) if pivot > DETERMINED * C[s, s] else 0.0
        own = L[i]
        for j in range(i):
            factor, above = row[j] * inverse, L[j]
            for t in range(j + 1):
                own[t] -= factor * above[t]
        own[i] = inverse
        along = 0.0
        for t in range(i + 1):
            along += own[t] * C[v, parents[t]]
        left -= along * along
        for t in range(i + 1):
            b[t] += own[t] * along
            for u in range(i + 1):
                P[t, u] += own[t] * own[u]
    return P, b, left


@inner
def _shrink(T: Trees, S: Gaussian, K: Limits, node: Int) -> None:
    """Compute and write what shrinking leaves of a node's parents; there is space for it."""
    v = T.owner[node]
    parents = members(T, K, node)
    fixed = K.fixed_start[v + 1] - K.fixed_start[v]
    more = 0.0
    if len(parents) - fixed > 1:  # a single one gained when it was taken
        parents, more = gaussian_shrink(S, v, parents, fixed, K.tolerance)
    write_kept(T, node, parents, T.grown[node] + more)


@kernel
def end_of_path(T: Trees, S: Gaussian, K: Limits, place: Index, v: Int, limit: Int, x: Int, with_x: bool,
         asked: Index, state: Index) -> int:  # fmt: skip
    """The node where growing ends for v after those placed before `limit`, with x among them or not.

    -1 where a list is still to be computed by the caller, its node being noted in `asked`, or where there is
    no more space.
    """
    node = v
    p = len(place)
    while True:
        if T.used[1] + p > len(T.item) or T.used[0] == len(T.owner):
            state[SHORT] = 1
            return -1
        if T.first[node] < 0:
            if len(S.C) == 0:
                if T.first[node] == NEW:
                    T.first[node] = ASKED
                    asked[state[OPEN]] = node
                    state[OPEN] += 1
                return -1
            _list(T, S, K, node)
            state[WORK] += 1
            continue
        start = T.first[node]
        stop = start + T.size[node]
        e = start
        while e < stop:
            u = T.item[e]
            if with_x if u == x else place[u] < limit:
                break
            e += 1
        if e == stop:
            if T.kept[node] < 0:
                _shrink(T, S, K, node)
            return int(node)
        if T.child[e] < 0:
            new = T.used[0]
            T.used[0] += 1
            T.child[e] = new
            T.owner[new], T.above[new], T.entry[new] = v, node, e
            T.first[new], T.kept[new] = NEW, -1
            T.grown[new] = T.grown[node] + T.gain[e]
        node = T.child[e]


@inner
def _would_take(T: Trees, node: Int, u: Int) -> bool:
    """Whether u, if it came before, would be taken somewhere on the path to this node."""
    for e in range(T.first[node], T.first[node] + T.size[node]):
        if T.item[e] == u:
            return True
    while T.above[node] >= 0:
        taken = T.entry[node]
        node = T.above[node]
        for e in range(T.first[node], taken):
            if T.item[e] == u:
                return True
    return False


@inner
def _took(T: Trees, node: Int, u: Int) -> bool:
    while T.above[node] >= 0:
        if T.item[T.entry[node]] == u:
            return True
        node = T.above[node]
    return False


@inner
def _try(
    T: Trees,
    S: Gaussian,
    K: Limits,
    P: Order,
    x: Int,
    after: Index,
    before: Index,
    own: Index,
    asked: Index,
    state: Index,
) -> bool:
    """The paths' ends if x stands before (`after`) or after (`before`) each other, and x's own by position.

    False where some are not known yet.
    """
    p = len(P.place)
    here = P.place[x]
    for v in range(p):
        if v == x:
            continue
        end = P.end[v]
        after[v] = before[v] = end
        # Only a variable that was taken is missed, and only one that would be taken changes anything.
        if P.place[v] < here:
            if _would_take(T, end, x):
                after[v] = end_of_path(T, S, K, P.place, v, P.place[v], x, True, asked, state)
        elif _took(T, end, x):
            before[v] = end_of_path(T, S, K, P.place, v, P.place[v], x, False, asked, state)
    end = -1
    for position in range(p):
        limit = position + (position > here)
        if end < 0 or _would_take(T, end, P.sequence[limit - 1]):
            end = end_of_path(T, S, K, P.place, x, limit, x, False, asked, state)
        own[position] = end
    return bool(state[OPEN] == 0 and state[SHORT] == 0)


@inner
def _best_position(T: Trees, K: Limits, P: Order, x: Int, after: Index, before: Index, own: Index) -> int:
    """Where the total is largest, between what x requires and what requires x; here or the first on ties."""
    p = len(P.place)
    here = P.place[x]
    total = np.empty(p)
    running = 0.0
    for position in range(p):
        total[position] = running + T.score[own[position]]
        if position < p - 1:
            v = P.sequence[position + (position >= here)]
            running += T.score[before[v]] - T.score[after[v]]
    low, high = 0, p - 1
    for v in range(p):
        if K.required[v, x]:
            low = max(low, P.place[v] - (P.place[v] > here) + 1)
        if K.required[x, v]:
            high = min(high, P.place[v] - (P.place[v] > here))
    best: int = here
    for position in range(low, high + 1):
        if total[position] > total[best] + K.tolerance:
            best = position
    return best


@inner
def _move(P: Order, x: Int, position: Int, after: Index, before: Index, own: Index) -> None:
    here = P.place[x]
    step = 1 if position > here else -1
    for k in range(here, position, step):
        v = P.sequence[k + step]
        P.sequence[k] = v
        P.place[v] = k
        P.end[v] = before[v] if step > 0 else after[v]
    P.sequence[position] = x
    P.place[x] = position
    P.end[x] = own[position]


@kernel
def improve(T: Trees, S: Gaussian, K: Limits, P: Order, asked: Index, state: Index) -> int:
    """Move variables in turn, each to its best position, until a sweep ends or something is missing."""
    p = len(P.place)
    after, before, own = np.empty(p, np.int64), np.empty(p, np.int64), np.empty(p, np.int64)
    state[WORK] = 0
    while True:
        x = state[TURN]
        if not _try(T, S, K, P, x, after, before, own, asked, state):
            return FULL if state[SHORT] else WAITING
        position = _best_position(T, K, P, x, after, before, own)
        state[IDLE] += 1
        if position != P.place[x]:
            _move(P, x, position, after, before, own)
            state[IDLE] = 0
            state[MOVED] += 1
        state[TURN] = (x + 1) % p
        if state[IDLE] >= p:
            return DONE
        if state[TURN] == 0:
            return SWEPT
        if state[WORK] > _PAUSE:
            return PAUSED


@kernel
def settle(T: Trees, S: Gaussian, K: Limits, P: Order, asked: Index, state: Index) -> int:
    """Walk every tree for the order as it is."""
    for v in range(len(P.place)):
        P.end[v] = end_of_path(T, S, K, P.place, v, P.place[v], v, False, asked, state)
        if state[SHORT]:
            return FULL
    return DONE if state[OPEN] == 0 else WAITING
