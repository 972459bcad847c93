"""Which jumps there are, found in orders around peaks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.posterior.orders.mode_jump_proposals import fitted
from polydag.posterior.orders.mode_jumps import Jump, Side, proposed
from polydag.posterior.orders.moves import Orders

Index = NDArray[np.int64]
Bits = NDArray[np.bool_]

SURE = 0.9  # an edge of a peak that is more probable than this is one of its marks
_NEAR = 30  # orders of a peak that count as near it: later ones may have left it
_SELDOM = 0.5  # how often an edge comes or goes, beside how often it would in independent orders
_WORTH = 0.1  # the share of accepted jumps, beside the other way's, from which on a way is kept
_TRIES = 5  # from every order seen, to estimate how often a jump is accepted


class Peak(NamedTuple):
    """Orders around it, the first on top, and the edges' probabilities in each, of shape (orders, n, n)."""

    orders: Index
    edges: NDArray[np.float32]


def jumps_between(space: Orders, peaks: Sequence[Peak], rng: np.random.Generator) -> tuple[Jump, ...]:
    """Of the parts in which two peaks differ for sure, or orders around them in which an edge comes or goes.

    A part moves with what is below it or with what is above it, whichever is accepted more often from orders
    that were seen, or now in the one way and now in the other.
    """
    if not peaks:
        return ()
    seen = np.concatenate([peak.orders for peak in peaks])
    near = [Peak(peak.orders[:_NEAR], peak.edges[:_NEAR]) for peak in peaks]
    found: dict[tuple[bool, frozenset[bytes]], Jump] = {}
    for one, other in itertools.chain(itertools.combinations(near, 2), switches(peaks)):
        for ways in ways_between(one, other):
            keys = [(way.backwards, frozenset((way.one.key(), way.other.key()))) for way in ways]
            if not any(key in found for key in keys):
                fits = [fitted(way, seen) for way in ways]
                shares = np.array([accepted(space, fit, one.orders, rng) for fit in fits])
                for chosen in np.flatnonzero(shares >= _WORTH * shares.max()):
                    found[keys[chosen]] = fits[chosen]
    return tuple(found.values())


def ways_between(one: Peak, other: Peak) -> Iterator[tuple[Jump, Jump]]:
    """The parts in which two peaks differ for sure, each with what is below it, and with what is above it."""
    means = [peak.edges.mean(axis=0) for peak in (one, other)]
    sure, never = ([mean > SURE for mean in means], [mean < 1.0 - SURE for mean in means])
    either = sure[0] | sure[1]
    # By their mean places, variables come after what surely leads to them.
    lines = [np.argsort(np.argsort(peak.orders, axis=1).mean(axis=0)) for peak in (one, other)]
    for part in _connected(either & _ends(sure[0] & never[1] | sure[1] & never[0])):
        below, above = _reached(part, either), _reached(part, either.T)
        forwards = [_side(below, line, edges) for line, edges in zip(lines, sure, strict=True)]
        backwards = [_side(above, line[::-1], edges.T) for line, edges in zip(lines, sure, strict=True)]
        yield Jump(forwards[0], forwards[1], False), Jump(backwards[0], backwards[1], True)


def switches(peaks: Sequence[Peak]) -> Iterator[tuple[Peak, Peak]]:
    """Orders around the same peak with an edge, and without it, for edges that seldom come and go.

    Of edges that come and go together, one is taken.
    """
    orders, edges = (np.concatenate(parts) for parts in zip(*peaks, strict=True))
    on, off = edges > SURE, edges < 1.0 - SURE
    turned = np.concatenate([np.diff(peak.edges > SURE, axis=0) for peak in peaks]).mean(axis=0)
    at_random = 2.0 * on.mean(axis=0) * off.mean(axis=0)
    switching = ((on | off).mean(axis=0) > SURE) & (turned > 0.0) & (turned < _SELDOM * at_random)
    ons, offs = on[:, switching].T, off[:, switching].T
    if len(ons):
        for group in _components(np.abs(np.atleast_2d(np.corrcoef(ons))) > SURE):
            here, there = ons[group[0]], offs[group[0]]
            yield Peak(orders[here], edges[here]), Peak(orders[there], edges[there])


def accepted(space: Orders, jump: Jump, orders: Index, rng: np.random.Generator) -> float:
    """The expected share of accepted jumps from some orders."""
    states = [space.state(order) for order in orders]
    gains = [proposed(space, state, jump, 1.0, rng)[1] for state in states for _ in range(_TRIES)]
    return float(np.exp(np.minimum(gains, 0.0)).mean())


def _side(moved: Bits, order: Index, sure: Bits) -> Side:
    sequence: Index = order[moved[order]]
    most = max(1, int(sure[:, sequence].sum(axis=0).max()))
    parents = np.full((len(sequence), most), -1)
    place = {int(v): k for k, v in enumerate(sequence)}
    size = np.ones(len(sequence))
    for k in range(len(sequence) - 1, -1, -1):
        own = np.flatnonzero(sure[:, sequence[k]])
        parents[k, : len(own)] = own
        earlier = [place[int(u)] for u in own if place.get(int(u), k) < k]
        size[earlier] += size[k] / max(len(earlier), 1)
    return Side(sequence, parents, np.column_stack([size, np.ones(len(size))]))


def _reached(part: list[int], edges: Bits) -> Bits:
    """A part and all that its variables lead to."""
    reached = np.zeros(len(edges), dtype=bool)
    reached[part] = True
    while (more := reached | edges[reached].any(axis=0)).sum() > reached.sum():
        reached = more
    return reached


def _ends(edges: Bits) -> Bits:
    """All pairs of variables that have some of the edges each."""
    there = np.flatnonzero(edges.any(axis=0) | edges.any(axis=1))
    pairs = np.zeros_like(edges)
    pairs[np.ix_(there, there)] = True
    return pairs


def _connected(edges: Bits) -> list[list[int]]:
    """The parts of more than one variable."""
    return [part for part in _components(edges) if len(part) > 1]


def _components(edges: Bits) -> list[list[int]]:
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(edges, directed=False)
    return [np.flatnonzero(label == part).tolist() for part in range(count)]
