"""A site's votes: the graphs that a learner finds in the site's data alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from polydag.errors import DataError
from polydag.federated.messages import Arrays
from polydag.federated.programs import Ask


def fits_alone(learner: Any, data: Any, ask: Ask) -> list[Any]:
    """The learner fitted at each of the penalties that are given, once where none are.

    None where the site's rows do not do for learning.
    """
    if "lambdas" not in ask.arrays:
        return [_fit(learner, data)]
    return [
        _fit(clone(learner).set_params(lambda_=float(lambda_)), data) for lambda_ in ask.arrays["lambdas"]
    ]


def _fit(learner: Any, data: Any) -> Any:
    try:
        return learner.fit(data)
    except DataError:
        return None


def ballots(fits: Sequence[Any], d: int, ask: Ask) -> Arrays:
    """Edges and weights of each fit; of a single one, where no penalties were given, without a first axis."""
    none = np.zeros((d, d))
    found = {
        "edges": np.array([none if fit is None else fit.graph_.adjacency.astype(float) for fit in fits]),
        "weights": np.array([none if fit is None else fit.graph_.weights for fit in fits]),
    }
    return found if "lambdas" in ask.arrays else {name: array[0] for name, array in found.items()}


def criteria(fits: Sequence[Any]) -> Arrays:
    """Each fit's own BIC; zero at every penalty where nothing could be learned, so that others choose."""
    return {"criteria": np.array([0.0 if fit is None else fit.criterion_ for fit in fits])}
