"""Slow and obvious versions of graph algorithms, for the tests to compare with; `A[i, j]` is `i -> j`."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import combinations, product

import networkx as nx
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


@cache
def all_dags(n: int) -> tuple[Mask, ...]:
    """Every DAG of n labelled nodes."""
    pairs = list(combinations(range(n), 2))
    found = []
    for kinds in product((0, 1, 2), repeat=len(pairs)):
        A = np.zeros((n, n), dtype=bool)
        for (i, j), kind in zip(pairs, kinds, strict=True):
            if kind:
                A[(i, j) if kind == 1 else (j, i)] = True
        if nx.is_directed_acyclic_graph(as_networkx(A)):
            found.append(A)
    return tuple(found)


def markov_key(A: Mask) -> tuple[object, ...]:
    """Skeleton and v-structures: equal for equivalent DAGs, and only for those (Verma and Pearl 1990)."""
    n = len(A)
    joined = {frozenset(pair) for pair in combinations(range(n), 2) if A[pair] or A[pair[::-1]]}
    vees = {
        (i, k, j)
        for k in range(n)
        for i, j in combinations(range(n), 2)
        if k not in (i, j) and A[i, k] and A[j, k] and frozenset((i, j)) not in joined
    }
    return frozenset(joined), frozenset(vees)


@cache
def equivalence_classes(n: int) -> tuple[tuple[Mask, ...], ...]:
    """All DAGs of n nodes, grouped by Markov equivalence."""
    classes: dict[object, list[Mask]] = defaultdict(list)
    for dag in all_dags(n):
        classes[markov_key(dag)].append(dag)
    return tuple(tuple(members) for members in classes.values())


def union(dags: tuple[Mask, ...] | list[Mask]) -> Mask:
    """What the DAGs agree on stays directed, the rest becomes undirected."""
    return np.logical_or.reduce(dags)


@cache
def _networkx(cells: bytes, n: int) -> nx.DiGraph:
    return nx.from_numpy_array(np.frombuffer(cells, dtype=bool).reshape(n, n), create_using=nx.DiGraph)


def as_networkx(A: Mask) -> nx.DiGraph:
    """The same directed graph; remembered, since building it is what takes the time."""
    return _networkx(A.tobytes(), len(A))


def simple_paths(A: Mask, a: int, b: int) -> list[list[int]]:
    """All paths from a to b along the entries of A, without a repeated node."""
    return list(nx.all_simple_paths(as_networkx(A), a, b))


def descendants(A: Mask, node: int) -> set[int]:
    """Nodes that a directed path leads to, the node itself included."""
    return {node} | nx.descendants(as_networkx(A), node)


def path_blocked(A: Mask, path: list[int], given: set[int]) -> bool:
    """The textbook definition for one path."""
    for before, node, after in zip(path, path[1:], path[2:], strict=False):
        if A[before, node] and A[after, node]:
            if not descendants(A, node) & given:
                return True
        elif node in given:
            return True
    return False


def d_separated(A: Mask, a: int, b: int, given: set[int]) -> bool:
    """Every path is blocked."""
    return all(path_blocked(A, path, given) for path in simple_paths(A | A.T, a, b))


@st.composite
def masks(draw: st.DrawFn, max_nodes: int = 7) -> Mask:
    """Any directed graph without loops; two-way pairs are undirected edges."""
    n = draw(st.integers(1, max_nodes))
    bits = draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n))
    A = np.array(bits, dtype=bool).reshape(n, n)
    np.fill_diagonal(A, False)
    return A


@st.composite
def dags(draw: st.DrawFn, max_nodes: int = 7) -> Mask:
    """A DAG in any order of nodes."""
    A = np.triu(draw(masks(max_nodes)), 1)
    order = draw(st.permutations(range(len(A))))
    return A[np.ix_(order, order)]
