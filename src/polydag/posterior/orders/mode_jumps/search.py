"""Finds the mode jumps of a table in orders sampled around its modes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Index, Mask
from polydag.posterior.orders.mode_jumps.moves import Layout, ModeJump, propose
from polydag.posterior.orders.mode_jumps.proposals import fit_proposals
from polydag.posterior.orders.space import OrderSpace

CERTAIN = 0.9  # an edge above this probability is certain, below one minus it certainly absent
_NEAR = 30  # orders that count as near a mode: later ones may have left it
_RARELY = 0.5  # how often an edge switches, relative to independent orders
_WORTH = 0.1  # acceptance relative to the better direction from which on a direction is kept
_TRIES = 5  # proposals from every order, to estimate the acceptance


class Mode(NamedTuple):
    """Orders sampled around a mode.

    Attributes
    ----------
    orders : int array of shape (orders, n)
        The first is that of the mode itself.
    edges : float32 array of shape (orders, n, n)
        The probability of each edge given the bucket order of each.
    """

    orders: Index
    edges: NDArray[np.float32]


def find_jumps(space: OrderSpace, rng: np.random.Generator, modes: Sequence[Mode]) -> tuple[ModeJump, ...]:
    """Jumps of the parts in which modes differ, and of those that switch rarely around one mode.

    A part moves with its descendants or with its ancestors, whichever is accepted more often from orders
    around the modes; both jumps are kept if their acceptance is similar.
    """
    if not modes:
        return ()
    seen = np.concatenate([mode.orders for mode in modes])
    near = [Mode(mode.orders[:_NEAR], mode.edges[:_NEAR]) for mode in modes]
    found: dict[tuple[bool, frozenset[bytes]], ModeJump] = {}
    for one, other in itertools.chain(itertools.combinations(near, 2), rare_switches(modes)):
        for directions in jumps_between(one, other):
            keys = [(way.backwards, frozenset(layout.key() for layout in way.layouts)) for way in directions]
            if not any(key in found for key in keys):
                fits = [fit_proposals(way, seen) for way in directions]
                shares = np.array([acceptance(space, rng, fit, one.orders) for fit in fits])
                for chosen in np.flatnonzero(shares >= _WORTH * shares.max()):
                    found[keys[chosen]] = fits[chosen]
    return tuple(found.values())


def jumps_between(one: Mode, other: Mode) -> Iterator[tuple[ModeJump, ModeJump]]:
    """The parts in which two modes certainly differ, each with its descendants and with its ancestors."""
    means = [mode.edges.mean(axis=0) for mode in (one, other)]
    present, absent = ([mean > CERTAIN for mean in means], [mean < 1.0 - CERTAIN for mean in means])
    either = present[0] | present[1]
    # Sorted by mean place, variables come after their certain parents.
    lines = [np.argsort(np.argsort(mode.orders, axis=1).mean(axis=0)) for mode in (one, other)]
    for part in _connected(either & _ends(present[0] & absent[1] | present[1] & absent[0])):
        below, above = _reached(part, either), _reached(part, either.T)
        forwards = [_layout(below, line, edges) for line, edges in zip(lines, present, strict=True)]
        backwards = [_layout(above, line[::-1], edges.T) for line, edges in zip(lines, present, strict=True)]
        yield ModeJump((forwards[0], forwards[1]), False), ModeJump((backwards[0], backwards[1]), True)


def rare_switches(modes: Sequence[Mode]) -> Iterator[tuple[Mode, Mode]]:
    """Orders with an edge and orders without it, for edges that chains around the modes rarely switch.

    One of several edges that switch together is taken.
    """
    orders, edges = (np.concatenate(parts) for parts in zip(*modes, strict=True))
    on, off = edges > CERTAIN, edges < 1.0 - CERTAIN
    switched = np.concatenate([np.diff(mode.edges > CERTAIN, axis=0) for mode in modes]).mean(axis=0)
    at_random = 2.0 * on.mean(axis=0) * off.mean(axis=0)
    switching = ((on | off).mean(axis=0) > CERTAIN) & (switched > 0.0) & (switched < _RARELY * at_random)
    ons, offs = on[:, switching].T, off[:, switching].T
    if len(ons):
        for group in _components(np.abs(np.atleast_2d(np.corrcoef(ons))) > CERTAIN):
            here, there = ons[group[0]], offs[group[0]]
            yield Mode(orders[here], edges[here]), Mode(orders[there], edges[there])


def acceptance(space: OrderSpace, rng: np.random.Generator, mode_jump: ModeJump, orders: Index) -> float:
    """The expected acceptance of a jump from orders of shape (orders, n)."""
    states = [space.init(order) for order in orders]
    ratios = [propose(space, rng, state, mode_jump)[1] for state in states for _ in range(_TRIES)]
    return float(np.exp(np.minimum(ratios, 0.0)).mean())


def _layout(moved: Mask, order: Index, edges: Mask) -> Layout:
    """The layout of the moved variables, which are inserted in the given order, by certain edges."""
    sequence: Index = order[moved[order]]
    most = max(1, int(edges[:, sequence].sum(axis=0).max()))
    parents = np.full((len(sequence), most), -1)
    place = {int(v): k for k, v in enumerate(sequence)}
    size = np.ones(len(sequence))
    for k in range(len(sequence) - 1, -1, -1):
        own = np.flatnonzero(edges[:, sequence[k]])
        parents[k, : len(own)] = own
        earlier = [place[int(u)] for u in own if place.get(int(u), k) < k]
        size[earlier] += size[k] / max(len(earlier), 1)
    return Layout(sequence, parents, np.column_stack([size, np.ones(len(size))]))


def _reached(part: list[int], edges: Mask) -> Mask:
    """A part and all variables that edges lead to from it."""
    reached = np.zeros(len(edges), dtype=bool)
    reached[part] = True
    while (more := reached | edges[reached].any(axis=0)).sum() > reached.sum():
        reached = more
    return reached


def _ends(edges: Mask) -> Mask:
    """All pairs of variables that are ends of some of the edges."""
    there = np.flatnonzero(edges.any(axis=0) | edges.any(axis=1))
    pairs = np.zeros_like(edges)
    pairs[np.ix_(there, there)] = True
    return pairs


def _connected(edges: Mask) -> list[list[int]]:
    """The components of more than one variable."""
    return [part for part in _components(edges) if len(part) > 1]


def _components(edges: Mask) -> list[list[int]]:
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(edges, directed=False)
    return [np.flatnonzero(label == part).tolist() for part in range(count)]
