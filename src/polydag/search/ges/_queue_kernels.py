"""A compiled queue of operators: a row of candidates per target node, best first, and a tournament over rows.

Rows are replaced as a whole when their node's surroundings change. Space is only appended to; `compact` moves
the live rows to a new queue when it runs out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import inner, kernel
from polydag.search._sorting_kernels import descending
from polydag.search.ges._essential_graph_kernels import INSERT, TURN_ARROW, Change, Pdag
from polydag.search.ges._operators_kernels import PathMemory, path_exists

_LONGEST_PATH = 8  # inner nodes; longer paths are not kept but searched for again
_NONE, _END = -2, -1
_ALIKE = 1e-6  # log scores that differ by less than about this are taken for equal


class Queue(NamedTuple):
    """Candidates: gain, source, kind, place of their set in `member`; rows by target; the tournament."""

    gain: Array
    source: Index
    kind: Index
    first: Index
    size: Index
    member: Index
    row_start: Index
    row_size: Index
    member_start: Index
    member_size: Index
    cursor: Index
    tree: Array
    used: Index  # candidates, members, rows skipped in this step
    skipped: Index
    blocking_path: NDArray[np.int32]  # inner nodes of a path that blocks an Insert, -1 after the last
    blocked_by: Mask  # [a, y]: a path through an edge that leaves a blocks an Insert of row y


def new_queue(p: int, size: int, member_size: int, blocked_by: Mask) -> Queue:
    """An empty queue for p targets."""
    leaves = 1
    while leaves < p:
        leaves *= 2

    def empty(length: int) -> Index:
        return np.empty(length, dtype=np.int64)

    def zeros() -> Index:
        return np.zeros(p, dtype=np.int64)

    return Queue(
        gain=np.empty(size), source=empty(size), kind=empty(size), first=empty(size), size=empty(size),
        member=empty(member_size), row_start=zeros(), row_size=zeros(), member_start=zeros(),
        member_size=zeros(), cursor=zeros(),
        tree=np.full(2 * leaves, -np.inf), used=np.zeros(3, dtype=np.int64), skipped=empty(p),
        blocking_path=np.empty((size, _LONGEST_PATH), dtype=np.int32), blocked_by=blocked_by,
    )  # fmt: skip


@inner
def _rank(gain: float) -> float:
    """A gain by which operators are ordered: those that are alike should not differ by rounding."""
    return float(np.rint(gain / _ALIKE) * _ALIKE)


@inner
def _set_top(Q: Queue, y: Int) -> None:
    """Enter the best remaining gain of a row into the tournament."""
    node = len(Q.tree) // 2 + y
    Q.tree[node] = _rank(Q.gain[Q.row_start[y] + Q.cursor[y]]) if Q.cursor[y] < Q.row_size[y] else -np.inf
    while node > 1:
        node //= 2
        Q.tree[node] = max(Q.tree[2 * node], Q.tree[2 * node + 1])


@kernel
def fill(
    Q: Queue,
    y: Int,
    candidates: Index,
    kinds: Index,
    element: Index,
    depth: Index,
    skip: Index,
    wanted: Mask,
    gains: Array,
    tolerance: float,
) -> bool:
    """Replace a row by the wanted gains above a tolerance; False where it does not fit.

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
    rank, found = np.empty(count), np.empty((count, 2), np.int64)
    first = np.empty(rows, np.int64)
    path = np.empty(depth.max() + 1 if rows else 1, np.int64)
    at, end = 0, place
    for row in range(rows):
        if depth[row]:
            path[depth[row] - 1] = element[row]
        before = at
        for c in range(columns):
            if gains[row, c] > tolerance and wanted[row, c]:
                rank[at], found[at, 0], found[at, 1] = _rank(gains[row, c]), row, c
                at += 1
        if at > before:
            first[row] = end
            for k in range(skip[row], depth[row]):
                Q.member[end] = path[k]
                end += 1
    order = descending(rank)
    for k in range(count):
        row, c = found[order[k], 0], found[order[k], 1]
        Q.gain[start + k], Q.source[start + k], Q.kind[start + k] = gains[row, c], candidates[c], kinds[c]
        Q.first[start + k], Q.size[start + k] = first[row], depth[row] - skip[row]
        Q.blocking_path[start + k, 0] = _NONE
    Q.row_start[y], Q.row_size[y], Q.member_start[y], Q.member_size[y] = start, count, place, members
    Q.cursor[y] = 0
    Q.used[0] += count
    Q.used[1] += members
    _set_top(Q, y)
    return True


