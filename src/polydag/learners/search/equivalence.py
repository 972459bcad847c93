"""What learners that search classes of DAGs by a score have in common."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from polydag import orientation
from polydag.arrays import Mask
from polydag.computing.interruption import INTERRUPTED
from polydag.errors import ConvergenceWarning
from polydag.graph import Graph
from polydag.knowledge import Knowledge, Masks, joined, knowledge_masks
from polydag.learners.base import StructureLearner
from polydag.learners.held_out import HeldOutScore
from polydag.parameters import Constraint, Instance, optional, whole
from polydag.regression.class_weights import class_and_member
from polydag.scores import Score, ScoreName, kind_of, resolve
from polydag.scores.penalty import PENALTY, Penalty, edge_price
from polydag.sources.checked import scored_statistics, used_kinds
from polydag.sources.interface import Source
from polydag.stats.count_tables import bound_on_tables
from polydag.stats.regimes import standardized


class Found(Protocol):
    """The result of a search."""

    @property
    def adjacency(self) -> Mask:
        """The CPDAG."""

    @property
    def score(self) -> float:
        """The score of the class."""

    @property
    def trace(self) -> Sequence[tuple[Any, ...]]:
        """One row a step."""

    @property
    def complete(self) -> bool:
        """False where the search was interrupted."""


class EquivalenceLearner(HeldOutScore, StructureLearner):
    """A learner of the class of DAGs with the best score that its search finds.

    Attributes
    ----------
    score_ : float
        The score of the class.
    penalty_ : float
        The penalty as a multiple of `½ log n`, where the score has one.
    dag_ : Graph
        One DAG of the class.
    notes_ : tuple of str
        What the fit decided by itself.

    Notes
    -----
    Ctrl-C ends the search with the best graph found so far: `converged_` is False, a note and a
    `ConvergenceWarning` say so.
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "penalty": PENALTY,
        "criterion": ScoreName("auto"),
        "criterion_options": optional(Instance(Mapping, "a mapping of options of the score")),
        "max_parents": optional(whole(least=0)),
    }

    penalty: Penalty
    criterion: str
    criterion_options: Mapping[str, Any] | None
    max_parents: int | None
    knowledge: Knowledge | None
    score_: float
    penalty_: float
    dag_: Graph
    notes_: tuple[str, ...]

    @abstractmethod
    def _search(self, score: Score, masks: Masks | None, max_parents: int | None) -> Found:
        """The best class that the search finds."""

    def _fit(self, source: Source) -> None:
        kind = kind_of(self.criterion) or source.contents
        spec = resolve(self.criterion, kind)
        stats = scored_statistics(source, spec.needs)
        self.kinds_ = used_kinds(source, kind)
        options = {**spec.taken(penalty=self.penalty), **(self.criterion_options or {})}
        # A prior with a scale is for standardised columns; weights stay in the units of the data.
        score = spec.make(standardized(stats) if spec.standardised else stats, **options)
        if "penalty" in options:
            price = edge_price(options["penalty"], stats.n, len(stats.names))
            self.penalty_ = price / (0.5 * math.log(stats.n))
        max_parents, self.notes_ = bound_on_tables("max_parents", self.max_parents, stats)
        known = joined(self.knowledge, source.knowledge)
        masks = None if known is None else knowledge_masks(known, stats.names)
        found = self._search(score, masks, max_parents)
        member = orientation.consistent_extension(found.adjacency)
        assert member is not None  # the search stays within classes of DAGs
        graph, self.dag_ = class_and_member(found.adjacency, member, stats)
        self.score_ = found.score
        if not found.complete:
            self.notes_ = (*self.notes_, INTERRUPTED)
            warnings.warn(INTERRUPTED, ConvergenceWarning, stacklevel=3)
        self._keep(
            graph,
            raw_weights=graph.weights,
            history=found.trace,
            pruned=[],
            converged=found.complete,
            n_iter=len(found.trace),
            stats=stats,
        )
