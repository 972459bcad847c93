"""Graph algorithms on adjacency arrays: `A[i, j]` is `i -> j`; both entries are true for an undirected edge.

References
----------
Chickering, D. M. (1995). A transformational characterization of equivalent Bayesian network structures.
Dor, D. and Tarsi, M. (1992). A simple algorithm to construct a consistent extension of a partially
oriented graph.
Meek, C. (1995). Causal inference and causal explanation with background knowledge.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection

import numpy as np

from polydag.arrays import Array, Mask
from polydag.errors import DataError


def topological_order(A: Mask) -> list[int] | None:
    """Nodes with parents before children, ties by index; None if there is a cycle.

    An undirected edge counts as a cycle of length two.
    """
    waiting = A.sum(axis=0)
    free = [int(i) for i in np.flatnonzero(waiting == 0)]
    order: list[int] = []
    while free:
        i = heapq.heappop(free)
        order.append(i)
        for j in np.flatnonzero(A[i]):
            waiting[j] -= 1
            if waiting[j] == 0:
                heapq.heappush(free, int(j))
    return order if len(order) == len(A) else None


def reachable(A: Mask) -> Mask:
    """`R[i, j]` is true if a directed path of at least one edge leads from i to j (repeated squaring)."""
    paths = A.copy()
    while True:
        longer = paths | (paths.astype(np.float32) @ paths.astype(np.float32) > 0)
        if np.array_equal(longer, paths):
            return paths
        paths = longer


def v_structures(A: Mask) -> Mask:
    """The directed edges of A that take part in a v-structure `i -> k <- j` with i, j not adjacent."""
    directed = A & ~A.T
    joined = A | A.T
    found = np.zeros_like(A)
    for k in range(len(A)):
        parents = np.flatnonzero(directed[:, k])
        apart = ~joined[np.ix_(parents, parents)]
        np.fill_diagonal(apart, False)
        found[parents[apart.any(axis=1)], k] = True
    return found


def meek(A: Mask) -> Mask:
    """Close a partially directed graph under Meek's four rules, vectorised over the undirected edges."""
    A = A.copy()
    while True:
        undirected = A & A.T
        directed = A & ~A.T
        apart = ~(A | A.T)
        np.fill_diagonal(apart, False)
        into, far = directed.astype(np.float32), apart.astype(np.float32)
        # R1: k -> i - j, k and j not adjacent.    R2: i -> k -> j, i - j.
        implied = (into.T @ far > 0) | (into @ into > 0)
        for i, j in np.argwhere(undirected & ~implied):
            # R3: i - k -> j and i - l -> j, k and l not adjacent.
            middle = np.flatnonzero(undirected[i] & directed[:, j])
            if len(middle) > 1 and apart[np.ix_(middle, middle)].any():
                implied[i, j] = True
                continue
            # R4: i - k -> l -> j, with k and j not adjacent and i, l adjacent.
            ends = np.flatnonzero(directed[:, j] & ~apart[i])
            starts = np.flatnonzero(undirected[i] & apart[j])
            if len(ends) and len(starts) and directed[np.ix_(starts, ends)].any():
                implied[i, j] = True
        fresh = undirected & implied & ~(implied.T & undirected)
        if not fresh.any():
            return A
        A[fresh.T] = False


def cpdag(dag: Mask) -> Mask:
    """The CPDAG of a DAG: the v-structures, closed under Meek's rules."""
    compelled = v_structures(dag)
    return meek((dag | dag.T) & ~compelled.T)


def consistent_extension(A: Mask) -> Mask | None:
    """A DAG with A's skeleton, directed edges and v-structures, or None if there is none."""
    left = A.copy()
    result = A & ~A.T
    children = result.sum(axis=1)
    remaining = np.ones(len(A), dtype=bool)
    while remaining.any():
        for x in np.flatnonzero(remaining & (children == 0)):
            loose = left[x] & left[:, x]
            around = left[x] | left[:, x]
            joined = left[loose] | left[:, loose].T
            joined[np.arange(int(loose.sum())), np.flatnonzero(loose)] = True
            if (joined | ~around).all():
                break
        else:
            return None
        result[loose, x] = True
        children[left[:, x] & ~left[x]] -= 1
        left[x] = left[:, x] = False
        remaining[x] = False
    return result


def d_separated(dag: Mask, a: Collection[int], b: Collection[int], given: Collection[int]) -> bool:
    """Whether `given` blocks every path between a and b: reachability over (node, direction) pairs.

    A collider opened by a conditioned descendant needs no separate rule: the search reaches the descendant
    and turns back there.
    """
    seen = np.zeros(len(dag), dtype=bool)
    seen[list(given)] = True
    goal = set(b)
    stack = [(node, True) for node in a]  # True: arrived from a child, or the start
    visited = set(stack)
    while stack:
        node, upward = stack.pop()
        if not seen[node] and node in goal:
            return False
        following = [] if seen[node] else [(int(c), False) for c in np.flatnonzero(dag[node])]
        if upward != seen[node]:  # a chain or fork that nothing blocks, or an open collider
            following += [(int(p), True) for p in np.flatnonzero(dag[:, node])]
        for step in following:
            if step not in visited:
                visited.add(step)
                stack.append(step)
    return True


def weakest_cycle_edges(A: Mask, strength: Array, keep: Mask) -> list[tuple[int, int]]:
    """The edges to remove so that A is acyclic, weakest first.

    Edges are added from the strongest to the weakest, those of `keep` before all others. An edge that would
    close a cycle is the weakest edge of that cycle and is removed. The result is maximal: adding any removed
    edge closes a cycle.
    """
    kept = A & keep
    if topological_order(kept) is None:
        raise DataError("The edges to keep form a cycle, which therefore cannot be broken. Keep fewer edges.")
    leads = reachable(kept) | np.eye(len(A), dtype=bool)
    loose = np.argwhere(A & ~keep)
    removed: list[tuple[int, int]] = []
    for i, j in loose[np.argsort(-strength[loose[:, 0], loose[:, 1]], kind="stable")]:
        if leads[j, i]:
            removed.append((int(i), int(j)))
        elif not leads[i, j]:
            leads[np.ix_(leads[:, i], leads[j])] = True
    return removed[::-1]
