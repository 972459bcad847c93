"""The network with the highest score and a proof that there is none higher, by branch and cut.

A linear program over the families is tightened by cuts until none are violated (`relaxation`); its value is
an upper bound for all networks. Fractional solutions are rounded to orders, which relocations and crossover
improve; the best network so far is a lower bound. A family that lowers the upper bound by more than the gap
between the two is not part of a better network. The remaining networks are divided by whether they contain an
edge, each part with a program of its own; parts with an upper bound below the best network are discarded. The
dividing edge is the one that lowers both bounds most (strong branching).

With many rows few families are worth considering, bounds are tight, and 150 variables take seconds. With few
rows there are many such families, and the proof is out of reach.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.computing.progress import report
from polydag.errors import DataError
from polydag.posterior.best_network.relaxation import Fractional, Relaxation
from polydag.posterior.orders.annealing import anneal, crossover, free_power
from polydag.posterior.orders.relocation import relocate
from polydag.posterior.orders.space import OrderSpace, OrderState, random_order

ACCURACY = 0.1  # nats by which another network may be better
_MOST_FAMILIES = 8_000  # beyond which a proof is unlikely
_MOST_PARTS = 40  # into which the networks are divided
_TRIED = 8  # edges that are tried for a division
_LARGER_LOSS = 0.2  # weight of the larger loss of a division relative to the smaller
_INTEGRAL = 1e-5  # an edge whose extent is nearer to 0 or 1 is decided
_MOST_ROUNDS = 200  # of cuts
_ROUNDINGS = 6  # of the first solution
_HEATS = (30.0, 10.0)  # powers from which these are annealed, relative to that at which variables move freely
_SWEEPS = 50  # of annealing
_SETTLING = 10  # sweeps of a rounded order


class Best(NamedTuple):
    """The best network found, as an order that agrees with it; its log score; an upper bound for all."""

    state: OrderState
    score: float
    bound: float
    relaxation: Relaxation

    @property
    def proven(self) -> bool:
        """Whether no other network is better by more than `ACCURACY`."""
        return self.bound <= self.score + ACCURACY


class Another(NamedTuple):
    """A network with a new edge, if one was found: its adjacency matrix, and an order that agrees with it.

    `complete` says whether the search was exhaustive.
    """

    edges: Mask | None
    order: Index | None
    complete: bool


def best_network(space: OrderSpace, rng: np.random.Generator) -> Best | None:
    """The best network of a table; None where too many families are worth considering."""
    relaxation = Relaxation(space.table)
    if len(relaxation.child) > _MOST_FAMILIES:
        return None
    every: Mask = np.ones(len(relaxation.child), dtype=bool)
    top = _tightened(relaxation, every, -np.inf)
    if top is None:
        raise DataError("No network is allowed: every choice of parent sets has a cycle.")
    rounding = _Rounding(space, relaxation, rng)
    for _ in range(_ROUNDINGS):
        rounding.improve(top.x, _HEATS)
    end = _divided(
        relaxation, top, lambda: rounding.score + ACCURACY, lambda found: rounding.improve(found.x)
    )
    report("best network", 1, 1, f"log score {rounding.score:.1f}")
    return Best(rounding.state, rounding.score, max(end.bound, rounding.score), relaxation)


def another_network(relaxation: Relaxation, seen: Mask, least: float) -> Another:
    """The best network with an edge outside `seen`, of shape (n, n), if it scores more than `least`.

    Only networks without dominated families are considered: others are not modes.
    """
    new: Mask = np.logical_or.reduce(relaxation.has & ~seen[:, relaxation.child].T, axis=1)
    if not new.any():
        return Another(None, None, True)
    asked = relaxation.with_one_of(new)
    top = _tightened(asked, np.ones(len(new), dtype=bool), least)
    if top is None:
        return Another(None, None, True)
    end = _divided(asked, top, lambda: least, lambda found: None)
    if end.network is None:
        return Another(None, None, end.bound <= least)
    extents = _extents(asked, end.network)
    return Another(extents > 0.5, _order(extents), True)


class _End(NamedTuple):
    """The best network of all parts, if it was reached, and an upper bound for all parts."""

    network: Array | None
    bound: float


def _divided(
    relaxation: Relaxation,
    top: Fractional,
    floor: Callable[[], float],
    visit: Callable[[Fractional], None],
) -> _End:
    """Divide networks, the most promising part first, while some may score above the floor."""
    tie = itertools.count()
    parts = [(-top.value, next(tie), np.ones(len(top.x), dtype=bool), top)]
    for number in range(_MOST_PARTS):
        if not parts or -parts[0][0] <= floor():
            break
        _, _, allowed, top = heapq.heappop(parts)
        report("best network", number, _MOST_PARTS, f"log score above {floor():.1f}, at most {top.value:.1f}")
        halves = _halves(relaxation, allowed, top, floor())
        if not halves:
            return _End(top.x, top.value)
        for half in halves:
            found = _tightened(relaxation, half, floor())
            if found is not None:
                visit(found)
                heapq.heappush(parts, (-found.value, next(tie), half, found))
    return _End(None, -parts[0][0] if parts else -np.inf)


class _Rounding:
    """Rounds fractional solutions to orders, and keeps the best network found so far."""

    def __init__(self, space: OrderSpace, relaxation: Relaxation, rng: np.random.Generator) -> None:
        self._space, self._relaxation, self._rng = space, relaxation, rng
        self.state = space.init(random_order(space.table, rng))
        self.score = self._network_score(self.state)

    def improve(self, x: Array, heats: tuple[float, ...] = ()) -> None:
        """Round a solution and improve the order by relocations and, for each heat, by annealing."""
        ties = 1e-6 * self._rng.random((self._space.n, self._space.n))
        found = self._space.init(_order(_extents(self._relaxation, x) + ties))
        self._keep_better(found)
        for _ in range(_SETTLING):
            found, _ = relocate(self._space, self._rng, found, self._space.n)
        self._keep_better(found)
        for heat in heats:
            power = min(1.0, heat * free_power(self._space))
            self._keep_better(anneal(self._space, self._rng, self.state, power, _SWEEPS))

    def _keep_better(self, state: OrderState) -> None:
        for found in (state, crossover(self._space, self.state, state)):
            if (score := self._network_score(found)) > self.score:
                self.state, self.score = found, score

    def _network_score(self, state: OrderState) -> float:
        return float(self._space.best_families(state)[1].sum())


def _order(weights: Array) -> Index:
    """The variables, each chosen when it has least weight from those that are left."""
    n = len(weights)
    left = np.ones(n, dtype=bool)
    order: Index = np.empty(n, dtype=np.int64)
    for place in range(n):
        order[place] = np.argmin(np.where(left, weights[left].sum(axis=0), np.inf))
        left[order[place]] = False
    return order


def _tightened(relaxation: Relaxation, allowed: Mask, least: float) -> Fractional | None:
    """The solution among some families for which no violated cuts are found.

    None as soon as it is clear that no network of these families scores more than `least`.
    """
    for number in range(_MOST_ROUNDS):
        found = relaxation.solve(allowed)
        if found is None or found.value <= least:
            return None
        report("bound of networks", number, _MOST_ROUNDS, f"log score at most {found.value:.1f}")
        if not relaxation.cut(found.x):
            break
    return found


def _halves(relaxation: Relaxation, allowed: Mask, top: Fractional, least: float) -> tuple[Mask, ...]:
    """Families with an edge and families without it; none where the solution is a network."""
    extents = _extents(relaxation, top.x)
    undecided = np.minimum(extents, 1.0 - extents)
    if undecided.max() < _INTEGRAL:
        return ()
    gap = top.value - least
    kept = allowed & (top.losses <= gap)
    best, chosen = -np.inf, (kept, kept)
    tried = np.argsort(-undecided, axis=None, kind="stable")[
        : min(_TRIED, int((undecided >= _INTEGRAL).sum()))
    ]
    for edge in tried:
        u, v = divmod(int(edge), relaxation.n)
        into = relaxation.child == v
        there = kept & (~into | relaxation.has[:, u]) & ~((relaxation.child == u) & relaxation.has[:, v])
        away = kept & ~(into & relaxation.has[:, u])
        values = [found.value if (found := relaxation.solve(half)) else least for half in (there, away)]
        lost = sorted(min(top.value - value, gap) for value in values)
        if (worth := lost[0] + _LARGER_LOSS * lost[1]) > best:
            best, chosen = worth, (there, away)
    return chosen


def _extents(relaxation: Relaxation, x: Array) -> Array:
    """The extent of each edge, of shape (n, n)."""
    extents = np.zeros((relaxation.n, relaxation.n))
    np.add.at(extents.T, relaxation.child, relaxation.has * x[:, None])
    return extents
