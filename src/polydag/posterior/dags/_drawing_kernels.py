"""Compiled draws of DAGs and reversals of their edges.

Loops are used where whole-array expressions would do, since each of those is compiled separately and slowly.

Shapes of arguments that several kernels share:

families : SortedFamilies
dag : bool array of shape (n, n)
    `dag[i, j]` is the edge `i -> j`.
level : int array of shape (n,)
    The place of each node in an order, or its part in an ordered partition.
excluded, required : uint64 arrays of shape (words,)
    The constraint on the families of a node, as in `_sorted_families_kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Int, Mask
from polydag.compilation import inner, kernel
from polydag.posterior.families._sorted_families_kernels import (
    _clear,
    draw_family,
    log_sum,
    order_constraint,
    partition_constraint,
)

if TYPE_CHECKING:
    from polydag.posterior.families.sorted_families import SortedFamilies

_BAND = 1000 * np.log(2.0)  # of the sums over subsets


@inner
def set_parents(families: SortedFamilies, node: Int, family: Int, dag: Mask) -> None:
    """Replace the parents of a node in the DAG by those of a family."""
    for v in range(len(dag)):
        dag[v, node] = False
    for p in range(families.candidates.shape[1]):
        if families.masks[p >> 6, family] >> np.uint64(p & 63) & np.uint64(1):
            dag[families.candidates[node, p], node] = True


@kernel
def draw_dag(
    families: SortedFamilies, level: Index, layered: bool, rng: np.random.Generator, dag: Mask
) -> None:
    """Draw the parents of every node from lower levels, in proportion to the families' scores.

    If `layered`, one of them is on the level just below, as in ordered partitions.
    """
    words = len(families.masks)
    excluded, required = np.empty(words, np.uint64), np.empty(words, np.uint64)
    for node in range(len(level)):
        if layered:
            partition_constraint(families.candidates, node, level, level[node], excluded, required)
        else:
            order_constraint(families.candidates, node, level, level[node], excluded, required)
        total = log_sum(families, node, excluded, required)
        set_parents(families, node, draw_family(families, node, excluded, required, total, rng), dag)


@inner
def _draw_order(
    families: SortedFamilies,
    F: Array,
    Fb: NDArray[np.int32],
    reference: Array,
    rng: np.random.Generator,
    level: Index,
) -> None:
    """Fill in `level` with an order drawn by its weight.

    From the back: of the variables left, S, i comes last in proportion to `α_i(S - i) F(S - i)`. F (array)
    and Fb (int32) of shape (2^n,) are the sums over subsets and their bands, `reference` of shape (n,) the
    logs of the nodes' factors.
    """
    n = len(level)
    words = len(families.masks)
    excluded, required = np.empty(words, np.uint64), np.empty(words, np.uint64)
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
                    order_constraint(families.candidates, node, level, 1, excluded, required)
                    own = log_sum(families, node, excluded, required) - reference[node]
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


@kernel
def draw_by_orders(
    families: SortedFamilies,
    F: Array,
    Fb: NDArray[np.int32],
    reference: Array,
    rng: np.random.Generator,
    dags: Mask,
) -> None:
    """Draw an order and then a DAG for each of `dags`, a bool array of shape (count, n, n)."""
    level = np.empty(dags.shape[1], np.int64)
    for k in range(len(dags)):
        _draw_order(families, F, Fb, reference, rng, level)
        draw_dag(families, level, False, rng, dags[k])


@kernel
def path_lengths(dag: Mask, level: Index) -> bool:
    """Fill in the length of the longest path into each node; returns False where there is a cycle."""
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


@kernel
def descendants(dag: Mask, node: Int, found: Mask) -> None:
    """Fill in `found`, a bool array of shape (n,): the node and its descendants."""
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


@inner
def _acyclic_sum(
    families: SortedFamilies,
    dag: Mask,
    node: Int,
    needed: Int,
    found: Mask,
    excluded: NDArray[np.uint64],
    required: NDArray[np.uint64],
) -> float:
    """The log of the sum over the parent sets of a node that create no cycle.

    Sets must contain `needed` unless that is -1. `found`: bool array of shape (n,); the constraint is left in
    `excluded` and `required`.
    """
    descendants(dag, node, found)
    _clear(excluded, required)
    c = families.candidates.shape[1]
    for p in range(c):
        bit = np.uint64(1) << np.uint64(p & 63)
        other = families.candidates[node, p]
        if found[other]:
            excluded[p >> 6] |= bit
        elif other == needed:
            required[p >> 6] |= bit
    if needed < 0:
        required[c >> 6] |= np.uint64(1) << np.uint64(c & 63)
    return log_sum(families, node, excluded, required)


@inner
def _random_edge(dag: Mask, rng: np.random.Generator) -> tuple[int, int]:
    """An edge chosen uniformly, as `source · n + target`; and how many there are."""
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


@inner
def _move_parents(dag: Mask, node: Int, parents: Mask, put_back: bool) -> int:
    """Move the parents of a node from the DAG to `parents`, of shape (n,), or back; returns their number."""
    size = 0
    for v in range(len(dag)):
        if put_back:
            dag[v, node] = parents[v]
        else:
            parents[v] = dag[v, node]
            dag[v, node] = False
        size += parents[v]
    return size


@inner
def reverse_edge(families: SortedFamilies, dag: Mask, rng: np.random.Generator) -> bool:
    """Reverse a random edge and draw the parents of both its ends (Grzegorczyk and Husmeier 2008).

    Stages 0 and 1 weigh the reverse move: the target's parents with the source among them, then the source's.
    Stages 2 and 3 make the move. Returns whether it is accepted.
    """
    n = len(dag)
    chosen, edges = _random_edge(dag, rng)
    if chosen < 0:
        return False
    a, b = chosen // n, chosen % n
    words = len(families.masks)
    excluded, required = np.empty(words, np.uint64), np.empty(words, np.uint64)
    found = np.empty(n, np.bool_)
    old_a, old_b = np.empty(n, np.bool_), np.empty(n, np.bool_)
    more = -_move_parents(dag, a, old_a, False) - _move_parents(dag, b, old_b, False)
    gain = 0.0
    for stage in range(4):
        node = b if stage % 3 == 0 else a
        needed = a if stage == 0 else (b if stage == 2 else -1)
        total = _acyclic_sum(families, dag, node, needed, found, excluded, required)
        if stage < 2:
            gain -= total
            _move_parents(dag, b, old_b, stage == 0)
        else:
            gain += total
            if total == -np.inf:
                break
            set_parents(families, node, draw_family(families, node, excluded, required, total, rng), dag)
            for v in range(n):
                more += dag[v, node]
    if np.log(rng.random()) < gain + np.log(edges) - np.log(edges + more):
        return True
    _move_parents(dag, a, old_a, True)
    _move_parents(dag, b, old_b, True)
    return False
