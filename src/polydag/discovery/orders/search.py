"""A search for orders of high weight, for chains to begin in.

With many rows the weights of orders have separate peaks, hundreds of logarithms apart, and a chain that
starts anywhere ends on any of them. Here a chain of relocations is cooled down from a temperature at which it
moves freely; then heated up again and again, less than at first. A heated state comes back changed for the
better in some parts of the network and for the worse in others, and parts that have nothing to do with each
other are taken over one by one (as Whitley's partition crossover does with tours): the families of a part
replace those of the best network so far where they score more and make no cycle.

Several searches go side by side, and in the end their better parts are combined in the same way. Where they
find peaks of about the same weight, chains begin on all of these; where one is far above, it has all the
weight, and all begin there. R-hat then tells how well they move about on it and on others near by: it cannot
tell of a higher peak that no search has found.
"""

from __future__ import annotations

from functools import partial, reduce
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polydag.checkpoint import piece
from polydag.discovery.orders import Orders, State
from polydag.progress import report

if TYPE_CHECKING:
    from polydag.checkpoint import Piece

Index = NDArray[np.int64]

_FREE = 10.0  # logarithms that the best family of a variable gains, at the temperature to begin with
_SWEEPS = 170  # of relocations, to cool down by a factor e
_AGAIN = 50  # the same after heating up
_SHORTEST = 20  # sweeps, at least
_HEATS = (3.5, 7.0, 14.0) * 3  # powers that are heated up to in a round, beside the first
_ROUNDS = 16  # at most
_PATIENCE = 2  # rounds without success, before the search ends
_FLAT = 0.05  # from this power on, chains need no search
_SUCCESS = 1.0  # logarithms, at least
_FAR = 10.0  # logarithms behind the best, beyond which a peak has no weight beside it
_ALIKE = 0.5  # logarithms for each variable: searches that are as near after a round need no other


def search(
    space: Orders,
    n_searches: int,
    *,
    n_jobs: int = 1,
    random_state: int | None = None,
    name: str = "chains",
) -> list[Index]:
    """Orders of high weight, by several searches: each its own, or the best of all where that is far better.

    Parameters
    ----------
    space : Orders
        The orders of a table.
    n_searches : int
        How many searches, each with random numbers of its own.
    n_jobs : int
        Processes (joblib); the orders do not depend on it.
    random_state : int, optional
        The seed.
    name : str
        Of the checkpoints.
    """
    from joblib import Parallel, delayed

    entropy = np.random.SeedSequence(random_state).entropy
    lines: list[State | None] = [None] * n_searches
    best: State | None = None
    flat, failed = first_power(space) >= _FLAT, 0
    with Parallel(n_jobs=n_jobs, mmap_mode="c") as parallel:
        for number in range(_ROUNDS):

            def compute(number: int = number, lines: list[State | None] = lines) -> Piece:
                seeds = [np.random.SeedSequence(entropy, spawn_key=(k, number)) for k in range(n_searches)]
                found = parallel(
                    delayed(search_on)(space, line, np.random.default_rng(seed))
                    for line, seed in zip(lines, seeds, strict=True)
                )
                return {"orders": np.stack([state.order for state in found])}

            orders = np.asarray(piece(f"{name}-search-{number}", compute)["orders"])
            found = [space.state(order) for order in orders]
            lines = [*found]
            together = reduce(partial(combined, space), found)
            gained = np.inf if best is None else together.log_weight - best.log_weight
            best = together if best is None else combined(space, best, together)
            weights = ", ".join(f"{state.log_weight:.1f}" for state in found)
            report("search for orders", number + 1, _ROUNDS, f"log weight {best.log_weight:.1f} of {weights}")
            failed = 0 if gained >= _SUCCESS else failed + 1
            spread = max(state.log_weight for state in found) - min(state.log_weight for state in found)
            if flat or failed == _PATIENCE or (not number and spread < _ALIKE * space.n):
                break
    assert best is not None
    if flat:
        return [*orders]
    return [(best if state.log_weight < best.log_weight - _FAR else state).order for state in found]


def search_on(space: Orders, best: State | None, rng: np.random.Generator) -> State:
    """One round of a search: from the beginning, and heated up some times."""
    begin = first_power(space)
    fresh = cooled(space, space.start(rng), begin, _SWEEPS if begin < _FLAT else 0, rng)
    best = fresh if best is None else combined(space, best, fresh)
    for heat in _HEATS:
        if begin < _FLAT:
            best = combined(space, best, cooled(space, best, begin * heat, _AGAIN, rng))
    return best


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
