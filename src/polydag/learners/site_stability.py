"""A penalty chosen by stability over parties: the graph is learned from random halves of them.

An edge found in a share θ of the halves is unstable by 2θ(1 − θ); the penalty is taken at which the average
over the edges that were ever found is least. Only sums over the parties of a half are used.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from polydag.checkpoint import piece
from polydag.errors import ConvergenceWarning, DataWarning, UsageError
from polydag.federated.session import one_after_the_other
from polydag.privacy import differencing as rules
from polydag.privacy.masking.agreement import LEAST
from polydag.progress import report

_HALVES = 10
_LEAST = 4


class Stable(NamedTuple):
    """The penalty, and all that left the sites for finding it."""

    lambda_: float
    disclosure: pd.DataFrame


def stable_lambda(model: Any, parties: Mapping[str, Any], random_state: int | None, mark: str) -> Stable:
    """The penalty of the path of `lambda_="bic"` whose graph changes least between halves of the parties.

    `mark` is of the settings and the data, for pieces that are kept.
    """
    units = [[name] for name in parties]
    if model.privacy == "masked":  # halves that differ in single parties would show these by subtraction
        units = list(map(list, rules.groups(tuple(parties))))
    if len(units) < _LEAST:
        least, why = (_LEAST, "") if model.privacy == "none" else (_LEAST * LEAST, ", with masked sums")
        raise UsageError(
            f"lambda_='stability' draws halves of the parties, so it needs at least {least} of them{why}; "
            f"got {len(parties)}."
        )
    whole = _fitted(clone(model).set_params(lambda_="bic"), parties)
    lambdas = sorted(set(whole.history_["lambda_"]), reverse=True)
    rng = np.random.default_rng(random_state)
    disclosed = [whole.disclosure_]
    found = np.zeros((len(lambdas), whole.n_features_in_, whole.n_features_in_))
    for draw in range(_HALVES):
        chosen = sorted(rng.permutation(len(units))[: (len(units) + 1) // 2])
        half = [name for i in chosen for name in units[i]]
        for k, lambda_ in enumerate(lambdas):

            def learn(half: list[str] = half, lambda_: float = lambda_) -> dict[str, NDArray[Any]]:
                fitted = _fitted(
                    clone(model).set_params(lambda_=lambda_), {name: parties[name] for name in half}
                )
                left = {
                    f"left {name}": column.to_numpy(dtype=str) for name, column in fitted.disclosure_.items()
                }
                return {"graph": fitted.graph_.adjacency, **left}

            result = piece(f"half of the parties {draw}, penalty {k} {mark}", learn)
            found[k] += result["graph"]
            disclosed.append(_restored(result, whole.disclosure_))
        report("stability over parties", draw + 1, _HALVES)
    share = found / _HALVES
    ever = np.maximum((found > 0).sum(axis=(1, 2)), 1)
    unstable = (2 * share * (1 - share)).sum(axis=(1, 2)) / ever
    return Stable(float(lambdas[int(np.argmin(unstable))]), one_after_the_other(disclosed))


def _fitted(model: Any, parties: Mapping[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, DataWarning))  # the final fit will tell
        return model.fit(parties)


def _restored(result: Mapping[str, NDArray[Any]], like: pd.DataFrame) -> pd.DataFrame:
    table = pd.DataFrame({name: result[f"left {name}"] for name in like.columns})
    table["masked"] = table["masked"] == "True"
    return table.astype({name: like[name].dtype for name in like.columns})
