"""The learner that chooses a learner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from polydag.data.method_choice import choose
from polydag.knowledge import Knowledge
from polydag.learners.base import StructureLearner
from polydag.learners.held_out import HeldOutScore
from polydag.parameters import Constraint
from polydag.scores.registry import usual
from polydag.sources.interface import Source


class AutoDAG(HeldOutScore, StructureLearner):
    """A learner chosen by the data, with the score and penalty that suit its columns.

    Neither the choice nor the result depends on the units of the columns. The first of `notes_` says what was
    chosen, and why.

    Parameters
    ----------
    knowledge : Knowledge, optional
        Required and forbidden edges, and tiers.
    random_state : int, optional
        Passed on to the learner.

    Attributes
    ----------
    learner_ : StructureLearner
        The fitted learner.

    Notes
    -----
    The rule is `polydag.data.method_choice.choose`. For related populations (`Tasks`), which have several
    graphs, use `MultitaskDiscovery`. For the uncertainty of edges, use `BayesianDiscovery` or `Bootstrap`.

    Examples
    --------
    >>> from polydag import AutoDAG, simulate
    >>> X = simulate.linear(simulate.dag(6, n_edges=6, random_state=1), n=500, random_state=1)
    >>> model = AutoDAG().fit(X)
    >>> type(model.learner_).__name__
    'BOSS'
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {}

    learner_: StructureLearner

    def __init__(self, *, knowledge: Knowledge | None = None, random_state: int | None = None) -> None:
        self.knowledge = knowledge
        self.random_state = random_state

    def _fit(self, source: Source) -> None:
        from polydag.learners.registry import LEARNERS  # which names this learner, too

        contents = source.contents
        choice = choose(d=len(source.names), n=source.n, score=usual(contents), labels=contents == "labels")
        learner = LEARNERS[choice.method](knowledge=self.knowledge, random_state=self.random_state).fit(
            source
        )
        self.learner_ = learner
        self.kinds_ = learner.kinds_
        self._keep(
            learner.graph_,
            raw_weights=learner.raw_weights_,
            history=learner.history_,
            pruned=[],
            converged=learner.converged_,
            n_iter=learner.n_iter_,
            stats=learner._moments,
        )
        self.notes_ = (choice.reason, *(note for note in learner.notes_ if note not in source.notes))
