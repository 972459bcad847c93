"""Better orders from given ones: by cooling down, and by parts that others have better.

A heated state comes back changed for the better in some parts of the network and for the worse in others;
parts that have nothing to do with each other are taken over one by one (as Whitley's partition crossover does
with tours): the families of a part replace those of the best network so far where they score more and make no
cycle.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from polydag.posterior.orders.moves import Orders, State

Index = NDArray[np.int64]

_FREE = 10.0  # logarithms that the best family of a variable gains, at the temperature to begin with
_SHORTEST = 20  # sweeps, at least


def first_power(space: Orders) -> float:
    """The power at which relocations move freely."""
    scores = space.table.scores
    lowest = np.where(scores > -np.inf, scores, np.inf).min(axis=1)
    alone = np.where(scores[:, 0] > -np.inf, scores[:, 0], lowest)
    gain = float((scores.max(axis=1) - alone).mean())
    return min(_FREE / gain, 1.0) if gain > 0 else 1.0


def cooled(space: Orders, state: State, begin: float, sweeps: int, rng: np.random.Generator) -> State:
    """A state after relocations with powers that rise to 1."""
    found, room = state.copy(), space.room()
    count = max(_SHORTEST, round(-np.log(begin) * sweeps))
    for power in np.geomspace(begin, 1.0, count):
        space.relocate(found, space.n, float(power), rng, room)
    return found


def combined(space: Orders, best: State, other: State) -> State:
    """The better of two states, with the parts of the worse one that are better."""
    if other.log_weight > best.log_weight:
        best, other = other, best
    own, scores = space.best_families(best)
    others, other_scores = space.best_families(other)
    parents, other_parents = (_parents(space, chosen) for chosen in (own, others))
    gains = other_scores - scores
    parts = _parts(np.flatnonzero(own != others), parents, other_parents)
    kept, better = parents, False
    for part in sorted(parts, key=lambda part: -gains[part].sum()):
        if gains[part].sum() <= 0.0:
            break
        proposed = {v: other_parents[v] if v in part else kept[v] for v in kept}
        if (order := _order(proposed)) is not None:
            kept, better = proposed, True
    if not better:
        return best
    order = _order(kept)
    assert order is not None
    found = space.state(order)
    return found if found.log_weight > best.log_weight else best


Parents = dict[int, frozenset[int]]


def _parents(space: Orders, chosen: Index) -> Parents:
    return {node: frozenset(space.table.parents(node, int(s))) for node, s in enumerate(chosen)}


def _parts(different: Index, one: Parents, other: Parents) -> list[list[int]]:
    """Variables with different families, in parts that no edge of either network connects."""
    left, parts = set(different.tolist()), []
    near: dict[int, set[int]] = {v: set() for v in left}
    for v in left:
        for parent in (one[v] | other[v]) & left:
            near[v].add(parent)
            near[parent].add(v)
    while left:
        part, reached = [], [left.pop()]
        while reached:
            v = reached.pop()
            part.append(v)
            reached += [u for u in near[v] if u in left]
            left -= near[v]
        parts.append(part)
    return parts


def _order(parents: Parents) -> Index | None:
    """Parents before children; None if there is a cycle."""
    try:
        return np.array(list(TopologicalSorter(parents).static_order()), dtype=np.int64)
    except CycleError:
        return None
