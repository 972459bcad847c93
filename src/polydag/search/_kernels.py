"""A compiled queue of operators: a row of candidates per target node, best first, and a tournament over rows.

Rows are replaced as a whole when their node's surroundings change. Space is only appended to; `compact` moves the
live rows to a new queue when it runs out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from polydag.search.ges._kernels import INSERT, TURN_ARROW, path_exists

_WITNESS = 8  # longer paths are searched for again
_NONE, _END = -2, -1


class Queue(NamedTuple):
    """Candidates: gain, source, kind and the place of their set in `member`; rows by target; the tournament."""

    gain: NDArray[np.float64]
    source: NDArray[np.int64]
    kind: NDArray[np.int64]
    first: NDArray[np.int64]
    size: NDArray[np.int64]
    member: NDArray[np.int64]
    row_start: NDArray[np.int64]
    row_size: NDArray[np.int64]
    member_start: NDArray[np.int64]
    member_size: NDArray[np.int64]
    cursor: NDArray[np.int64]
    tree: NDArray[np.float64]
    used: NDArray[np.int64]  # candidates, members, rows passed over in this step
    passed: NDArray[np.int64]
    witness: NDArray[np.int32]  # the inner nodes of a path that made an Insert invalid, -1 after the last


def new_queue(p: int, room: int, member_room: int) -> Queue:
    """An empty queue for p targets."""
    leaves = 1
    while leaves < p:
        leaves *= 2
    whole = [np.empty(room, dtype=np.int64) for _ in range(4)]
    rows = [np.zeros(p, dtype=np.int64) for _ in range(5)]
    return Queue(
        np.empty(room), *whole, np.empty(member_room, dtype=np.int64), *rows,
        np.full(2 * leaves, -np.inf), np.zeros(3, dtype=np.int64), np.empty(p, dtype=np.int64),
        np.empty((room, _WITNESS), dtype=np.int32),
    )  # fmt: skip


@njit(cache=True)
def _set_top(Q, y):  # type: ignore[no-untyped-def]
    """Enter the best remaining gain of a row into the tournament."""
    node = len(Q.tree) // 2 + y
    Q.tree[node] = Q.gain[Q.row_start[y] + Q.cursor[y]] if Q.cursor[y] < Q.row_size[y] else -np.inf
    while node > 1:
        node //= 2
        Q.tree[node] = max(Q.tree[2 * node], Q.tree[2 * node + 1])


@njit(cache=True)
def fill(Q, y, candidates, kinds, element, depth, skip, wanted, gains, tolerance):  # type: ignore[no-untyped-def]
    """Replace a row by the wanted gains above a tolerance; False where there is no room for it.

    Row r of `gains` belongs to set r of a tree of sets; its first `skip[r]` elements are not members of the
    operator's own set.
    """
    rows, columns = gains.shape
    count = members = 0
    for row in range(rows):
        before = count
        for c in range(columns):
            count += gains[row, c] > tolerance and wanted[row, c]
        members += (depth[row] - skip[row]) * (count > before)
    start, place = Q.used[0], Q.used[1]
    if start + count > len(Q.gain) or place + members > len(Q.member):
        return False
    gain, found = np.empty(count), np.empty((count, 2), np.int64)
    first = np.empty(rows, np.int64)
    path = np.empty(depth.max() + 1 if rows else 1, np.int64)
    at, end = 0, place
    for row in range(rows):
        if depth[row]:
            path[depth[row] - 1] = element[row]
        before = at
        for c in range(columns):
            if gains[row, c] > tolerance and wanted[row, c]:
                gain[at], found[at, 0], found[at, 1] = gains[row, c], row, c
                at += 1
        if at > before:
            first[row] = end
            for k in range(skip[row], depth[row]):
                Q.member[end] = path[k]
                end += 1
    order = np.argsort(-gain, kind="mergesort")  # stable: ties keep the order of sets and sources
    for k in range(count):
        row, c = found[order[k], 0], found[order[k], 1]
        Q.gain[start + k], Q.source[start + k], Q.kind[start + k] = gain[order[k]], candidates[c], kinds[c]
        Q.first[start + k], Q.size[start + k] = first[row], depth[row] - skip[row]
        Q.witness[start + k, 0] = _NONE
    Q.row_start[y], Q.row_size[y], Q.member_start[y], Q.member_size[y] = start, count, place, members
    Q.cursor[y] = 0
    Q.used[0] += count
    Q.used[1] += members
    _set_top(Q, y)
    return True


@njit(cache=True)
def compact(old, new):  # type: ignore[no-untyped-def]
    """Copy the live rows of one queue to an empty, larger one."""
    start = place = 0
    for y in range(len(old.row_start)):
        a, n = old.row_start[y], old.row_size[y]
        b, m = old.member_start[y], old.member_size[y]
        new.gain[start : start + n] = old.gain[a : a + n]
        new.source[start : start + n] = old.source[a : a + n]
        new.kind[start : start + n] = old.kind[a : a + n]
        new.size[start : start + n] = old.size[a : a + n]
        new.first[start : start + n] = old.first[a : a + n] + (place - b)
        new.witness[start : start + n] = old.witness[a : a + n]
        new.member[place : place + m] = old.member[b : b + m]
        new.row_start[y], new.row_size[y], new.member_start[y], new.member_size[y] = start, n, place, m
        start += n
        place += m
        _set_top(new, y)
    new.used[0], new.used[1] = start, place


@njit(cache=True)
def restart(Q):  # type: ignore[no-untyped-def]
    """Begin a new step: whatever was passed over may be valid again."""
    for k in range(Q.used[2]):
        y = Q.passed[k]
        if Q.cursor[y] > 0:
            Q.cursor[y] = 0
            _set_top(Q, y)
    Q.used[2] = 0


@njit(cache=True)
def pass_over(Q, y):  # type: ignore[no-untyped-def]
    """Leave out the best candidate of a row for the rest of this step."""
    if Q.cursor[y] == 0:
        Q.passed[Q.used[2]] = y
        Q.used[2] += 1
    Q.cursor[y] += 1
    _set_top(Q, y)


@njit(cache=True)
def _still_blocked(Q, G, c, x, y):  # type: ignore[no-untyped-def]
    """Whether the path that once made an Insert invalid is still there (its set cannot have changed)."""
    if Q.witness[c, 0] == _NONE:
        return False
    a = y
    for k in range(_WITNESS):
        b = Q.witness[c, k]
        if b == _END:
            break
        if not G.A[a, b]:
            return False
        a = b
    return G.A[a, x]


@njit(cache=True)
def _remember(Q, scratch, c, x, y):  # type: ignore[no-untyped-def]
    """Keep the path just found from y to x, if it is short."""
    length, node = 0, scratch.via[x]
    while node != y:
        length += 1
        node = scratch.via[node]
    Q.witness[c, 0] = _NONE
    if length > _WITNESS:
        return
    if length < _WITNESS:
        Q.witness[c, length] = _END
    node = scratch.via[x]
    for k in range(length - 1, -1, -1):
        Q.witness[c, k] = node
        node = scratch.via[node]


@njit(cache=True)
def _valid(Q, G, scratch, c, y, max_degree):  # type: ignore[no-untyped-def]
    """Whether a candidate's conditions that depend on more than y's surroundings hold."""
    x, kind = Q.source[c], Q.kind[c]
    members = Q.member[Q.first[c] : Q.first[c] + Q.size[c]]
    if kind == INSERT:
        if G.degree[x] >= max_degree or G.degree[y] >= max_degree or _still_blocked(Q, G, c, x, y):
            return False
        if path_exists(G, scratch, y, x, members, False):
            _remember(Q, scratch, c, x, y)
            return False
        return True
    return kind != TURN_ARROW or not path_exists(G, scratch, y, x, members, True)


@njit(cache=True)
def best(Q, G, scratch, max_degree):  # type: ignore[no-untyped-def]
    """The target and the place of the best valid candidate, (-1, -1) if there is none; ties by target's index."""
    leaves = len(Q.tree) // 2
    while Q.tree[1] > -np.inf:
        node = 1
        while node < leaves:
            node *= 2
            if Q.tree[node] < Q.tree[node // 2]:
                node += 1
        y = node - leaves
        c = Q.row_start[y] + Q.cursor[y]
        if _valid(Q, G, scratch, c, y, max_degree):
            return y, c
        pass_over(Q, y)
    return -1, -1
