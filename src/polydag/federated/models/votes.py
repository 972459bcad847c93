"""A site's votes: the graphs that a learner finds in the site's data alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from polydag.errors import DataError
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, State
from polydag.graph import Graph

_FAILED = "failed"


def fits_alone(learner: Any, data: Any, ask: Ask) -> list[Any]:
    """The learner fitted at each of the penalties that are given, once where none are.

    Where the site's rows do not do for learning, what was wrong takes the place of a fit.
    """
    if "lambdas" not in ask.arrays:
        return [_fit(learner, data)]
    return [
        _fit(clone(learner).set_params(lambda_=float(lambda_)), data) for lambda_ in ask.arrays["lambdas"]
    ]


def _fit(learner: Any, data: Any) -> Any:
    try:
        return learner.fit(data)
    except DataError as error:
        return error


def ballots(fits: Sequence[Any], d: int, ask: Ask) -> Arrays:
    """Edges and weights of each fit; of a single one, where no penalties were given, without a first axis."""
    empty = Graph(np.zeros((d, d), dtype=bool))
    graphs = [empty if isinstance(fit, DataError) else fit.graph_ for fit in fits]
    found = {
        "edges": np.array([graph.adjacency.astype(float) for graph in graphs]),
        "weights": np.array([graph.weights for graph in graphs]),
    }
    return found if "lambdas" in ask.arrays else {name: array[0] for name, array in found.items()}


def criteria(fits: Sequence[Any]) -> Arrays:
    """Each fit's own BIC; zero at every penalty where nothing could be learned, so that others choose."""
    return {"criteria": np.array([0.0 if isinstance(fit, DataError) else fit.criterion_ for fit in fits])}


def with_failures(state: State, fits: Sequence[Any]) -> State:
    """A site's state that remembers why nothing could be learned, for its owner."""
    why = [str(fit) for fit in fits if isinstance(fit, DataError)]
    return {**state, _FAILED: np.array(why[0])} if why else state


def failure(state: State) -> list[str]:
    """What the owner should know of a vote that could not be cast."""
    if _FAILED not in state:
        return []
    return [f"it could not learn from its own rows, so that it voted for no edge: {state[_FAILED]}"]