@kernel
def compact(old: Queue, new: Queue) -> None:
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
        new.blocking_path[start : start + n] = old.blocking_path[a : a + n]
        new.member[place : place + m] = old.member[b : b + m]
        new.row_start[y], new.row_size[y], new.member_start[y], new.member_size[y] = start, n, place, m
        start += n
        place += m
        _set_top(new, y)
    new.used[0], new.used[1] = start, place


@kernel
def retry_skipped(Q: Queue) -> None:
    """Begin a new step: what was skipped over for this step only is tried again."""
    for k in range(Q.used[2]):
        _retry(Q, Q.skipped[k])
    Q.used[2] = 0


@kernel
def retry_all(Q: Queue) -> None:
    """Begin a phase: try everything again."""
    for y in range(len(Q.cursor)):
        _retry(Q, y)
    Q.used[2] = 0


@inner
def _retry(Q: Queue, y: Int) -> None:
    if Q.cursor[y] > 0:
        Q.cursor[y] = 0
        _set_top(Q, y)


@kernel
def retry_unblocked(Q: Queue, G: Pdag, change: Change) -> None:
    """Try rows again whose Inserts were blocked by a path through an edge that can no longer be followed."""
    for k in range(len(change.i)):
        i, j, before = change.i[k], change.j[k], change.before[k]
        for a, b, could in ((i, j, before == 1 or before == 3), (j, i, before == 2 or before == 3)):
            if could and not G.A[a, b]:
                for y in range(len(Q.cursor)):
                    if Q.blocked_by[a, y]:
                        Q.blocked_by[a, y] = False
                        _retry(Q, y)


@inner
def _advance(Q: Queue, y: Int) -> None:
    Q.cursor[y] += 1
    _set_top(Q, y)


@kernel
def skip_for_now(Q: Queue, y: Int) -> None:
    """Leave out the best candidate of a row for the rest of this step."""
    known = False
    for k in range(Q.used[2]):
        known |= Q.skipped[k] == y
    if not known:
        Q.skipped[Q.used[2]] = y
        Q.used[2] += 1
    _advance(Q, y)


@inner
def _still_blocked(Q: Queue, G: Pdag, c: Int, x: Int, y: Int) -> bool:
    """Whether the path that once made an Insert invalid is still there (its set cannot have changed)."""
    if Q.blocking_path[c, 0] == _NONE:
        return False
    a = y
    for k in range(_LONGEST_PATH):
        b = Q.blocking_path[c, k]
        if b == _END:
            break
        if not G.A[a, b]:
            return False
        Q.blocked_by[a, y] = True
        a = b
    Q.blocked_by[a, y] = True
    return bool(G.A[a, x])


@inner
def _remember(Q: Queue, memory: PathMemory, c: Int, x: Int, y: Int) -> None:
    """Note that the path just found from y to x blocks row y; keep the path if it is short."""
    length, node = 0, memory.via[x]
    while node != y:
        Q.blocked_by[node, y] = True
        length += 1
        node = memory.via[node]
    Q.blocked_by[y, y] = True
    Q.blocking_path[c, 0] = _NONE
    if length > _LONGEST_PATH:
        return
    if length < _LONGEST_PATH:
        Q.blocking_path[c, length] = _END
    node = memory.via[x]
    for k in range(length - 1, -1, -1):
        Q.blocking_path[c, k] = node
        node = memory.via[node]


@kernel
def best(Q: Queue, G: Pdag, memory: PathMemory, max_degree: Int) -> tuple[Int, Int]:
    """The target and the place of the best valid candidate, (-1, -1) if there is none; ties by index.

    An Insert that a path blocks is left out until an edge of that path changes (`retry_unblocked`), one at a
    full node until the phase begins again; other invalid candidates are tried again at the next step.
    """
    leaves = len(Q.tree) // 2
    while Q.tree[1] > -np.inf:
        node = 1
        while node < leaves:
            node *= 2
            if Q.tree[node] < Q.tree[node // 2]:
                node += 1
        y = node - leaves
        c = Q.row_start[y] + Q.cursor[y]
        x, kind = Q.source[c], Q.kind[c]
        members = Q.member[Q.first[c] : Q.first[c] + Q.size[c]]
        if kind == INSERT:
            full = G.degree[x] >= max_degree or G.degree[y] >= max_degree
            if full or _still_blocked(Q, G, c, x, y):
                _advance(Q, y)
            elif path_exists(G, memory, y, x, members, False):
                _remember(Q, memory, c, x, y)
                _advance(Q, y)
            else:
                return y, c
        elif kind == TURN_ARROW and path_exists(G, memory, y, x, members, True):
            skip_for_now(Q, y)
        else:
            return y, c
    return -1, -1
