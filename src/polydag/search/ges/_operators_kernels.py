"""Compiled enumeration of GES operators: which sets and sources to score, and the path conditions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polydag.arrays import Index, Int, Mask
from polydag.compilation import inner, kernel
from polydag.search.ges._essential_graph_kernels import (
    TURN_ARROW,
    TURN_LINE,
    Pdag,
    adjacent,
    parents_and_neighbors,
)


@inner
def _doubled(values: Index) -> Index:
    larger = np.empty(2 * len(values), np.int64)
    for k in range(len(values)):
        larger[k] = values[k]
    return larger


@inner
def cliques(A: Mask, nodes: Index) -> tuple[Index, Index]:
    """All cliques among some nodes, the empty one first, in depth-first order: elements and depths."""
    m = len(nodes)
    element = np.empty(16, np.int64)
    depth = np.empty(16, np.int64)
    element[0], depth[0] = -1, 0
    count = 1
    path = np.empty(m + 1, np.int64)
    level = following = 0
    while True:
        while following < m:
            fits = True
            for k in range(level):
                if not adjacent(A, nodes[path[k]], nodes[following]):
                    fits = False
                    break
            if fits:
                break
            following += 1
        if following < m:
            path[level] = following
            level += 1
            if count == len(element):
                element, depth = _doubled(element), _doubled(depth)
            element[count], depth[count] = nodes[following], level
            count += 1
            following += 1
        elif level == 0:
            break
        else:
            level -= 1
            following = path[level] + 1
    return element[:count], depth[:count]


@kernel
def insert_operators(
    G: Pdag, y: Int, partners: Index, forbidden: Mask, informed: bool
) -> tuple[Index, Index, Index, Index, Mask]:
    """All Insert(x, y, T) up to the path condition: candidates x, root, sets NA ∪ T, and which pairs fit.

    Theorem 15 of Chickering (2002): a set S = NA ∪ T must be a clique and contain every neighbour of y that
    is adjacent to x. With background knowledge, operators that would compel a forbidden arrow are left out.
    """
    parents, neighbors = parents_and_neighbors(G, y)
    element, depth = cliques(G.A, neighbors)
    close = np.zeros(len(G.degree), np.int64)
    for s in neighbors:
        for k in range(G.degree[s]):
            close[G.near[s, k]] += 1
    candidates = np.empty(len(partners), np.int64)
    special = np.empty(len(partners), np.int64)
    m = touched = 0
    for x in partners:
        if x != y and not adjacent(G.A, x, y):
            candidates[m] = x
            if close[x] > 0 or informed:
                special[touched] = m
                touched += 1
            m += 1
    wanted = np.ones((len(element), m), np.bool_)
    path = np.empty(depth.max() + 1, np.int64)
    for row in range(len(element) if touched else 0):
        size = depth[row]
        if size:
            path[size - 1] = element[row]
        for t in range(touched):
            x = candidates[special[t]]
            inside = 0
            for k in range(size):
                inside += adjacent(G.A, path[k], x)
            fits = inside == close[x]
            if fits and informed:
                fits = _allowed(G, x, y, path, size, inside, parents, forbidden)
            wanted[row, special[t]] = fits
    return candidates[:m], parents, element, depth, wanted


@inner
def _allowed(
    G: Pdag, x: Int, y: Int, members: Index, size: Int, inside: Int, parents: Index, forbidden: Mask
) -> bool:
    """Whether Insert(x, y, T) compels no forbidden arrow by the v-structures it makes at y."""
    compelled = inside < size
    for z in parents:
        compelled |= not adjacent(G.A, z, x)
    broken = compelled and forbidden[x, y]
    for k in range(size):
        broken |= forbidden[members[k], y] and not adjacent(G.A, members[k], x)
    return not broken


@kernel
def delete_operators(G: Pdag, y: Int, required: Mask) -> tuple[Index, Index, Index, Index, Mask]:
    """All Delete(x, y, H): candidates x, sets as chains (parents of y but x, then a clique), which pairs fit.

    Theorem 17 of Chickering (2002): NA without H must be a clique. `skip` counts the parents before each
    clique.
    """
    parents, neighbors = parents_and_neighbors(G, y)
    p, n = len(parents), len(neighbors)
    candidates = np.empty(p + n, np.int64)
    for c in range(p + n):
        candidates[c] = parents[c] if c < p else neighbors[c - p]
    common = np.empty(n, np.int64)
    length = 0
    for fill in (False, True):  # first count, then fill
        if fill:
            element, depth = np.full(length, -1, np.int64), np.zeros(length, np.int64)
            skip, wanted = np.zeros(length, np.int64), np.zeros((length, p + n), np.bool_)
        at = 0
        for c in range(p + n):
            x = candidates[c]
            if required[x, y] or required[y, x]:
                continue
            size = 0
            for v in neighbors:
                if v != x and adjacent(G.A, v, x):
                    common[size] = v
                    size += 1
            inner, level = cliques(G.A, common[:size])
            k = p - (c < p)
            # The empty clique is the last link of the chain of parents, or the root if there are none.
            lead = max(k, 1)
            if fill:
                for t in range(k):
                    element[at + t], depth[at + t] = parents[t + (c <= t)], t + 1
                for t in range(1, len(inner)):
                    element[at + lead - 1 + t], depth[at + lead - 1 + t] = inner[t], level[t] + k
                for t in range(len(inner)):
                    skip[at + lead - 1 + t] = k
                    wanted[at + lead - 1 + t, c] = True
            at += lead + len(inner) - 1
        length = at
    return candidates, element, depth, skip, wanted


@kernel
def turn_operators(G: Pdag, y: Int) -> tuple[Index, Index, Index, Index, Index, Mask]:
    """All Turn(x, y, S) to x -> y up to later tests: candidates, their kinds, root, sets, which pairs fit.

    S is a clique of neighbours of y without x; for an undirected edge it reaches beyond NA, the neighbours
    adjacent to x, and for an arrow y -> x it contains them.
    """
    parents, neighbors = parents_and_neighbors(G, y)
    element, depth = cliques(G.A, neighbors)
    candidates = np.empty(G.degree[y], np.int64)
    kind = np.empty(G.degree[y], np.int64)
    m = 0
    for k in range(G.degree[y]):
        x = G.near[y, k]
        if G.A[y, x]:
            candidates[m] = x
            kind[m] = TURN_LINE if G.A[x, y] else TURN_ARROW
            m += 1
    wanted = np.zeros((len(element), m), np.bool_)
    path = np.empty(depth.max() + 1, np.int64)
    for c in range(m):
        x = candidates[c]
        common = 0
        for v in neighbors:
            common += adjacent(G.A, v, x)
        for row in range(len(element)):
            size = depth[row]
            if size:
                path[size - 1] = element[row]
            inside, itself = 0, False
            for k in range(size):
                inside += adjacent(G.A, path[k], x)
                itself |= path[k] == x
            fits = inside < size if kind[c] == TURN_LINE else inside == common
            wanted[row, c] = fits and not itself
    return candidates[:m], kind[:m], parents, element, depth, wanted


@kernel
def turn_losses(
    G: Pdag, y: Int, x: Int, kind: Int, element: Index, depth: Index, wanted: Mask
) -> tuple[Index, Index, Index, Index]:
    """The sets over which x loses its parent y: root, chains, and which chain's end belongs to each row.

    Before x stay its other parents and, where the edge was undirected, the members of S adjacent to x.
    """
    parents, _ = parents_and_neighbors(G, x)
    root = np.empty(len(parents), np.int64)
    rest = 0
    for v in parents:
        if v != y:
            root[rest] = v
            rest += 1
    ends = np.zeros(len(element), np.int64)
    length = 1 + (depth.sum() if kind == TURN_LINE else 0)
    chain, level = np.full(length, -1, np.int64), np.zeros(length, np.int64)
    count = 1
    path = np.empty(depth.max() + 1, np.int64)
    for row in range(len(element) if kind == TURN_LINE else 0):
        if depth[row]:
            path[depth[row] - 1] = element[row]
        size = 0
        for k in range(depth[row] if wanted[row] else 0):
            if adjacent(G.A, path[k], x):
                size += 1
                chain[count], level[count] = path[k], size
                count += 1
        if size:
            ends[row] = count - 1
    return root[:rest], chain[:count], level[:count], ends


class PathMemory(NamedTuple):
    """Working memory of path searches: when and from where each node was seen last, a queue, the time."""

    seen: Index
    via: Index
    line: Index
    clock: Index


def new_path_memory(p: int) -> PathMemory:
    """Working memory for p nodes."""
    seen, via, line = (np.zeros(p, dtype=np.int64) for _ in range(3))
    return PathMemory(seen, via, line, np.zeros(1, dtype=np.int64))


@inner
def path_exists(
    G: Pdag, memory: PathMemory, start: Int, goal: Int, members: Index, around_goal: bool
) -> bool:
    """Whether a semi-directed path leads from start to goal past the members; `via` then leads back along it.

    With `around_goal`, the goal's neighbours block as well and the edge start -> goal itself does not count.
    """
    seen, via, line = memory.seen, memory.via, memory.line
    memory.clock[0] += 1
    now = memory.clock[0]
    for s in members:
        seen[s] = now
    if around_goal:
        for k in range(G.degree[goal]):
            w = G.near[goal, k]
            if G.A[w, goal] and G.A[goal, w]:
                seen[w] = now
    line[0], count, at = start, 1, 0
    seen[start] = now
    while at < count:
        a = line[at]
        at += 1
        for k in range(G.degree[a]):
            b = G.near[a, k]
            if seen[b] == now or not G.A[a, b]:
                continue
            if b == goal:
                if around_goal and a == start:
                    continue
                via[b] = a
                return True
            seen[b], via[b] = now, a
            line[count] = b
            count += 1
    return False
