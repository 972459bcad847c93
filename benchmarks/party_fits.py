"""Fits over parties, shared by the benchmarks; their rows have the same means, and none are taken out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from polydag import FederatedNotears, Notears
from polydag.federated.methods.interface import MethodSettings
from polydag.federated.methods.private.moments import summed_private_moments
from polydag.federated.methods.statistics.moments import summed_moments
from polydag.federated.methods.voting import with_knowledge
from polydag.federated.models.registry import MODELS
from polydag.losses.settings import Series
from polydag.privacy.settings import Privacy
from polydag.sources import Parties


def over_parties(
    parts: Sequence[pd.DataFrame],
    privacy: Privacy,
    *,
    method: str = "admm",
    model: str = "linear",
    lags: int = 1,
    learner: Any = None,
    **settings: Any,
) -> Any:
    """The fitted learner; with `method="moments"`, one that was fitted to summed statistics."""
    tables = {f"site {k}": part for k, part in enumerate(parts, start=1)}
    if method != "moments":
        series = Series(lags=lags)
        federated = FederatedNotears(method=method, model=model, series=series, learner=learner, **settings)
        return federated.fit(Parties(tables, privacy=privacy, site_effects="none"))
    form, own = MODELS[model], MethodSettings(series=Series(lags=lags))
    if privacy.epsilon is None:
        statistics: Any = {name: form.party(part, own).data for name, part in tables.items()}
        pooled, outcome = summed_moments(statistics, privacy)
    else:
        pooled, outcome = summed_private_moments(tables, privacy)
    found = with_knowledge(Notears() if learner is None else learner, form.knowledge(own, pooled.names))
    found.fit(pooled).n_rounds_ = outcome.n_rounds
    return found
