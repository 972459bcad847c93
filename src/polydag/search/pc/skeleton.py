"""The skeleton of PC-stable (Colombo and Maathuis 2014, algorithm 4.1), level by level.

At level s, i and j are tested given every set of s variables adjacent to i, and of s adjacent to j, adjacency
being that at the start of the level. All sets are tested, not only those up to the first that separates, so
that the set that is kept (the one with the largest p-value) does not depend on the order of the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from math import comb
from typing import NamedTuple

import numpy as np

from polydag import orientation
from polydag.arrays import Array, Mask
from polydag.computing.progress import report
from polydag.knowledge import Masks
from polydag.search.pc.independence_tests._independence_kernels import ALIKE
from polydag.search.pc.independence_tests.sweeps import IndependenceTest, Plan, lists, sweep


class Level(NamedTuple):
    """One level of the skeleton: the size of its sets, tests made, edges removed, tests left out."""

    level: int
    tests: int
    removed: int
    skipped: int


@dataclass(frozen=True, eq=False)
class SeparatingSets(Mapping[frozenset[str], frozenset[str]]):
    """What separates each removed pair: of the sets tested last, the one with the largest p-value.

    Keys and values are sets of names. Pairs that need no conditioning, which are most, are kept in a matrix.
    """

    names: tuple[str, ...]
    marginal: Mask  # [i, j], i < j: independent without conditioning
    conditional: Mapping[tuple[int, int], tuple[int, ...]]

    def __getitem__(self, pair: frozenset[str]) -> frozenset[str]:
        ends = sorted(self.names.index(name) for name in pair if name in self.names)
        if len(ends) != 2 or len(pair) != 2:
            raise KeyError(pair)
        key = (ends[0], ends[1])
        if self.marginal[key]:
            return frozenset()
        if key not in self.conditional:
            raise KeyError(pair)
        return frozenset(self.names[k] for k in self.conditional[key])

    def __iter__(self) -> Iterator[frozenset[str]]:
        for i, j in np.argwhere(self.marginal):
            yield frozenset((self.names[i], self.names[j]))
        for i, j in self.conditional:
            yield frozenset((self.names[i], self.names[j]))

    def __len__(self) -> int:
        return int(self.marginal.sum()) + len(self.conditional)


class Skeleton(NamedTuple):
    """The joined pairs, the largest p-value of each pair, what separates the others, and the levels."""

    joined: Mask
    pvalues: Array
    separators: SeparatingSets
    levels: list[Level]


def skeleton(test: IndependenceTest, masks: Masks, max_conditioning: int | None, n_jobs: int) -> Skeleton:
    """Remove the edges between variables that some set of neighbours makes independent.

    Only variables that may be parents of i are in its sets: if i and j are not adjacent, the parents of one
    of them separate them. Required edges are not tested.
    """
    d = len(test.names)
    fixed = masks.required | masks.required.T
    joined = ~(masks.forbidden & masks.forbidden.T) | fixed
    np.fill_diagonal(joined, False)
    pvalues = np.full((d, d), np.nan)
    marginal = np.zeros((d, d), dtype=bool)
    conditional: dict[tuple[int, int], tuple[int, ...]] = {}
    levels: list[Level] = []
    for size in count():
        if max_conditioning is not None and size > max_conditioning:
            break
        may_hold = joined & ~masks.forbidden
        targets = lists(np.triu(joined & ~fixed) if size == 0 else joined & ~fixed)
        plan = Plan(lists(may_hold.T), targets, may_hold, size, size, voting=False)
        # One entry for each node i and target j; from the first level on, each pair is there both ways.
        i, j = np.repeat(np.arange(d), np.diff(targets.start)), targets.members
        available = np.diff(plan.candidates.start)[i] - may_hold[j, i]  # candidates of i other than j
        if not (available >= size).any():
            break
        if size > test.largest_set:
            levels.append(Level(size, 0, 0, sum(comb(int(m), size) for m in available)))
            break
        tally = sweep(test, plan, n_jobs)
        p = test.p_values(tally.best, size)
        other = np.arange(len(p)) if size == 0 else np.searchsorted(i * d + j, j * d + i)
        larger = np.fmax(p, p[other])
        pvalues[i, j] = pvalues[j, i] = np.fmax(pvalues[i, j], larger)
        removed = np.flatnonzero((larger > test.alpha) & (i < j))
        joined[i[removed], j[removed]] = joined[j[removed], i[removed]] = False
        if size == 0:
            marginal[i[removed], j[removed]] = True
        else:
            better = np.where(p[removed] * (1 + ALIKE) >= larger[removed], removed, other[removed])
            sets = np.sort(tally.best_set[better], axis=1).tolist()
            for a, b, members in zip(i[removed].tolist(), j[removed].tolist(), sets, strict=True):
                conditional[a, b] = tuple(members)
        levels.append(Level(size, int(tally.made.sum()), len(removed), int(tally.skipped.sum())))
        report("skeleton", size, note=f"{np.count_nonzero(joined) // 2} edges left")
    return Skeleton(joined, pvalues, SeparatingSets(test.names, marginal, conditional), levels)


def known_arrows(joined: Mask, masks: Masks) -> Mask:
    """The directions that knowledge gives to the edges: required, or the other way round forbidden."""
    return masks.required | (joined & masks.forbidden.T)


def without_known_cycles(found: Skeleton, masks: Masks) -> tuple[Skeleton, list[tuple[int, int]]]:
    """Drop the weakest edge (largest p-value) of each cycle that knowledge would make of the edges."""
    arrows = known_arrows(found.joined, masks)
    if orientation.topological_order(arrows) is not None:
        return found, []
    gone = orientation.weakest_cycle_edges(arrows, -np.nan_to_num(found.pvalues), masks.required)
    joined = found.joined.copy()
    for i, j in gone:
        joined[i, j] = joined[j, i] = False
    return found._replace(joined=joined), gone
