"""Grow-shrink trees and best moves of an order, compiled (Andrews et al. 2023, sections 3 and 4).

The tree of a variable v has v itself as root (node number v). A node stands for the parents taken on the way
to it; its list holds the candidates that gain beyond those, the best first. Growing parents among the
predecessors of v is a walk: take the first candidate of the list that is a predecessor, go to its node, and
stop where there is none. What shrinking then leaves depends on the node alone. So every walk after the first
costs no score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polydag.scores.gaussian._families_kernels import gaussian_gains

Index = NDArray[np.int64]
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Int = int | np.signedinteger

NEW, ASKED = -1, -2  # in `first`: not visited yet; a walk waits for the list
DONE, SWEPT, WAITING, FULL = 0, 1, 2, 3
TURN, IDLE, MOVED, OPEN = 0, 1, 2, 3  # in `state`: whose turn, moves refused in a row, moves, nodes asked for


class Trees(NamedTuple):
    """All trees. Nodes: whose, the node above, where its list names this one; list; parents kept; scores.

    The pool of lists: candidates, their gains, the nodes they lead to (-1: none yet). `used` counts nodes and
    pool entries; `grown` scores the parents of the walk, `score` those that shrinking keeps.
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
    item: Index
    gain: Array
    child: Index
    used: Index


class Order(NamedTuple):
    """An order, the place of each variable in it, and the tree node where each one's walk ends."""

    sequence: Index
    place: Index
    end: Index


class Gaussian(NamedTuple):
    """What `gaussian_gains` needs, for each group of variables scored by the same rows."""

    C: Array
    group: Index
    constant: Array
    slope: Array
    half: float


@njit(cache=True)
def walk(T: Trees, place: Index, v: Int, limit: Int, x: Int, with_x: bool, asked: Index, state: Index) -> Int:
    """The node where growing ends for v after those placed before `limit`, with x among them or not.

    -1 where a list is still to be computed; its node is then noted in `asked`.
    """
    node = v
    while True:
        if T.first[node] < 0:
            if T.first[node] == NEW:
                T.first[node] = ASKED
                asked[state[OPEN]] = node
                state[OPEN] += 1
            return -1
        start = T.first[node]
        stop = start + T.size[node]
        e = start
        while e < stop:
            u = T.item[e]
            if with_x if u == x else place[u] < limit:
                break
            e += 1
        if e == stop:
            return node
        if T.child[e] < 0:
            new = T.used[0]
            T.used[0] += 1
            T.child[e] = new
            T.owner[new], T.above[new], T.entry[new] = v, node, e
            T.grown[new] = T.grown[node] + T.gain[e]
        node = T.child[e]


@njit(cache=True)
def _would_take(T: Trees, node: Int, u: Int) -> bool:
    """Whether u, if it came before, would be taken somewhere on the walk to this node."""
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


@njit(cache=True)
def _took(T: Trees, node: Int, u: Int) -> bool:
    while T.above[node] >= 0:
        if T.item[T.entry[node]] == u:
            return True
        node = T.above[node]
    return False


