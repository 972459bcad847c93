"""Candidate parents: where all sets of all variables are too many, the best few of each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydag.errors import UsageError
from polydag.knowledge import Masks
from polydag.posterior.families import subsets
from polydag.posterior.families.table import Index, family_table
from polydag.scores.families import Score

MANY_FAMILIES = 30_000_000  # a table of 240 MB


@dataclass(frozen=True, eq=False)
class Candidates:
    """Who was kept, and what was given up.

    Attributes
    ----------
    kept : int array of shape (n, c)
        The candidate parents of each node, ascending.
    gains : array of shape (n, n)
        `[i, j]` is the gain in log score of i as the only parent of j over no parent.
    """

    kept: Index
    gains: NDArray[np.float64]

    def best_left_out(self, node: int) -> float:
        """The largest gain among the variables that are no candidates of the node."""
        out = np.ones(len(self.gains), dtype=bool)
        out[self.kept[node]] = False
        out[node] = False
        return float(self.gains[out, node].max(initial=-np.inf))


def how_many(n: int, max_parents: int) -> int:
    """The largest number of candidates a node that keeps the table of families within bounds."""
    allowed = [c for c in range(max_parents, n) if n * subsets.n_subsets(c, max_parents) <= MANY_FAMILIES]
    return allowed[-1] if allowed else min(max_parents, n - 1)


def choose_candidates(score: Score, count: int, masks: Masks, *, n_jobs: int = 1) -> Candidates:
    """The `count` candidates of each node that are best as its only parent.

    Required parents come first and forbidden ones last. A variable that matters only together with another
    may be lost; larger counts guard against it.
    """
    return common_candidates([score], count, masks, n_jobs=n_jobs)


def common_candidates(scores: Sequence[Score], count: int, masks: Masks, *, n_jobs: int = 1) -> Candidates:
    """The same candidates for several tasks: those that are best alone in any of them."""
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
