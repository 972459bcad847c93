"""The network with the highest score, and a proof that there is none higher, by branch and cut.

A linear program over the families is tightened by cuts until none are found (`relaxation`): its value is an
upper bound of all networks. Fractional solutions are rounded to orders, which moves of single variables and
of parts improve: the best network so far is a lower bound. A family that lowers the upper bound by more than
the gap between both is not part of a better network. What is left is divided: an edge is there, or it is not,
each with a program of its own; parts whose upper bound is below the best network are done with. The edge is
the one that lowers both bounds most (strong branching).

With many rows few families are worth considering, bounds are close, and 150 variables take seconds. With few
rows there are many, and the proof is not to be had.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.posterior.best_network.relaxation import Bits, Fractional, Relaxation
from polydag.posterior.orders.improvement import combined, cooled, first_power
from polydag.posterior.orders.moves import Orders, State
from polydag.progress import report

Array = NDArray[np.float64]
Index = NDArray[np.int64]

ACCURACY = 0.1  # logarithms that another network may be better by
_MOST = 8_000  # families worth considering, beyond which there is little hope
_PARTS = 40  # that the networks are divided into, at most
_TRIED = 8  # edges that are tried for a division
_BOTH = 0.2  # what the larger loss of a division counts beside the smaller
_WHOLE = 1e-5  # an edge that is there to an extent nearer to 0 or 1 is decided
_ROUNDS = 200  # of cuts, at most
_ROUNDINGS = 6  # of the first solution, each improved by cooling from
_HEATS = (30.0, 10.0)  # times the power at which variables move freely
_SWEEPS = 50
_SETTLING = 10  # sweeps of a rounded order


class Best(NamedTuple):
    """The best network found, in an order that it agrees with; its log score, and an upper bound of all."""

    state: State
    score: float
    bound: float
    relaxation: Relaxation

    @property
    def proven(self) -> bool:
        """Whether no other network is better by more than `ACCURACY`."""
        return self.bound <= self.score + ACCURACY


class Another(NamedTuple):
    """A network with something new, if one was found, as edges and as an order that it agrees with.

    `complete` says whether there is none otherwise.
    """

    edges: Bits | None
    order: Index | None
    complete: bool


def best_network(space: Orders, rng: np.random.Generator) -> Best | None:
    """The best network of a table; None where too many families are worth considering."""
    relaxation = Relaxation(space.table)
    if len(relaxation.child) > _MOST:
        return None
    every: Bits = np.ones(len(relaxation.child), dtype=bool)
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


def another_network(relaxation: Relaxation, seen: Bits, least: float) -> Another:
    """The best network that has an edge which is not among `seen`, if it scores more than `least`.

    Of networks that lose by none of their edges: others are no peaks.
    """
    new: Bits = np.logical_or.reduce(relaxation.has & ~seen[:, relaxation.child].T, axis=1)
    if not new.any():
        return Another(None, None, True)
    asked = relaxation.wanting(new)
    top = _tightened(asked, np.ones(len(new), dtype=bool), least)
    if top is None:
        return Another(None, None, True)
    end = _divided(asked, top, lambda: least, lambda found: None)
    if end.network is None:
        return Another(None, None, end.bound <= least)
    extents = _extents(asked, end.network)
    return Another(extents > 0.5, _order(extents), True)


class _End(NamedTuple):
    """The best network of all parts, if it was reached, and an upper bound of all parts."""

    network: Array | None
    bound: float


def _divided(
    relaxation: Relaxation,
    top: Fractional,
    floor: Callable[[], float],
    visit: Callable[[Fractional], None],
) -> _End:
    """Divide networks, the most promising part first, while there may be some above the floor."""
    tie = itertools.count()
    parts = [(-top.value, next(tie), np.ones(len(top.x), dtype=bool), top)]
    for number in range(_PARTS):
        if not parts or -parts[0][0] <= floor():
            break
        _, _, allowed, top = heapq.heappop(parts)
        report("best network", number, _PARTS, f"log score above {floor():.1f}, at most {top.value:.1f}")
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
    """Orders by fractional choices, and the best network that they have led to."""

    def __init__(self, space: Orders, relaxation: Relaxation, rng: np.random.Generator) -> None:
        self._space, self._relaxation, self._rng = space, relaxation, rng
        self._room = space.room()
        self.state = space.start(rng)
        self.score = self._network(self.state)

    def improve(self, x: Array, heats: tuple[float, ...] = ()) -> None:
        """Round a choice, and let the variables move: each for itself, and from some temperatures on."""
        ties = 1e-6 * self._rng.random((self._space.n, self._space.n))
        found = self._space.state(_order(_extents(self._relaxation, x) + ties))
        self._take(found)
        for _ in range(_SETTLING):
            self._space.relocate(found, self._space.n, 1.0, self._rng, self._room)
        self._take(found)
        for heat in heats:
            power = min(1.0, heat * first_power(self._space))
            self._take(cooled(self._space, self.state, power, _SWEEPS, self._rng))

    def _take(self, state: State) -> None:
        for found in (state, combined(self._space, self.state, state)):
            if (score := self._network(found)) > self.score:
                self.state, self.score = found.copy(), score

    def _network(self, state: State) -> float:
        return float(self._space.best_families(state)[1].sum())


def _order(weights: Array) -> Index:
    """The variables, each when it has least from those that are left."""
    n = len(weights)
    left = np.ones(n, dtype=bool)
    order: Index = np.empty(n, dtype=np.int64)
    for place in range(n):
        order[place] = np.argmin(np.where(left, weights[left].sum(axis=0), np.inf))
        left[order[place]] = False
    return order


def _tightened(relaxation: Relaxation, allowed: Bits, least: float) -> Fractional | None:
    """The choice among some families that no more cuts are found for.

    None as soon as it is clear that no network of them scores more than `least`.
    """
    for number in range(_ROUNDS):
        found = relaxation.solve(allowed)
        if found is None or found.value <= least:
            return None
        report("bound of networks", number, _ROUNDS, f"log score at most {found.value:.1f}")
        if not relaxation.cut(found.x):
            break
    return found


def _halves(relaxation: Relaxation, allowed: Bits, top: Fractional, least: float) -> tuple[Bits, ...]:
    """Families with an edge and without it; none where the best choice is a network."""
    extents = _extents(relaxation, top.x)
    undecided = np.minimum(extents, 1.0 - extents)
    if undecided.max() < _WHOLE:
        return ()
    gap = top.value - least
    kept = allowed & (top.losses <= gap)
    best, chosen = -np.inf, (kept, kept)
    tried = np.argsort(-undecided, axis=None, kind="stable")[: min(_TRIED, int((undecided >= _WHOLE).sum()))]
    for edge in tried:
        u, v = divmod(int(edge), relaxation.n)
        into = relaxation.child == v
        there = kept & (~into | relaxation.has[:, u]) & ~((relaxation.child == u) & relaxation.has[:, v])
        away = kept & ~(into & relaxation.has[:, u])
        values = [found.value if (found := relaxation.solve(half)) else least for half in (there, away)]
        lost = sorted(min(top.value - value, gap) for value in values)
        if (worth := lost[0] + _BOTH * lost[1]) > best:
            best, chosen = worth, (there, away)
    return chosen


def _extents(relaxation: Relaxation, x: Array) -> Array:
    """To what extent each edge is there."""
    extents = np.zeros((relaxation.n, relaxation.n))
    np.add.at(extents.T, relaxation.child, relaxation.has * x[:, None])
    return extents