@njit(cache=True)
def _try(
    T: Trees, P: Order, x: Int, after: Index, before: Index, own: Index, asked: Index, state: Index
) -> bool:
    """The walks' ends if x stands before (`after`) or after (`before`) each other, and x's own by position.

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
                after[v] = walk(T, P.place, v, P.place[v], x, True, asked, state)
        elif _took(T, end, x):
            before[v] = walk(T, P.place, v, P.place[v], x, False, asked, state)
    end = -1
    for position in range(p):
        limit = position + (position > here)
        if end < 0 or _would_take(T, end, P.sequence[limit - 1]):
            end = walk(T, P.place, x, limit, x, False, asked, state)
        own[position] = end
    return bool(state[OPEN] == 0)


@njit(cache=True)
def _best_position(T: Trees, P: Order, x: Int, required: Mask, after: Index, before: Index, own: Index,
                   tolerance: float) -> int:  # fmt: skip
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
        if required[v, x]:
            low = max(low, P.place[v] - (P.place[v] > here) + 1)
        if required[x, v]:
            high = min(high, P.place[v] - (P.place[v] > here))
    best: int = here
    for position in range(low, high + 1):
        if total[position] > total[best] + tolerance:
            best = position
    return best


@njit(cache=True)
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


@njit(cache=True)
def improve(T: Trees, P: Order, required: Mask, tolerance: float, asked: Index, state: Index) -> int:
    """Move variables in turn, each to its best position, until a sweep ends or lists are missing."""
    p = len(P.place)
    after, before, own = np.empty(p, np.int64), np.empty(p, np.int64), np.empty(p, np.int64)
    while True:
        if T.used[0] + 3 * p > len(T.owner):
            return FULL
        x = state[TURN]
        if not _try(T, P, x, after, before, own, asked, state):
            return WAITING
        position = _best_position(T, P, x, required, after, before, own, tolerance)
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


@njit(cache=True)
def settle(T: Trees, P: Order, asked: Index, state: Index) -> int:
    """Walk every tree for the order as it is."""
    p = len(P.place)
    if T.used[0] + p > len(T.owner):
        return FULL
    for v in range(p):
        P.end[v] = walk(T, P.place, v, P.place[v], v, False, asked, state)
    return DONE if state[OPEN] == 0 else WAITING


@njit(cache=True)
def members(T: Trees, node: Int, required: Mask) -> Index:
    """The parents a node stands for: those required, then those taken, in this order."""
    v = T.owner[node]
    taken = 0
    up = node
    while T.above[up] >= 0:
        taken += 1
        up = T.above[up]
    fixed = np.flatnonzero(required[:, v])
    found = np.empty(len(fixed) + taken, np.int64)
    found[: len(fixed)] = fixed
    k = len(found)
    while T.above[node] >= 0:
        k -= 1
        found[k] = T.item[T.entry[node]]
        node = T.above[node]
    return found


@njit(cache=True)
def candidates(parents: Index, v: Int, barred: Mask) -> Index:
    """Those that may become parents of v beside these."""
    free = ~barred[:, v]
    free[v] = False
    for u in parents:
        free[u] = False
    return np.flatnonzero(free)


@njit(cache=True)
def fill(
    T: Trees, node: Int, others: Index, gains: Array, kept: Index, score: float, tolerance: float
) -> None:
    """Write a node's list: the candidates that gain, the best first, the smallest index among equals."""
    positive = np.flatnonzero(gains > tolerance)
    # Rounded, since candidates that are alike should not be told apart by the last bit.
    ranked = positive[np.argsort(-np.round(gains[positive], 9), kind="mergesort")]
    start = T.used[1]
    for k in range(len(ranked)):
        T.item[start + k] = others[ranked[k]]
        T.gain[start + k] = gains[ranked[k]]
        T.child[start + k] = -1
    T.first[node], T.size[node] = start, len(ranked)
    start += len(ranked)
    T.kept[node], T.kept_size[node] = start, len(kept)
    T.item[start : start + len(kept)] = kept
    T.score[node] = score
    T.used[1] = start + len(kept)


@njit(cache=True)
def gaussian_shrink(S: Gaussian, v: Int, parents: Index, fixed: Int, tolerance: float) -> tuple[Index, float]:
    """Take out parents, the worst first, while that gains, but none of the first `fixed`; the gain of it."""
    g = S.group[v]
    level = np.zeros(1, np.int64)
    total = 0.0
    while len(parents) > fixed:
        worst, loss = -1, -tolerance
        for k in range(fixed, len(parents)):
            rest = np.concatenate((parents[:k], parents[k + 1 :]))
            gain = gaussian_gains(
                S.C[g],
                v,
                parents[k : k + 1],
                rest,
                level - 1,
                level,
                S.constant[g],
                S.slope[g],
                S.half,
                False,
            )[0, 0]
            if gain < loss:
                worst, loss = k, gain
        if worst < 0:
            break
        parents = np.concatenate((parents[:worst], parents[worst + 1 :]))
        total -= loss
    return parents, total


@njit(cache=True)
def gaussian_fill(T: Trees, node: Int, S: Gaussian, required: Mask, barred: Mask, tolerance: float) -> None:
    """Compute and write a node's list and what shrinking leaves of its parents."""
    v = T.owner[node]
    g = S.group[v]
    parents = members(T, node, required)
    fixed = required[:, v].sum()
    others = candidates(parents, v, barred)
    level = np.zeros(1, np.int64)
    gains = gaussian_gains(
        S.C[g], v, others, parents, level - 1, level, S.constant[g], S.slope[g], S.half, True
    )[0]
    kept, more = parents, 0.0
    if len(parents) - fixed > 1:  # a single one gained when it was taken
        kept, more = gaussian_shrink(S, v, parents, fixed, tolerance)
    fill(T, node, others, gains, kept, T.grown[node] + more, tolerance)


@njit(cache=True)
def gaussian_answer(
    T: Trees, S: Gaussian, required: Mask, barred: Mask, tolerance: float, asked: Index, state: Index
) -> int:
    """Fill the nodes asked for, while they fit."""
    while state[OPEN] > 0:
        if T.used[1] + 2 * len(required) > len(T.item):
            return FULL
        state[OPEN] -= 1
        gaussian_fill(T, asked[state[OPEN]], S, required, barred, tolerance)
    return DONE


@njit(cache=True)
def gaussian_improve(
    T: Trees,
    P: Order,
    S: Gaussian,
    required: Mask,
    barred: Mask,
    tolerance: float,
    asked: Index,
    state: Index,
) -> int:
    """`improve`, answering its own questions."""
    while True:
        if gaussian_answer(T, S, required, barred, tolerance, asked, state) == FULL:
            return FULL
        status = improve(T, P, required, tolerance, asked, state)
        if status != WAITING:
            return status
