"""Fits over parties: the settings of the estimator and those of privacy side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import clone

from polydag import FederatedNotears, Notears
from polydag.federated.methods.interface import MethodSettings
from polydag.federated.methods.private.moments import summed_private_moments
from polydag.federated.methods.statistics.moments import summed_moments
from polydag.federated.methods.voting import with_knowledge
from polydag.federated.models.registry import MODELS
from polydag.losses.settings import Network, Series
from polydag.privacy.settings import Privacy
from polydag.sources import Parties

_PRIVACY = ("quorum", "ledgers", "epsilon", "delta", "budget", "bounds")
_NETWORK, _SERIES = ("hidden", "lambda2"), ("lags", "time", "realisation")


def learned(
    parts: Any,
    *,
    method: str = "admm",
    privacy: str = "masked",
    min_rows: int = 1,
    site_effects: str = "none",
    **settings: Any,
) -> Any:
    """A fitted learner of rows as they are; with `method="moments"`, one fitted to summed statistics."""
    groups = [
        {name: settings.pop(name) for name in names if name in settings}
        for names in (_PRIVACY, _NETWORK, _SERIES)
    ]
    protection = Privacy(mode=privacy, **groups[0])
    named = {f"site {k}": p for k, p in enumerate(parts, start=1)} if isinstance(parts, list) else parts
    tables = Parties(named, privacy=protection, min_rows=min_rows, site_effects=site_effects)
    if method == "moments":
        return from_moments(tables, Series(**groups[2]), **settings)
    learner = FederatedNotears(
        method=method, network=Network(**groups[1]), series=Series(**groups[2]), **settings
    )
    return learner.fit(tables)


def from_moments(
    tables: Parties, series: Series, *, learner: Any = None, model: str = "linear", **settings: Any
) -> Any:
    """A learner of one table, fitted to the sum of the parties' statistics."""
    form, own = MODELS[model], MethodSettings(series=series, knowledge=settings.pop("knowledge", None))
    privacy, parties = tables.privacy, tables.parties
    if privacy.epsilon is not None:
        pooled, outcome = summed_private_moments(parties, privacy, min_rows=tables.min_rows)
    else:
        statistics: Mapping[str, Any] = {name: form.party(table, own).data for name, table in parties.items()}
        pooled, outcome = summed_moments(
            statistics, privacy, min_rows=tables.min_rows, site_effects=tables.site_effects
        )
    found = Notears(**settings) if learner is None else clone(learner)
    found = with_knowledge(found, form.knowledge(own, pooled.names)).fit(pooled)
    found.n_rounds_, found.disclosure_ = outcome.n_rounds, outcome.disclosure
    found.protection_ = outcome.protection
    for name, value in form.attributes(found.graph_, own).items():
        setattr(found, name, value)
    return found
