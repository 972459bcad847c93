"""Strengths that some of several tasks share, for labels scored by BDeu.

Of many tasks with the same parents π of a variable, some may have the same strengths and others their own.
With any number of sharing tasks equally probable, and any such set S of them,

    E(π) = log Σ_S 1 / ((K + 1) C(K, |S|)) exp(s_S(π) + Σ_{k ∉ S} s_k(π)),

where s_S is the score of the rows of S as one population. There are too many sets to add up. The terms that
are kept are those of no task, of all tasks, and of the tasks that most probably share, which are found family
by family: the rows of a task are predicted from those of the others, weighted by how probably these share,
and compared with the task's own score. What a task's rows say of π is that prediction, corrected so that the
tasks' terms add up to E(π).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from polydag.arrays import Array, Index, Mask
from polydag.posterior.families.table import FamilyTable
from polydag.stats.regimes import Regimes

_ROUNDS = 4  # of responsibilities
_ENTRIES = 3e7  # counts of all tasks that are kept


class Shared(NamedTuple):
    """Families of tasks some of which share strengths.

    Attributes
    ----------
    tasks : list of FamilyTable
        What each task's rows say of each of its families, given the others' rows.
    together : FamilyTable
        The log evidence of all tasks' rows where all have the same family.
    all_alike : array of shape (n, sets)
        The probability that all of them share its strengths, if all have the family.
    """

    tasks: list[FamilyTable]
    together: FamilyTable
    all_alike: Array


@dataclass(frozen=True, eq=False)
class SharedStrengths:
    """The counts of every family in every task, one after the other.

    Attributes
    ----------
    table : FamilyTable
        Its families.
    counts : array of shape (tasks, entries)
        Of the labels of a variable in each cell of its parents.
    prior : array of shape (entries,)
        Their prior counts.
    cells, families : int arrays
        Where the entries of each cell begin, and those of each family.
    cells_of_family : int array
        Where the cells of each family begin.
    """

    table: FamilyTable
    counts: Array
    prior: Array
    cells: Index
    families: Index
    cells_of_family: Index

    @classmethod
    def of(cls, table: FamilyTable, stats: Sequence[Any], sample_size: float) -> SharedStrengths | None:
        """From the counts of each task; None where there would be too many numbers."""
        some = next(iter(stats[0].parts.values())) if isinstance(stats[0], Regimes) else stats[0]
        arities = np.array([len(own) for own in some.levels])
        families = [(i, table.parents(i, s)) for i in range(table.n) for s in range(len(table.sets))]
        cells = np.array([math.prod(arities[list(parents)].tolist()) for _, parents in families])
        sizes = cells * arities[[i for i, _ in families]]
        if sizes.sum() * len(stats) > _ENTRIES:
            return None
        counts = np.zeros((len(stats), int(sizes.sum())))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        for k, own in enumerate(stats):
            seen = [own.for_node(name) if isinstance(own, Regimes) else own for name in table.names]
            for (i, parents), start, size in zip(families, starts, sizes, strict=True):
                rows = seen[i].rows
                place = np.zeros(len(rows), dtype=np.int64)
                for v in (*parents, i):
                    place = place * arities[v] + rows[:, v]
                counts[k, start : start + size] = np.bincount(place, seen[i].counts, size)
        node = np.repeat([i for i, _ in families], cells)
        return cls(
            table,
            counts,
            np.repeat(sample_size / sizes, sizes),
            np.concatenate([[0], np.cumsum(arities[node])[:-1]]),
            starts,
            np.concatenate([[0], np.cumsum(cells)[:-1]]),
        )

    def among(self, members: Sequence[int]) -> Shared:
        """What the rows of some tasks, at least two, say together."""
        counts, K = self.counts[list(members)], len(members)
        own = self._scores(counts)
        shares = np.ones_like(own)
        rate = np.full(own.shape[1], (K + 1) / (K + 2))
        predicted = own
        for _ in range(_ROUNDS):
            weighted = np.repeat(shares, self._sizes, axis=1) * counts
            others = weighted.sum(axis=0) - weighted
            predicted = self._scores(others + counts) - self._scores(others)
            odds = np.log(rate) - np.log1p(-rate) + predicted - own
            shares = 1.0 / (1.0 + np.exp(-np.clip(odds, -700, 700)))
            rate = (shares.sum(axis=0) + 1) / (K + 2)
        said = np.logaddexp(np.log1p(-rate) + own, np.log(rate) + predicted)
        terms = [self._term(counts, own, S) for S in (shares > 2, shares > 0.5, shares > -1)]
        some = (shares > 0.5).sum(axis=0)
        terms[1][(some == 0) | (some == K)] = -np.inf  # counted already
        together = np.logaddexp.reduce(terms, axis=0)
        said += (together - said.sum(axis=0)) / K
        shape = self.table.scores.shape
        return Shared(
            [self.table.with_scores(one.reshape(shape)) for one in said],
            self.table.with_scores(together.reshape(shape)),
            np.exp(terms[2] - together).reshape(shape),
        )

    @property
    def _sizes(self) -> Index:
        return np.diff(np.append(self.families, self.counts.shape[1]))

    def _term(self, counts: Array, own: Array, chosen: Mask) -> Array:
        """The log weight of the chosen tasks' sharing, family by family."""
        K, size = len(counts), chosen.sum(axis=0)
        whole = (np.repeat(chosen, self._sizes, axis=1) * counts).sum(axis=0, keepdims=True)
        ways = gammaln(K + 1) - gammaln(size + 1) - gammaln(K - size + 1)
        result: Array = self._scores(whole)[0] + (own * ~chosen).sum(axis=0) - math.log(K + 1) - ways
        return result

    def _scores(self, counts: Array) -> Array:
        """Of each family, by BDeu."""
        entries = gammaln(self.prior + counts) - gammaln(self.prior)
        in_cell = np.add.reduceat(counts, self.cells, axis=1)
        prior = np.add.reduceat(self.prior, self.cells)
        cells = gammaln(prior + in_cell) - gammaln(prior)
        first = np.add.reduceat(entries, self.families, axis=1)
        found: Array = first - np.add.reduceat(cells, self.cells_of_family, axis=1)
        return found
