"""Compiled search for clusters of variables whose acyclicity constraint a fractional solution violates.

Family f gives `child[f]` the parents `parents[f]` with the extent `x[f]`. In every DAG the first k variables
of a cluster C, in topological order, have fewer than k parents inside it, so that

    excess(C) = Σ {x_f : child in C, at least k parents in C} - |C| + k

is never positive. Clusters with a positive excess are found by local search, one variable in or out at a
time.

Shapes of arguments that several kernels share:

child : int array of shape (families,)
parents : int array of shape (families, max_parents)
    Padded with -1.
x : array of shape (families,)
cluster, best : bool arrays of shape (n,)
first : int array of shape (n + 1,)
touching : int array of shape (first[n],)
    The families that contain variable u, as child or parent, are `touching[first[u]:first[u + 1]]`.
"""

from __future__ import annotations

import numpy as np

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import inner, kernel

_ABSENT = 1e-6  # an edge with a smaller extent counts as absent
_LONG = 1.5  # cycles whose edges lack more than this to 1 are not tried; below 1 they are violated
_FLIPS = 60  # most flips of a local search
_DOWN = 8  # most of them without an improvement
_STEEP = -0.8  # largest loss of one flip, as a negative gain


@inner
def _inside(f: Int, child: Index, parents: Index, cluster: Mask) -> int:
    """How many parents of family f are in the cluster; 0 where the child is not."""
    found = 0
    if cluster[child[f]]:
        for j in range(parents.shape[1]):
            if parents[f, j] >= 0 and cluster[parents[f, j]]:
                found += 1
    return found


@kernel
def excess(child: Index, parents: Index, x: Array, k: Int, cluster: Mask) -> float:
    """The excess of a cluster; positive where its constraint is violated."""
    value = float(k)
    for u in range(len(cluster)):
        if cluster[u]:
            value -= 1.0
    for f in range(len(child)):
        if _inside(f, child, parents, cluster) >= k:
            value += x[f]
    return value


@inner
def _flip_gain(
    u: Int, child: Index, parents: Index, x: Array, k: Int, cluster: Mask, first: Index, touching: Index
) -> float:
    """How much the excess grows when u enters or leaves the cluster."""
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


@inner
def _improve(
    child: Index, parents: Index, x: Array, k: Int, cluster: Mask, first: Index, touching: Index, best: Mask
) -> float:
    """Local search from a cluster, flipping the best variable each time.

    `best` gets the cluster with the largest excess, which is returned.
    """
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


@inner
def _touching(child: Index, parents: Index, n: Int) -> tuple[Index, Index]:
    """The families that contain each variable; returns `first` and `touching`."""
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


@inner
def _shortest(child: Index, parents: Index, x: Array, n: Int) -> tuple[Array, Array, Index]:
    """What edges lack to 1, and shortest paths by it.

    Returns what each edge lacks, the lengths of the paths, and the next variable on the way, all of shape
    (n, n).
    """
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


@kernel
def violated(
    child: Index, parents: Index, x: Array, n: Int, k: Int, least: float, clusters: Mask, amounts: Array
) -> int:
    """Fill in clusters with an excess above `least`; returns how many there are.

    For k = 1 searches start from a nearly closed cycle through each edge, otherwise from the variables of
    each family with at least k parents. `clusters`: bool array of shape (most, n); `amounts`: array of shape
    (most,) for the excesses.
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
