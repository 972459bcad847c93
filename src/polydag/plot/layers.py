"""Layers and their order: the first two steps of a layered drawing (Sugiyama, Tagawa and Toda 1981).

The layer of a node is the length of the longest path to it. Edges that span several layers are split by dummy
vertices. Barycentre sweeps improve the order within layers; the best order found is kept.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from polydag import orientation
from polydag.arrays import Mask

_SWEEPS = 24


class Layered(NamedTuple):
    """Vertices in layers: `0..n-1` are nodes, the others dummy vertices.

    `routes[i, j]` lists the vertices of an edge from its upper to its lower end; `up` and `down` are the
    neighbours of each vertex in the layers above and below.
    """

    layers: list[list[int]]
    routes: dict[tuple[int, int], list[int]]
    up: list[list[int]]
    down: list[list[int]]


def downward(A: Mask) -> Mask:
    """Each edge once, pointing from its upper to its lower end.

    A DAG is unchanged; a CPDAG is extended to a DAG. In any other graph, every edge points from the node
    listed first to the one listed later.
    """
    if orientation.topological_order(A) is not None:
        return A
    extension = orientation.consistent_extension(A)
    return np.triu(A | A.T) if extension is None else extension


def assign(D: Mask) -> list[int]:
    """The layer of each node by longest path; nodes with more children than parents are then moved down."""
    order = orientation.topological_order(D)
    assert order is not None  # `downward` returns a DAG
    level = [0] * len(D)
    for j in order:
        level[j] = max((level[i] + 1 for i in np.flatnonzero(D[:, j]).tolist()), default=0)
    for i in reversed(order):
        children = np.flatnonzero(D[i]).tolist()
        if len(children) > int(D[:, i].sum()):
            level[i] = min(level[j] for j in children) - 1
    return level


def layered(D: Mask, level: Sequence[int]) -> Layered:
    """Nodes and dummy vertices in layers, ordered so that few edges cross."""
    layers: list[list[int]] = [[] for _ in range(max(level) + 1)]
    up: list[list[int]] = [[] for _ in range(len(D))]
    down: list[list[int]] = [[] for _ in range(len(D))]
    routes: dict[tuple[int, int], list[int]] = {}
    for i, where in enumerate(level):
        layers[where].append(i)
    for i, j in np.argwhere(D).tolist():
        route = [i]
        for between in range(level[i] + 1, level[j]):
            route.append(len(up))
            layers[between].append(len(up))
            up.append([])
            down.append([])
        route.append(j)
        routes[i, j] = route
        for a, b in pairwise(route):
            down[a].append(b)
            up[b].append(a)
    return Layered(_ordered(layers, up, down), routes, up, down)


def _ordered(layers: list[list[int]], up: list[list[int]], down: list[list[int]]) -> list[list[int]]:
    best, fewest = layers, crossings(layers, down)
    current = [list(layer) for layer in layers]
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        downwards = sweep % 2 == 0
        neighbours = up if downwards else down
        for where in range(1, len(current)) if downwards else range(len(current) - 2, -1, -1):
            fixed = current[where - 1 if downwards else where + 1]
            position = {vertex: float(k) for k, vertex in enumerate(fixed)}
            current[where] = _by_barycentre(current[where], neighbours, position)
        if (found := crossings(current, down)) < fewest:
            best, fewest = [list(layer) for layer in current], found
    return best


def _by_barycentre(layer: list[int], neighbours: list[list[int]], position: dict[int, float]) -> list[int]:
    """Vertices sorted by the mean position of their neighbours; those without neighbours stay in place."""
    scale = max(len(position) - 1, 1) / max(len(layer) - 1, 1)
    key = {
        vertex: sum(position[other] for other in neighbours[vertex]) / len(neighbours[vertex])
        if neighbours[vertex]
        else k * scale
        for k, vertex in enumerate(layer)
    }
    return sorted(layer, key=key.__getitem__)


def crossings(layers: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> int:
    """The number of edge crossings, counted as inversions between adjacent layers."""
    count = 0
    for upper, lower in pairwise(layers):
        position = {vertex: k for k, vertex in enumerate(lower)}
        seen: list[int] = []
        for vertex in upper:
            ends = [position[other] for other in down[vertex]]
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count
