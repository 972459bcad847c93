"""Candidate parents: the best few of each node, where there are too many parent sets of all variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import UsageError
from polydag.knowledge import Masks
from polydag.posterior.families import subsets
from polydag.posterior.families.table import family_table
from polydag.scores.families import Score

MANY_FAMILIES = 30_000_000  # a table of 240 MB


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidate parents of each node, and the gains by which they were chosen.

    Attributes
    ----------
    kept : int array of shape (n, c)
        The candidate parents of each node, ascending.
    gains : array of shape (n, n)
        `[i, j]` is the gain in log score of i as the only parent of j over no parent.
    """

    kept: Index
    gains: Array

    def best_left_out(self, node: int) -> float:
        """The largest gain among the variables that are not candidates of the node."""
        out = np.ones(len(self.gains), dtype=bool)
        out[self.kept[node]] = False
        out[node] = False
        return float(self.gains[out, node].max(initial=-np.inf))


def how_many(n: int, max_parents: int) -> int:
    """The largest number of candidates per node that keeps the table of families within bounds."""
    allowed = [c for c in range(max_parents, n) if n * subsets.n_subsets(c, max_parents) <= MANY_FAMILIES]
    return allowed[-1] if allowed else min(max_parents, n - 1)


def choose_candidates(score: Score, count: int, masks: Masks, *, n_jobs: int = 1) -> Candidates:
    """The `count` candidates of each node with the highest score as its only parent.

    Required parents come first and forbidden ones last. A variable that matters only together with another
    one may be missed; larger counts reduce that risk.
    """
    return common_candidates([score], count, masks, n_jobs=n_jobs)


def common_candidates(scores: Sequence[Score], count: int, masks: Masks, *, n_jobs: int = 1) -> Candidates:
    """Common candidates for several tasks: those with the largest gain as the only parent in any task."""
    names = scores[0].names
    n = len(names)
    if not 1 <= count <= n - 1:
        raise UsageError(f"max_candidates must lie between 1 and {n - 1} for {n} variables; got {count}.")
    gains = np.full((n, n), -np.inf)
    for score in scores:
        pairs = family_table(score, 1, n_jobs=n_jobs)
        for node in range(n):
            others = pairs.candidates[node]
            gains[others, node] = np.maximum(
                gains[others, node], pairs.scores[node, 1:] - pairs.scores[node, 0]
            )
    kept = np.empty((n, count), dtype=np.int64)
    for node in range(n):
        rank = np.where(masks.forbidden[:, node], -np.inf, gains[:, node])
        rank[masks.required[:, node]] = np.inf
        if masks.required[:, node].sum() > count:
            raise UsageError(f"{names[node]} has more required parents than max_candidates = {count}.")
        others = np.delete(np.arange(n), node)
        kept[node] = np.sort(others[np.argsort(-rank[others], kind="stable")[:count]])
    return Candidates(kept, gains)
