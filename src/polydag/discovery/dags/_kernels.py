"""Compiled draws of DAGs; `dag[i, j]` is the edge `i -> j`."""

from __future__ import annotations

import numpy as np
from numba import njit

from polydag.discovery.ranked._kernels import draw, limits, log_sum, predecessors

_BAND = 1000 * np.log(2.0)  # of the sums over subsets


@njit(cache=True, nogil=True)
def put(ranked, node, family, dag):  # type: ignore[no-untyped-def]
    """Give a node the parents of a family."""
    dag[:, node] = False
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
    level[:] = 0
    left = (1 << n) - 1
    for position in range(n, 0, -1):
        for node in range(n):
            weights[node] = -np.inf
            if level[node] == 0:
                rest = left ^ (1 << node)
                if F[rest] > 0:
                    predecessors(ranked.candidates, node, level, 1, outside, wanted)
                    own = log_sum(ranked, node, outside, wanted) - reference[node]
                    weights[node] = own + np.log(F[rest]) + Fb[rest] * _BAND
        chances = np.exp(weights - weights.max())
        pick = rng.random() * chances.sum()
        last = -1
        for node in range(n):
            if chances[node] > 0:
                last = node
                pick -= chances[node]
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
    level[:] = 0
    waiting = dag.sum(axis=0)
    free = np.empty(n, np.int64)
    head, tail = 0, 0
    for node in range(n):
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
    found[:] = False
    found[node] = True
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
    outside[:] = 0
    wanted[:] = 0
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
def reverse(ranked, dag, rng):  # type: ignore[no-untyped-def]
    """Turn an edge around and draw the parents of both its ends anew (Grzegorczyk and Husmeier 2008)."""
    n = len(dag)
    edges = dag.sum()
    if edges == 0:
        return False
    pick = int(rng.random() * edges)
    a, b = 0, 0
    for cell in range(n * n):
        if dag[cell // n, cell % n]:
            if pick == 0:
                a, b = cell // n, cell % n
                break
            pick -= 1
    words = len(ranked.masks)
    outside, wanted = np.empty(words, np.uint64), np.empty(words, np.uint64)
    found = np.empty(n, np.bool_)
    old_a, old_b = dag[:, a].copy(), dag[:, b].copy()
    dag[:, a] = False
    dag[:, b] = False
    back = _free(ranked, dag, b, a, found, outside, wanted)
    dag[:, b] = old_b
    back += _free(ranked, dag, a, -1, found, outside, wanted)
    dag[:, b] = False
    there = _free(ranked, dag, a, b, found, outside, wanted)
    if there > -np.inf:
        put(ranked, a, draw(ranked, a, outside, wanted, there, rng), dag)
        total = _free(ranked, dag, b, -1, found, outside, wanted)
        put(ranked, b, draw(ranked, b, outside, wanted, total, rng), dag)
        gain = there + total - back + np.log(edges) - np.log(dag.sum())
        if np.log(rng.random()) < gain:
            return True
    dag[:, a] = old_a
    dag[:, b] = old_b
    return False
