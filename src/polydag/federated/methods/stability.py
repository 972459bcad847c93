"""A penalty chosen by stability over parties: the graph is learned from random halves of them.

The instability of an edge that is found in a share θ of the halves is 2θ(1 − θ). The penalty is the one at
which the mean instability of the edges that were ever found is smallest. Only sums over the parties of a half
are used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from polydag.computing.checkpoint import piece
from polydag.computing.progress import report
from polydag.errors import ConvergenceWarning, DataWarning, UsageError
from polydag.federated.protocol.messages import AnyArray
from polydag.federated.session import one_after_the_other, packed_disclosure, unpacked_disclosure
from polydag.privacy import differencing
from polydag.privacy.differencing import MIN_SITES
from polydag.privacy.settings import Privacy

if TYPE_CHECKING:
    from polydag.federated.methods.fitting import FederatedFit

_HALVES = 10
_MIN_GROUPS = 4


class Stable(NamedTuple):
    """The penalty, and all that left the parties in finding it."""

    lambda_: float
    disclosure: pd.DataFrame


def stable_lambda(
    fit_some: Callable[[list[str], float | Literal["bic"]], FederatedFit],
    parties: tuple[str, ...],
    privacy: Privacy,
    random_state: int | None,
    key: str,
) -> Stable:
    """The penalty of the path of `lambda_="bic"` whose graph changes least between halves of the parties.

    Parameters
    ----------
    fit_some : function of names and a penalty
        Fits the graph over some of the parties.
    key : str
        Identifies settings and data, for results that are stored.
    """
    # Masked halves that differ in single parties would reveal these by subtraction, so they go in groups.
    groups = differencing.groups(parties) if privacy.masked else tuple((name,) for name in parties)
    if len(groups) < _MIN_GROUPS:
        needed, why = (_MIN_GROUPS * MIN_SITES, ", with masked sums") if privacy.masked else (_MIN_GROUPS, "")
        raise UsageError(
            f"lambda_='stability' draws halves of the parties, so it needs at least {needed} of them{why}; "
            f"got {len(parties)}."
        )
    whole = _quietly(fit_some, list(parties), "bic")
    lambdas = sorted(set(whole.fitted.history["lambda_"]), reverse=True)
    rng = np.random.default_rng(random_state)
    disclosed = [whole.disclosure]
    d = whole.fitted.graph.n_nodes
    found = np.zeros((len(lambdas), d, d))
    for draw in range(_HALVES):
        chosen = sorted(rng.permutation(len(groups))[: (len(groups) + 1) // 2])
        half = [name for i in chosen for name in groups[i]]
        for k, lambda_ in enumerate(lambdas):

            def learn(half: list[str] = half, lambda_: float = lambda_) -> dict[str, AnyArray]:
                fit = _quietly(fit_some, half, lambda_)
                return {"graph": fit.fitted.graph.adjacency, **packed_disclosure(fit.disclosure)}

            result = piece(f"half of the parties {draw}, penalty {k} {key}", learn)
            found[k] += result["graph"]
            disclosed.append(unpacked_disclosure(result))
        report("stability over parties", draw + 1, _HALVES)
    share = found / _HALVES
    ever = np.maximum((found > 0).sum(axis=(1, 2)), 1)
    instability = (2 * share * (1 - share)).sum(axis=(1, 2)) / ever
    return Stable(float(lambdas[int(np.argmin(instability))]), one_after_the_other(disclosed))


def _quietly(fit_some: Callable[..., FederatedFit], names: list[str], lambda_: Any) -> FederatedFit:
    """Without warnings, which the final fit repeats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, DataWarning))
        return fit_some(names, lambda_)
