"""Compiled draws of DAGs; `dag[i, j]` is the edge `i -> j`.

Loops stand where whole-array expressions would do: each of those is compiled on its own, and slowly.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from polydag.posterior.families._sorted_families_kernels import _clear, draw, limits, log_sum, predecessors

_BAND = 1000 * np.log(2.0)  # of the sums over subsets


@njit(cache=True, nogil=True)
def put(ranked, node, family, dag):  # type: ignore[no-untyped-def]
    """Give a node the parents of a family."""
    for v in range(len(dag)):
        dag[v, node] = False
    for p in range(ranked.candidates.shape[1]):
        if ranked.masks[p >> 6, family] >> np.uint64(p & 63) & np.uint64(1):
            dag[ranked.candidates[node, p], node] = True


@njit(cache=True, nogil=True)
def draw_dag(ranked, level, layered, rng, dag):  # type: ignore[no-untyped-def]
    """The parents of every node from the levels below its own, by the scores of families.

    `layered` asks for one on the level just below, as in ordered partitions.
    """
    words = len(ranked.masks)
    outside, wanted = np.empty(words, np.uint64), np.empty(words, np.uint64)
    for node in range(len(level)):
        if layered:
            limits(ranked.candidates, node, level, level[node], outside, wanted)
        else:
            predecessors(ranked.candidates, node, level, level[node], outside, wanted)
        total = log_sum(ranked, node, outside, wanted)
        put(ranked, node, draw(ranked, node, outside, wanted, total, rng), dag)


@njit(cache=True, nogil=True)
def _draw_order(ranked, F, Fb, reference, rng, level):  # type: ignore[no-untyped-def]
    """An order by its weight, from the back: of what is left, i comes last by `α_i(S - i) F(S - i)`."""
    n = len(level)
    words = len(ranked.masks)
    outside, wanted = np.empty(words, np.uint64), np.empty(words, np.uint64)
    weights = np.empty(n)
    for node in range(n):
        level[node] = 0
    left = (1 << n) - 1
    for position in range(n, 0, -1):
        top = -np.inf
        for node in range(n):
            weights[node] = -np.inf
            if level[node] == 0:
                rest = left ^ (1 << node)
                if F[rest] > 0:
                    predecessors(ranked.candidates, node, level, 1, outside, wanted)
                    own = log_sum(ranked, node, outside, wanted) - reference[node]
                    weights[node] = own + np.log(F[rest]) + Fb[rest] * _BAND
                    top = max(top, weights[node])
        total = 0.0
        for node in range(n):
            weights[node] = np.exp(weights[node] - top)
            total += weights[node]
        pick = rng.random() * total
        last = -1
        for node in range(n):
            if weights[node] > 0:
                last = node
                pick -= weights[node]
                if pick < 0:
                    break
        level[last] = position
        left ^= 1 << last


@njit(cache=True, nogil=True)
def draw_by_orders(ranked, F, Fb, reference, rng, dags):  # type: ignore[no-untyped-def]
    """An order and a DAG for each place in `dags`."""
    level = np.empty(dags.shape[1], np.int64)
    for k in range(len(dags)):
        _draw_order(ranked, F, Fb, reference, rng, level)
        draw_dag(ranked, level, False, rng, dags[k])


@njit(cache=True, nogil=True)
def levels(dag, level):  # type: ignore[no-untyped-def]
    """The length of the longest path into each node; False where there is a cycle."""
    n = len(dag)
    waiting, free = np.empty(n, np.int64), np.empty(n, np.int64)
    head, tail = 0, 0
    for node in range(n):
        level[node] = 0
        waiting[node] = 0
        for parent in range(n):
            waiting[node] += dag[parent, node]
        if waiting[node] == 0:
            free[tail] = node
            tail += 1
    while head < tail:
        node = free[head]
        head += 1
        for child in range(n):
            if dag[node, child]:
                level[child] = max(level[child], level[node] + 1)
                waiting[child] -= 1
                if waiting[child] == 0:
                    free[tail] = child
                    tail += 1
    return tail == n


@njit(cache=True, nogil=True)
def descendants(dag, node, found):  # type: ignore[no-untyped-def]
    """The node and all that directed paths lead to."""
    n = len(dag)
    for v in range(n):
        found[v] = v == node
    stack = np.empty(n, np.int64)
    stack[0] = node
    size = 1
    while size:
        size -= 1
        here = stack[size]
        for child in range(n):
            if dag[here, child] and not found[child]:
                found[child] = True
                stack[size] = child
                size += 1


@njit(cache=True, nogil=True)
def _free(ranked, dag, node, needed, found, outside, wanted):  # type: ignore[no-untyped-def]
    """The log sum over parent sets of a node that close no cycle; with `needed` in them unless it is -1."""
    descendants(dag, node, found)
    _clear(outside, wanted)
    c = ranked.candidates.shape[1]
    for p in range(c):
        bit = np.uint64(1) << np.uint64(p & 63)
        other = ranked.candidates[node, p]
        if found[other]:
            outside[p >> 6] |= bit
        elif other == needed:
            wanted[p >> 6] |= bit
    if needed < 0:
        wanted[c >> 6] |= np.uint64(1) << np.uint64(c & 63)
    return log_sum(ranked, node, outside, wanted)


@njit(cache=True, nogil=True)
def _pick(dag, rng):  # type: ignore[no-untyped-def]
    """An edge, all alike, as `source · n + target`; and how many there are."""
    n = len(dag)
    edges, chosen = 0, -1
    for i in range(n):
        for j in range(n):
            edges += dag[i, j]
    pick = int(rng.random() * edges)
    for i in range(n):
        for j in range(n):
            if dag[i, j]:
                if pick == 0:
                    chosen = i * n + j
                pick -= 1
    return chosen, edges


@njit(cache=True, nogil=True)
def _parents(dag, node, parents, put_back):  # type: ignore[no-untyped-def]
    """Take the parents of a node away and keep them, or put them back; how many they are."""
    size = 0
    for v in range(len(dag)):
        if put_back:
            dag[v, node] = parents[v]
        else:
            parents[v] = dag[v, node]
            dag[v, node] = False
        size += parents[v]
    return size


@njit(cache=True, nogil=True)
def reverse(ranked, dag, rng):  # type: ignore[no-untyped-def]
    """Turn an edge around and draw the parents of both its ends anew (Grzegorczyk and Husmeier 2008).

    Stages 0 and 1 are the way back: the target's parents with the source among them, then the source's.
    Stages 2 and 3 are the way there.
    """
    n = len(dag)
    chosen, edges = _pick(dag, rng)
    if chosen < 0:
        return False
    a, b = chosen // n, chosen % n
    words = len(ranked.masks)
    outside, wanted = np.empty(words, np.uint64), np.empty(words, np.uint64)
    found = np.empty(n, np.bool_)
    old_a, old_b = np.empty(n, np.bool_), np.empty(n, np.bool_)
    more = -_parents(dag, a, old_a, False) - _parents(dag, b, old_b, False)
    gain = 0.0
    for stage in range(4):
        node = b if stage % 3 == 0 else a
        needed = a if stage == 0 else (b if stage == 2 else -1)
        total = _free(ranked, dag, node, needed, found, outside, wanted)
        if stage < 2:
            gain -= total
            _parents(dag, b, old_b, stage == 0)
        else:
            gain += total
            if total == -np.inf:
                break
            put(ranked, node, draw(ranked, node, outside, wanted, total, rng), dag)
            for v in range(n):
                more += dag[v, node]
    if np.log(rng.random()) < gain + np.log(edges) - np.log(edges + more):
        return True
    _parents(dag, a, old_a, True)
    _parents(dag, b, old_b, True)
    return False
