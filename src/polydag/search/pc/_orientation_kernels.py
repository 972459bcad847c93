"""Compiled orientation of a sparse skeleton: colliders, a consistent DAG, Meek's rules.

`near` lists the neighbours of each node (`polydag.search.pc.independence_tests._independence_kernels.Lists`).
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import inner, kernel
from polydag.search.pc.independence_tests._independence_kernels import Lists


@kernel
def accept_colliders(triples: Index, arrows: Mask, near: Lists) -> Mask:
    """Draw colliders i -> k <- j, in the order given, into `arrows`; which of them fitted.

    One that turns an arrow round, or closes a directed cycle, is left out.
    """
    kept = np.zeros(len(triples), np.bool_)
    visited = np.zeros(len(arrows), np.int64)
    for number in range(len(triples)):
        i, k, j = triples[number]
        if arrows[i, k] and arrows[j, k]:
            kept[number] = True
        elif not _leads(arrows, near, k, i, j, visited, number + 1):
            arrows[i, k] = arrows[j, k] = True
            kept[number] = True
    return kept


@inner
def _leads(
    arrows: Mask, near: Lists, start: Int, first: Int, second: Int, visited: Index, stamp: Int
) -> bool:
    """Whether arrows lead from `start` to one of two nodes."""
    stack = np.empty(len(arrows), np.int64)
    stack[0], size = start, 1
    visited[start] = stamp
    while size > 0:
        size -= 1
        v = stack[size]
        for u in near.members[near.start[v] : near.start[v + 1]]:
            if arrows[v, u] and visited[u] != stamp:
                if u == first or u == second:
                    return True
                visited[u] = stamp
                stack[size] = u
                size += 1
    return False


@kernel
def extend(arrows: Mask, joined: Mask, near: Lists, weakness: Array) -> tuple[Mask, int]:
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


@inner
def _sink_cost(x: Int, arrows: Mask, joined: Mask, near: Lists, left: Mask) -> int:
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


@kernel
def close(A: Mask, near: Lists, ambiguous: Index) -> None:
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


@inner
def _implied(A: Mask, near: Lists, ambiguous: Index, i: Int, j: Int) -> bool:
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


@inner
def _among(keys: Index, p: Int, i: Int, k: Int, j: Int) -> bool:
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
