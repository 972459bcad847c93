"""The families of each node from the best to the worst, for sums over those that a state allows.

A state (an order, an ordered partition) allows a family when its parents lie in a set U, and perhaps only
when one of them lies in a set T. Such a sum goes through the list from the top and ends where the rest is
too small to matter, which is soon when the data speak clearly. Sets are bits of 64-bit words, one bit for
each candidate of the node and a last one that every family has: with that bit in T, T asks for nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.posterior.families import subsets
from polydag.posterior.families.table import FamilyTable

Array = NDArray[np.float64]
Index = NDArray[np.int64]

_BLOCK = 128  # families that are summed side by side, at most
_FIRST = 8  # in the first block of a node; twice as many in each that follows
_SPAN = 600.0  # logarithms within a block
_DROPPED = 1e-13  # of a sum, at most, by families that are left out for their subsets


class Ranked(NamedTuple):
    """Families by node and falling score, in blocks; those with a score of -inf are left out.

    Attributes
    ----------
    candidates : int array of shape (n, c)
        The variable of each bit, by node.
    first : int array of shape (n + 1,)
        The blocks of node i are `first[i]` to `first[i + 1]`.
    start : int array of shape (blocks + 1,)
        Where each block begins among the families.
    masks : uint64 array of shape (words, families)
        The parents.
    values : array of shape (families,)
        `exp(score - reference)`.
    number : int array of shape (families,)
        Which set of the table it is.
    sets : int array of shape (sets, max_parents)
        The sets of the table: bits, filled up with -1.
    reference : array of shape (blocks,)
        The highest log score of each block.
    tail : array of shape (blocks,)
        The logarithm of the sum of a block and those after it, of the same node.
    """

    candidates: Index
    first: Index
    start: Index
    masks: NDArray[np.uint64]
    values: Array
    number: NDArray[np.int32]
    sets: NDArray[np.int16]
    reference: Array
    tail: Array


def rank(table: FamilyTable) -> Ranked:
    """Sort the families of a table with the prior in it."""
    numbers, scores = [], []
    for node, own in enumerate(table.scores):
        order = np.argsort(-own, kind="stable")
        order = order[own[order] > -np.inf]
        if not len(order):
            raise DataError(f"No parent set of {table.names[node]} is allowed.")
        numbers.append(order)
        scores.append(own[order])
    number = np.concatenate(numbers)
    begin = np.cumsum([0, *map(len, numbers)])
    first, start, values, reference, tail = blocks(np.concatenate(scores), begin)
    return Ranked(
        np.ascontiguousarray(table.candidates), first, start, np.ascontiguousarray(_masks(table)[:, number]),
        values, number.astype(np.int32), np.ascontiguousarray(table.sets), reference, tail,
    )  # fmt: skip


def blocks(scores: Array, begin: Index) -> tuple[Index, Index, Array, Array, Array]:
    """Lists of falling log scores, which begin at `begin`, in blocks.

    `first`, `start`, `values`, `reference` and `tail` of `Ranked`.
    """
    from polydag.posterior.families._score_blocks_kernels import cut, scale

    first, start = cut(scores, begin, _FIRST, _BLOCK, _SPAN)
    return first, start, *scale(scores, first, start)


def undominated(table: FamilyTable) -> FamilyTable:
    """The table without families that never matter to a sum over all families within a set.

    Where a family fits, so do its subsets. One that scores far less than its best subset is a small part of
    every sum that it is in; left out are those of which all together are at most 1e-13 of it. With many rows
    few families stay. Sums over some of the families within a set need not have the subset, and so all of
    them.
    """
    limit = np.log(_DROPPED / table.scores.shape[1])
    scores = np.where(table.scores < _best_subsets(table) + limit, -np.inf, table.scores)
    return table.with_scores(scores)


def outshone(table: FamilyTable) -> NDArray[np.bool_]:
    """Families, of shape (n, sets), of which some subset scores as much: no best network needs them."""
    return table.scores <= _best_subsets(table)


def _best_subsets(table: FamilyTable) -> Array:
    """The score of the best proper subset of each parent set."""
    width, top = table.candidates.shape[1], table.max_parents
    start, choose = subsets.offsets(width, top), subsets.binomials(width, max(top, 1))
    best = np.full(table.scores.shape, -np.inf)
    for size in range(1, top + 1):
        own = slice(start[size], start[size + 1])
        members = table.sets[own, :size].astype(np.int64)
        for k in range(size):
            left = np.delete(members, k, axis=1)
            smaller = start[size - 1] + choose[left, np.arange(1, size)].sum(axis=1)
            found = np.maximum(best[:, smaller], table.scores[:, smaller])
            np.maximum(best[:, own], found, out=best[:, own])
    return best


def _masks(table: FamilyTable) -> NDArray[np.uint64]:
    """The sets of the table as bits; they are positions among the candidates, so the same for every node."""
    c = table.candidates.shape[1]
    masks = np.zeros((c // 64 + 1, len(table.sets)), dtype=np.uint64)
    masks[c // 64] |= np.uint64(1) << np.uint64(c % 64)
    for members in table.sets.T:
        there = np.flatnonzero(members >= 0)
        position = members[there].astype(np.uint64)
        masks[position // np.uint64(64), there] |= np.uint64(1) << position % np.uint64(64)
    return masks
