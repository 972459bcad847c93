"""The scores of the families of several tasks, and of some tasks' rows as those of one population."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polydag.knowledge import Masks
from polydag.posterior import family_table, with_prior
from polydag.posterior.families.table import FamilyTable
from polydag.scores import Score
from polydag.sources.task_statistics import pooled
from polydag.stats.regimes import standardized


@dataclass(frozen=True, eq=False)
class TaskScores:
    """Without structure prior, but `-inf` where families are ruled out.

    Attributes
    ----------
    score : callable
        The score of some statistics; with `as_given=True`, numbers are not standardised.
    kind : {"labels", "numbers", "mixed"}
        What the score is for.
    stats : sequence of statistics
        Of each task.
    tables : sequence of FamilyTable
        The scores of each task, without structure prior.
    masks : Masks
        Required and forbidden edges.
    n_jobs : int
        Threads.
    """

    score: Callable[..., Score]
    kind: str
    stats: Sequence[Any]
    tables: Sequence[FamilyTable]
    masks: Masks
    n_jobs: int

    @property
    def none(self) -> FamilyTable:
        """The families, with a score of 0 each."""
        return self.tables[0].with_scores(np.zeros_like(self.tables[0].scores))

    @property
    def allowed(self) -> FamilyTable:
        """0, or `-inf` where a family is ruled out."""
        return with_prior(self.none, "uniform", masks=self.masks)

    @property
    def own(self) -> list[FamilyTable]:
        """The scores of each task."""
        allowed = self.allowed.scores
        return [table.with_scores(table.scores + allowed) for table in self.tables]

    def pooled(self, members: Sequence[int]) -> FamilyTable:
        """The scores of some tasks' rows as those of one population.

        Numbers are standardised within each task, so that means and scales, which studies and units change,
        say nothing about populations: without any edges, one population is as probable as several.
        """
        parts = [self.stats[k] for k in members]
        if self.kind == "labels":
            return self._table(self.score(pooled(parts)))
        whole = pooled([standardized(part) if self.kind == "numbers" else part for part in parts])
        table = self._table(self.score(whole, as_given=True))
        margins = sum(self.tables[k].scores[:, 0] for k in members) - table.scores[:, 0]
        return table.with_scores(table.scores + margins[:, None])

    def replaced(self, task: int, stats: Any) -> TaskScores:
        """The same if a task had other statistics."""
        every, tables = list(self.stats), list(self.tables)
        every[task], tables[task] = stats, self._plain(self.score(stats))
        return replace(self, stats=every, tables=tables)

    def _plain(self, score: Score) -> FamilyTable:
        like = self.tables[0]
        return family_table(score, like.max_parents, candidates=like.candidates, n_jobs=self.n_jobs)

    def _table(self, score: Score) -> FamilyTable:
        return with_prior(self._plain(score), "uniform", masks=self.masks)
