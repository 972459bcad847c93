"""Families of each node sorted by score, for sums over the families that a state allows.

A state (an order, an ordered partition) allows a family if its parents lie in a set U and, for partitions, at
least one of them lies in a set T. Such a sum runs down the sorted list and stops once the remaining families
are negligible, which happens early when the data are informative. Sets are bit masks of 64-bit words, with
one bit for each candidate parent of the node and a last bit that every family has: if T contains that bit, it
imposes no constraint.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Mask
from polydag.errors import DataError
from polydag.posterior.families import subsets
from polydag.posterior.families.table import FamilyTable

_LONGEST = 128  # most families in a block
_SHORTEST = 8  # families in the first block of a node; each following block is twice as long
_SPAN = 600.0  # largest difference between log scores within a block, in nats
_NEGLIGIBLE = 1e-13  # largest share of a sum that dropped families may have


class SortedFamilies(NamedTuple):
    """Families by node and decreasing score, in blocks; families with a score of -inf are left out.

    Attributes
    ----------
    candidates : int array of shape (n, c)
        The variable that each bit stands for, by node.
    first : int array of shape (n + 1,)
        Node i has the blocks `first[i], …, first[i + 1] - 1`.
    start : int array of shape (blocks + 1,)
        Where each block begins among the families.
    masks : uint64 array of shape (words, families)
        The parents as bits.
    values : array of shape (families,)
        `exp(score - reference)` with the block's reference.
    number : int32 array of shape (families,)
        The index of the parent set in the table.
    sets : int16 array of shape (sets, max_parents)
        The parent sets of the table as positions among the candidates, padded with -1.
    reference : array of shape (blocks,)
        The highest log score of each block.
    tail : array of shape (blocks,)
        The log of the sum over a block and all later blocks of the same node.
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


class Blocks(NamedTuple):
    """Lists of decreasing log scores cut into blocks; the fields are those of `SortedFamilies`."""

    first: Index
    start: Index
    values: Array
    reference: Array
    tail: Array


def sort_families(table: FamilyTable) -> SortedFamilies:
    """Sort the families of a table of log scores that include the log prior."""
    numbers, scores = [], []
    for node, own in enumerate(table.scores):
        order = np.argsort(-own, kind="stable")
        order = order[own[order] > -np.inf]
        if not len(order):
            raise DataError(f"No parent set of {table.names[node]} is allowed.")
        numbers.append(order)
        scores.append(own[order])
    number = np.concatenate(numbers)
    blocks = cut_into_blocks(np.concatenate(scores), np.cumsum([0, *map(len, numbers)]))
    return SortedFamilies(
        candidates=np.ascontiguousarray(table.candidates),
        first=blocks.first,
        start=blocks.start,
        masks=np.ascontiguousarray(_masks(table)[:, number]),
        values=blocks.values,
        number=number.astype(np.int32),
        sets=np.ascontiguousarray(table.sets),
        reference=blocks.reference,
        tail=blocks.tail,
    )


def cut_into_blocks(scores: Array, begin: Index) -> Blocks:
    """Cut lists of decreasing log scores into blocks.

    Parameters
    ----------
    scores : array of shape (families,)
        The lists, one after the other.
    begin : int array of shape (lists + 1,)
        Where each list begins.
    """
    from polydag.posterior.families._sorted_families_kernels import cut, scale

    first, start = cut(scores, begin, _SHORTEST, _LONGEST, _SPAN)
    return Blocks(first, start, *scale(scores, first, start))


def without_negligible(table: FamilyTable) -> FamilyTable:
    """The table without families that are negligible in every sum over all families within a set.

    Where a family is allowed, so are its subsets. A family that scores far less than its best subset is a
    small part of every sum that contains it. Families are dropped such that all dropped ones together are at
    most 1e-13 of any sum; with many rows few families remain. This does not hold for sums that require a
    parent from a given set, since these may contain a family without its best subset.
    """
    limit = np.log(_NEGLIGIBLE / table.scores.shape[1])
    scores = np.where(table.scores < _best_subsets(table) + limit, -np.inf, table.scores)
    return table.with_scores(scores)


def dominated(table: FamilyTable) -> Mask:
    """Families, as an array of shape (n, sets), with a subset that scores at least as much.

    Some network with the highest score has no dominated family.
    """
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
    """The parent sets of the table as bits of candidate positions, hence the same for every node."""
    c = table.candidates.shape[1]
    masks = np.zeros((c // 64 + 1, len(table.sets)), dtype=np.uint64)
    masks[c // 64] |= np.uint64(1) << np.uint64(c % 64)
    for members in table.sets.T:
        there = np.flatnonzero(members >= 0)
        position = members[there].astype(np.uint64)
        masks[position // np.uint64(64), there] |= np.uint64(1) << position % np.uint64(64)
    return masks
