"""Compiled search for clusters of variables that a fractional choice of families contradicts.

Family f gives `child[f]` the parents `parents[f]` (filled up with -1) to the extent `x[f]`. In every DAG the
first k variables of a cluster C, in a topological order, have fewer than k parents inside it, so that

    excess(C) = Σ {x_f : child in C, at least k parents in C} - |C| + k

is never positive. Clusters where it is are looked for by local search: one variable in or out at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_ABSENT = 1e-6  # an edge to a smaller extent is none
_LONG = 1.5  # cycles that lack more than this are not tried; those that lack less than 1 are violated
_FLIPS = 60  # of a local search, at most
_DOWN = 8  # of them may lead nowhere
_STEEP = -0.8  # and none may lose more than this


@njit(cache=True, nogil=True)
def _inside(f, child, parents, cluster):  # type: ignore[no-untyped-def]
    """How many parents are in the cluster; none where the child is not."""
    found = 0
    if cluster[child[f]]:
        for j in range(parents.shape[1]):
            if parents[f, j] >= 0 and cluster[parents[f, j]]:
                found += 1
    return found


@njit(cache=True, nogil=True)
def excess(child, parents, x, k, cluster):  # type: ignore[no-untyped-def]
    """By how much a cluster is contradicted."""
    value = float(k)
    for u in range(len(cluster)):
        if cluster[u]:
            value -= 1.0
    for f in range(len(child)):
        if _inside(f, child, parents, cluster) >= k:
            value += x[f]
    return value


@njit(cache=True, nogil=True)
def _flip_gain(u, child, parents, x, k, cluster, first, touching):  # type: ignore[no-untyped-def]
    """What the excess gains when u enters or leaves the cluster."""
    gain = 1.0 if cluster[u] else -1.0
    for t in range(first[u], first[u + 1]):
        f = touching[t]
        before = _inside(f, child, parents, cluster) >= k
        cluster[u] = not cluster[u]
        after = _inside(f, child, parents, cluster) >= k
        cluster[u] = not cluster[u]
        if after and not before:
            gain += x[f]
        elif before and not after:
            gain -= x[f]
    return gain


@njit(cache=True, nogil=True)
def _improve(child, parents, x, k, cluster, first, touching, best):  # type: ignore[no-untyped-def]
    """Flip variables, always the best of them; `best` gets the cluster with the largest excess, returned."""
    n = len(cluster)
    value = excess(child, parents, x, k, cluster)
    top, flips = value, 0
    best[:] = cluster
    last, before = -1, -1
    while flips < _FLIPS:
        chosen, gain = -1, -np.inf
        for u in range(n):
            if u != last and u != before:
                own = _flip_gain(u, child, parents, x, k, cluster, first, touching)
                if own > gain:
                    chosen, gain = u, own
        if chosen < 0 or gain < _STEEP or (gain <= 1e-9 and flips > _DOWN):
            break
        cluster[chosen] = not cluster[chosen]
        if cluster.sum() <= k:
            break
        value += gain
        flips += 1
        last, before = chosen, last
        if value > top + 1e-9:
            top = value
            best[:] = cluster
    return top


@njit(cache=True, nogil=True)
def _touching(child, parents, n):  # type: ignore[no-untyped-def]
    """The families that each variable is in, as child or parent: of u from `first[u]` to `first[u + 1]`."""
    first = np.zeros(n + 1, np.int64)
    for f in range(len(child)):
        first[child[f] + 1] += 1
        for j in range(parents.shape[1]):
            if parents[f, j] >= 0:
                first[parents[f, j] + 1] += 1
    first = np.cumsum(first)
    place, touching = first.copy(), np.empty(first[-1], np.int64)
    for f in range(len(child)):
        touching[place[child[f]]] = f
        place[child[f]] += 1
        for j in range(parents.shape[1]):
            u = parents[f, j]
            if u >= 0:
                touching[place[u]] = f
                place[u] += 1
    return first, touching


@njit(cache=True, nogil=True)
def _shortest(child, parents, x, n):  # type: ignore[no-untyped-def]
    """What edges lack to 1, and the paths that lack least: length, and the next variable on the way."""
    lacking = np.ones((n, n))
    for f in range(len(child)):
        for j in range(parents.shape[1]):
            if parents[f, j] >= 0:
                lacking[parents[f, j], child[f]] -= x[f]
    length, towards = np.full((n, n), np.inf), np.full((n, n), -1)
    for i in range(n):
        for j in range(n):
            if lacking[i, j] < 1.0 - _ABSENT:
                lacking[i, j] = length[i, j] = max(lacking[i, j], 1e-9)
                towards[i, j] = j
    for k in range(n):
        for i in range(n):
            if length[i, k] > _LONG:
                continue
            for j in range(n):
                if length[i, k] + length[k, j] < length[i, j] - 1e-12:
                    length[i, j] = length[i, k] + length[k, j]
                    towards[i, j] = towards[i, k]
    return lacking, length, towards


@njit(cache=True, nogil=True)
def violated(child, parents, x, n, k, least, clusters, amounts):  # type: ignore[no-untyped-def]
    """Fill in clusters with an excess above `least`, and their excesses; how many there are.

    Searches begin, for k = 1, from a nearly closed cycle through each edge; for more, from the variables of
    each family with as many parents.
    """
    first, touching = _touching(child, parents, n)
    cluster, best = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    found = 0
    if k == 1:
        lacking, length, towards = _shortest(child, parents, x, n)
        for i in range(n):
            for j in range(n):
                if found == len(amounts) or lacking[i, j] + length[j, i] > _LONG:
                    continue
                cluster[:] = False
                cluster[i] = True
                u = j
                while u != i:
                    cluster[u] = True
                    u = towards[u, i]
                amount = _improve(child, parents, x, k, cluster, first, touching, best)
                if amount > least:
                    clusters[found], amounts[found] = best, amount
                    found += 1
        return found
    for f in range(len(child)):
        cluster[:] = False
        cluster[child[f]] = True
        for j in range(parents.shape[1]):
            if parents[f, j] >= 0:
                cluster[parents[f, j]] = True
        if found == len(amounts) or cluster.sum() <= k:
            continue
        amount = _improve(child, parents, x, k, cluster, first, touching, best)
        if amount > least:
            clusters[found], amounts[found] = best, amount
            found += 1
    return found
