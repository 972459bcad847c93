"""The scores of the families of several tasks, and of some tasks' rows as those of one population."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polydag.learners.posterior.own_columns import table_over
from polydag.posterior import family_table
from polydag.posterior.families.table import FamilyTable
from polydag.scores import Score
from polydag.sources.task_statistics import pooled
from polydag.stats.regimes import standardized


@dataclass(frozen=True, eq=False)
class TaskScores:
    """Without the structure prior that all tasks have.

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
    weights : sequence of FamilyTable
        The log prior weight of each task's families beyond that of the common network, `-inf` where they are
        ruled out.
    n_jobs : int
        Threads.
    """

    score: Callable[..., Score]
    kind: str
    stats: Sequence[Any]
    tables: Sequence[FamilyTable]
    weights: Sequence[FamilyTable]
    n_jobs: int

    @property
    def own(self) -> list[FamilyTable]:
        """The scores of each task, with its weights."""
        return [
            table.with_scores(table.scores + own.scores)
            for table, own in zip(self.tables, self.weights, strict=True)
        ]

    def pooled(self, members: Sequence[int]) -> FamilyTable:
        """The scores of some tasks' rows as those of one population.

        Numbers are standardised within each task, so that means and scales, which studies and units change,
        say nothing about populations: without any edges, one population is as probable as several.
        """
        parts = [self.stats[k] for k in members]
        weights = np.sum([self.weights[k].scores for k in members], axis=0)
        if self.kind == "labels":
            table = self._plain(self.score(pooled(parts)))
            return table.with_scores(table.scores + weights)
        whole = pooled([standardized(part) if self.kind == "numbers" else part for part in parts])
        table = self._plain(self.score(whole, as_given=True))
        margins = sum(self.tables[k].scores[:, 0] for k in members) - table.scores[:, 0]
        return table.with_scores(table.scores + margins[:, None] + weights)

    def replaced(self, task: int, stats: Any) -> TaskScores:
        """The same if a task had other statistics."""
        every, tables = list(self.stats), list(self.tables)
        every[task], tables[task] = stats, self._plain(self.score(stats))
        return replace(self, stats=every, tables=tables)

    def _plain(self, score: Score) -> FamilyTable:
        like = self.tables[0]
        if score.names != like.names:
            return table_over(like.names, score, like.max_parents, self.n_jobs)
        return family_table(score, like.max_parents, candidates=like.candidates, n_jobs=self.n_jobs)
