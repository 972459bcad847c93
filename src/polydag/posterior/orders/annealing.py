"""Better orders from given ones: simulated annealing, and crossover of independent parts.

A state that was heated and cooled again is better in some parts of the network and worse in others. Parts
that no edge connects are taken over one by one, as in Whitley's partition crossover of tours: the families of
a part replace those of the best network so far if they score more and create no cycle.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import numpy as np

from polydag.arrays import Index
from polydag.posterior.orders.relocation import relocate
from polydag.posterior.orders.space import OrderSpace, OrderState

_FREE = 10.0  # nats that the best family of a variable gains over none at the first temperature
_SHORTEST = 20  # sweeps, at least

Parents = dict[int, frozenset[int]]


def free_power(space: OrderSpace) -> float:
    """The power of the weights at which variables move freely."""
    scores = space.table.scores
    lowest = np.where(scores > -np.inf, scores, np.inf).min(axis=1)
    alone = np.where(scores[:, 0] > -np.inf, scores[:, 0], lowest)
    gain = float((scores.max(axis=1) - alone).mean())
    return min(_FREE / gain, 1.0) if gain > 0 else 1.0


def anneal(
    space: OrderSpace, rng: np.random.Generator, state: OrderState, power: float, sweeps: int
) -> OrderState:
    """The state after relocations while the power rises to 1, with `sweeps` sweeps for each factor e."""
    count = max(_SHORTEST, round(-np.log(power) * sweeps))
    for current in np.geomspace(power, 1.0, count):
        state, _ = relocate(space, rng, state, space.n, float(current))
    return state


def crossover(space: OrderSpace, best: OrderState, other: OrderState) -> OrderState:
    """The better of two states, improved by those parts of the worse one that are better."""
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
    found = space.init(order)
    return found if found.log_weight > best.log_weight else best


def _parents(space: OrderSpace, chosen: Index) -> Parents:
    return {node: frozenset(space.table.parents(node, int(s))) for node, s in enumerate(chosen)}


def _parts(different: Index, one: Parents, other: Parents) -> list[list[int]]:
    """Variables with different families, in parts that no edge of either network connects."""
    left, parts = set(different.tolist()), []
    adjacent: dict[int, set[int]] = {v: set() for v in left}
    for v in left:
        for parent in (one[v] | other[v]) & left:
            adjacent[v].add(parent)
            adjacent[parent].add(v)
    while left:
        part, reached = [], [left.pop()]
        while reached:
            v = reached.pop()
            part.append(v)
            reached += [u for u in adjacent[v] if u in left]
            left -= adjacent[v]
        parts.append(part)
    return parts


def _order(parents: Parents) -> Index | None:
    """Parents before children; None if there is a cycle."""
    try:
        return np.array(list(TopologicalSorter(parents).static_order()), dtype=np.int64)
    except CycleError:
        return None
