"""What learners that search classes of DAGs by a score have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from polydag import orientation
from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.knowledge import Knowledge, Masks
from polydag.learners.base import StructureLearner
from polydag.learners.classes import class_and_member
from polydag.learners.inputs import (
    Discrete,
    Gaussian,
    discrete_counts,
    gaussian_statistics,
    knowledge_masks,
    standardized,
)
from polydag.scores import SCORES, Score, make_score
from polydag.sources.interface import Source

_DISCRETE = ("bdeu", "bds", "k2")


class Found(Protocol):
    """What a search ends with."""

    @property
    def adjacency(self) -> NDArray[np.bool_]:
        """The CPDAG."""

    @property
    def score(self) -> float:
        """The score of the class."""

    @property
    def trace(self) -> Sequence[tuple[Any, ...]]:
        """One row a step."""


class EquivalenceLearner(StructureLearner):
    """A learner of the class of DAGs with the best score that its search finds.

    Attributes
    ----------
    score_ : float
        The score of the class.
    dag_ : Graph
        One DAG of the class.
    """

    penalty: float
    score: str
    knowledge: Knowledge | None
    score_: float
    dag_: Graph

    @abstractmethod
    def _search(self, score: Score, masks: Masks | None) -> Found:
        """The best class that the search finds."""

    def _fit(self, source: Source) -> None:
        if self.score not in ("auto", *SCORES):
            raise UsageError(f"score must be one of auto, {', '.join(SCORES)}; got {self.score!r}.")
        labels = self.score in _DISCRETE if self.score != "auto" else source.is_discrete
        name = self.score if self.score != "auto" else "bdeu" if labels else "bic"
        options = {"penalty": self.penalty} if name == "bic" else {}
        stats: Discrete | Gaussian
        scored: Discrete | Gaussian
        if labels:
            stats = scored = discrete_counts(source)
        else:
            stats = gaussian_statistics(source)
            # The prior of BGe has a scale; weights stay in the units of the data.
            scored = standardized(stats) if name == "bge" else stats
        masks = None if self.knowledge is None else knowledge_masks(self.knowledge, stats.names)
        found = self._search(make_score(name, scored, **options), masks)
        member = orientation.consistent_extension(found.adjacency)
        assert member is not None  # the search stays within classes of DAGs
        graph, self.dag_ = class_and_member(found.adjacency, member, stats)
        self.score_ = found.score
        self._keep(
            graph,
            raw_weights=graph.weights,
            history=found.trace,
            pruned=[],
            converged=True,
            n_iter=len(found.trace),
        )
