"""A party's votes: the graphs that a learner finds in the party's data alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from polydag.arrays import Array
from polydag.computing.interruption import require_whole
from polydag.errors import DataError
from polydag.federated.models.interface import ModelParty
from polydag.federated.models.linear_party import require_columns
from polydag.federated.party_data.unit_checks import log_scales
from polydag.federated.protocol.checks import Task, question_problem
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, State
from polydag.graph import Graph

VOTE, SCORED_VOTE = "vote", "scored vote"
_FAILED = "failed"


@dataclass(frozen=True, eq=False)
class VotingParty:
    """Answers questions about its own graph; other questions go to the model's side.

    Parameters
    ----------
    local : ModelParty
        The party's side of the model, with its data.
    learner : estimator
        What learns from this party alone.
    """

    local: ModelParty
    learner: Any

    @property
    def n_rows(self) -> float:
        """The number of rows."""
        return self.local.n_rows

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.local.names

    @property
    def data(self) -> Any:
        """The data of the model's side."""
        return self.local.data

    def fingerprint(self) -> bytes:
        """That of the data."""
        return self.local.fingerprint()

    def tasks(self) -> dict[str, Task]:
        """The questions about its own graph."""
        return {
            VOTE: Task(self._vote, meta=("columns",)),
            SCORED_VOTE: Task(self._scored_vote, {"lambdas": "l"}, ("columns",)),
        }

    def objection(self, state: State, ask: Ask) -> str | None:
        """What is missing in a question or wrong with it; raises where the study has other columns."""
        if (task := self.tasks().get(ask.task)) is None:
            return self.local.objection(state, ask)
        require_columns(ask, self.names)
        return question_problem(task, state, ask, {"d": len(self.names)})

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The party's contribution to the sum."""
        task = self.tasks().get(ask.task)
        return self.local.answer(state, ask) if task is None else task.answer(state, ask)

    def notes(self, state: State, arrays: Arrays) -> list[str]:
        """A vote that could not be cast, and the notes of the model's side."""
        failed = []
        if _FAILED in state:
            failed = [f"it could not learn from its own rows and voted for no edge: {state[_FAILED]}"]
        return [*failed, *self.local.notes(state, arrays)]

    def _vote(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The graph that the party finds by itself, at each of several penalties where these are given."""
        fits = self._fits(ask)
        scales = {"log_scales": log_scales(self.n_rows, self.local.deviations())}
        return _with_failure(state, fits), {**_edges_and_weights(fits, len(self.names), ask), **scales}

    def _scored_vote(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The graph at each penalty, and its BIC on the party's rows.

        The BIC is zero at every penalty where nothing could be learned, so that the others choose.
        """
        fits = self._fits(ask)
        criteria = np.array([0.0 if isinstance(fit, DataError) else fit.criterion_ for fit in fits])
        votes = _edges_and_weights(fits, len(self.names), ask)
        return _with_failure(state, fits), {**votes, "criteria": criteria}

    def _fits(self, ask: Ask) -> list[Any]:
        """The learner fitted at each of the penalties, once where none are given.

        Where the party's rows do not suffice for learning, the error takes the place of a fit.
        """
        if "lambdas" not in ask.arrays:
            return [_fit(self.learner, self.data)]
        return [
            _fit(clone(self.learner).set_params(lambda_=float(lambda_)), self.data)
            for lambda_ in ask.arrays["lambdas"]
        ]


def _fit(learner: Any, data: Any) -> Any:
    try:
        fitted = learner.fit(data)
    except DataError as error:
        return error
    require_whole(fitted)
    return fitted


def _edges_and_weights(fits: Sequence[Any], d: int, ask: Ask) -> dict[str, Array]:
    """Edges and weights of each fit; without the first axis where no penalties were given."""
    empty = Graph(np.zeros((d, d), dtype=bool))
    graphs = [empty if isinstance(fit, DataError) else fit.graph_ for fit in fits]
    found = {
        "edges": np.array([graph.adjacency.astype(float) for graph in graphs]),
        "weights": np.array([graph.weights for graph in graphs]),
    }
    return found if "lambdas" in ask.arrays else {name: array[0] for name, array in found.items()}


def _with_failure(state: State, fits: Sequence[Any]) -> State:
    """The state with the reason why nothing could be learned, for the owner."""
    why = [str(fit) for fit in fits if isinstance(fit, DataError)]
    return {**state, _FAILED: np.array(why[0])} if why else state
