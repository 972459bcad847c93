"""The operators of GES at one node: which gains they need, and what each of them gains in all."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.scores import ParentSets
from polydag.scores.gains import FamilyGains, Gains
from polydag.search.ges import _essential_graph_kernels as graph
from polydag.search.ges import _operators_kernels as kernels


class Scored(NamedTuple):
    """Operators at one target: sources and their kinds, a tree of sets, and the gains of those wanted.

    The first `skip` elements of a set are not part of the operator's own set.
    """

    candidates: Index
    kinds: Index
    element: Index
    depth: Index
    skip: Index
    wanted: Mask
    gains: Array


class Operators(Protocol):
    """All operators of one sort at one node."""

    def requests(self) -> list[Gains]:
        """The gains that they need."""
        ...

    def scored(self, gains: FamilyGains) -> Scored:
        """The operators with their gains."""
        ...


class Inserts(NamedTuple):
    """Insert(x, y, S): y gains a parent."""

    gained: Gains

    def requests(self) -> list[Gains]:
        """The gains that they need."""
        return [self.gained]

    def scored(self, gains: FamilyGains) -> Scored:
        """The operators with their gains."""
        _, candidates, (_, element, depth), wanted = self.gained
        kinds = np.full(len(candidates), graph.INSERT)
        skip = np.zeros(len(element), dtype=np.int64)
        return Scored(candidates, kinds, element, depth, skip, wanted, gains(self.gained, positive_only=True))


class Deletes(NamedTuple):
    """Delete(x, y, H): y loses a parent."""

    lost: Gains
    skip: Index

    def requests(self) -> list[Gains]:
        """The gains that they need."""
        return [self.lost] if len(self.skip) else []

    def scored(self, gains: FamilyGains) -> Scored:
        """The operators with their gains."""
        _, candidates, (_, element, depth), wanted = self.lost
        kinds = np.full(len(candidates), graph.DELETE)
        values = -gains(self.lost) if len(element) else np.zeros(wanted.shape)
        return Scored(candidates, kinds, element, depth, self.skip, wanted, values)


class Loss(NamedTuple):
    """What one candidate x loses with its parent y: its column, a request, and the request's row by set."""

    column: int
    lost: Gains
    rows: Index


class Turns(NamedTuple):
    """Turn(x, y, S): y gains the parent x, and x loses the parent y."""

    gained: Gains
    kinds: Index
    losses: list[Loss]

    def requests(self) -> list[Gains]:
        """The gains that they need."""
        return [self.gained, *(loss.lost for loss in self.losses)]

    def scored(self, gains: FamilyGains) -> Scored:
        """The operators with their gains."""
        _, candidates, (_, element, depth), wanted = self.gained
        values = gains(self.gained)
        for column, lost, rows in self.losses:
            own = wanted[:, column]
            values[own, column] -= gains(lost)[rows[own], 0]
        skip = np.zeros(len(element), dtype=np.int64)
        return Scored(candidates, self.kinds, element, depth, skip, wanted, values)


def inserts(G: graph.Pdag, y: int, partners: Index, forbidden: Mask, informed: bool) -> Inserts:
    """All Insert(x, y, S), for every partner x."""
    found = kernels.insert_operators(G, y, partners, forbidden, informed)
    candidates, parents, element, depth, wanted = found
    return Inserts(Gains(y, candidates, ParentSets(parents, element, depth), wanted))


def deletes(G: graph.Pdag, y: int, required: Mask) -> Deletes:
    """All Delete(x, y, H), for every x with an edge to y that does not leave y."""
    candidates, element, depth, skip, wanted = kernels.delete_operators(G, y, required)
    return Deletes(Gains(y, candidates, ParentSets(candidates[:0], element, depth), wanted), skip)


def turns(G: graph.Pdag, y: int) -> Turns:
    """All Turn(x, y, S) to x -> y, for every x with an edge to y that is not x -> y already."""
    candidates, kinds, parents, element, depth, wanted = kernels.turn_operators(G, y)
    losses = []
    for c in np.flatnonzero(wanted.any(axis=0)):
        x, own = int(candidates[c]), wanted[:, c].copy()
        root, chain, level, ends = kernels.turn_losses(G, y, x, kinds[c], element, depth, own)
        asked = np.zeros((len(chain), 1), dtype=bool)
        asked[ends[own]] = True
        losses.append(Loss(int(c), Gains(x, np.array([y]), ParentSets(root, chain, level), asked), ends))
    return Turns(Gains(y, candidates, ParentSets(parents, element, depth), wanted), kinds, losses)
