"""Fitting a graph over parties: a method and a model, from the parties' tables to the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from polydag.arrays import Array
from polydag.errors import UsageError
from polydag.federated.each_party import for_each_party
from polydag.federated.methods.interface import Fitted, Method, MethodSettings, Study
from polydag.federated.methods.stability import stable_lambda
from polydag.federated.models.interface import Model
from polydag.federated.party_data.site_comparison import Comparison, comparison_shapes
from polydag.federated.party_data.site_effects import NOT_UNDER_NOISE
from polydag.federated.party_data.tables import require_numbers
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Local
from polydag.federated.protocol.storage.fingerprint import fingerprint
from polydag.federated.session import Outcome, data_fingerprint, one_after_the_other, run_study
from polydag.graph import Graph
from polydag.metrics import varsortability
from polydag.privacy.settings import Privacy
from polydag.stats import GaussianStats

_STANDARD = 1.2  # the largest over the smallest spread of columns that seem standardised
_FAR = 3.0  # the same of columns of time series, from which units are mentioned
Choice = float | Literal["bic", "stability"]


@dataclass(frozen=True, eq=False)
class FederatedFit:
    """The result of a method, and what it took."""

    fitted: Fitted
    disclosure: pd.DataFrame
    protection: str
    n_rounds: int
    varsortability: float
    scale: Array | None  # the pooled standard deviations, where they are part of the result
    notes: tuple[str, ...] = ()


def fit_parties(
    tables: Mapping[str, Any],
    method: Method,
    model: Model,
    settings: MethodSettings,
    privacy: Privacy,
    *,
    lambda_: Choice = "bic",
    min_rows: int = 1,
) -> FederatedFit:
    """Fit one graph over the parties' tables.

    Parameters
    ----------
    tables : mapping of party to table
        DataFrames, arrays, statistics or sources.
    method, model
        From the registries `METHODS` and `MODELS`, or objects of the same form.
    settings : MethodSettings
        Of both; its `lambda_` is replaced.
    privacy, min_rows
        As for `run_study`.
    lambda_ : float, "bic" or "stability"
        The penalty, or how it is chosen.
    """
    check_combination(method, model, settings, privacy, lambda_)

    def build(table: Any) -> Local:
        require_numbers(table)
        return method.party(table, model, settings, privacy)

    parties = for_each_party(tables, build)
    study = Study(parties, model, settings, privacy)
    key = f"{method.name} {model.name} {fingerprint(settings)}"
    if settings.paper and lambda_ == "bic":
        lambda_ = method.paper_lambda(model)
    if lambda_ != "stability":
        return _fit(method, _with_lambda(study, lambda_), min_rows, key)

    def fit_some(names: list[str], penalty: float | Literal["bic"]) -> FederatedFit:
        some = dataclasses.replace(study, parties={name: parties[name] for name in names})
        if settings.paper and penalty == "bic":
            penalty = method.paper_lambda(model)
        return _fit(method, _with_lambda(some, penalty), min_rows, key)

    chosen = stable_lambda(
        fit_some,
        tuple(parties),
        privacy,
        settings.random_state,
        f"{key} {fingerprint(privacy)} {data_fingerprint(parties)}",
    )
    last = _fit(method, _with_lambda(study, chosen.lambda_), min_rows, key)
    return dataclasses.replace(last, disclosure=one_after_the_other([chosen.disclosure, last.disclosure]))


def _with_lambda(study: Study, lambda_: float | Literal["bic"]) -> Study:
    return dataclasses.replace(study, settings=dataclasses.replace(study.settings, lambda_=lambda_))


def _fit(method: Method, study: Study, min_rows: int, key: str) -> FederatedFit:
    key = f"{key} {study.settings.lambda_}"
    outcome = run_study(method.program(study), study.parties, study.privacy, min_rows=min_rows, key=key)
    fitted = method.read(study, outcome.result)
    more = study.model.attributes(fitted.graph, study.settings)
    fitted = dataclasses.replace(fitted, attributes={**fitted.attributes, **more})
    return FederatedFit(
        fitted,
        outcome.disclosure,
        outcome.protection,
        outcome.n_rounds,
        _varsortability(fitted.graph, outcome.result),
        outcome.result.get("pooled_scale"),
        (*_party_notes(outcome), *_site_notes(study, outcome), *_scale_notes(study, outcome.result)),
    )


def _party_notes(outcome: Outcome) -> list[str]:
    return [f"{party}: {note}" for party, notes in outcome.notes.items() for note in notes]


def _scale_notes(study: Study, result: Arrays) -> list[str]:
    """A caution where columns are standardised, so that least squares has nothing to tell directions by.

    So there is for time series where scales differ much: which effects are found then depends on units.
    """
    scale = result.get("pooled_scale")
    linear = study.model.name in ("linear", "lagged") and study.settings.learner is None
    if not linear or scale is None or len(scale) < 2:
        return []
    if study.model.name == "lagged" and scale.max() > _FAR * scale.min():
        return [
            f"Standard deviations are from {scale.min():.3g} to {scale.max():.3g}: least squares infers the "
            "directions of effects within a time step from the scales of errors. If units are arbitrary, "
            "BOSS on the parties' summed moments of time slices does not depend on them."
        ]
    if scale.max() > _STANDARD * scale.min():
        return []
    return [
        "All columns have nearly the same spread, as standardised ones do: least "
        "squares infers directions from the scales of errors, which carry little "
        "information here. BOSS on the parties' summed moments does not depend on "
        "scales."
    ]


def _site_notes(study: Study, outcome: Outcome) -> list[str]:
    """What the comparison of the parties found, where there was one, and what was done about it."""
    effects = study.settings.site_effects
    if effects != "none" and study.privacy.epsilon is not None:
        return [NOT_UNDER_NOISE]
    if not set(comparison_shapes(1)) <= set(outcome.result):
        return []
    return Comparison.of(study.names, outcome.result).notes(effects)


def check_combination(
    method: Method, model: Model, settings: MethodSettings, privacy: Privacy, lambda_: Choice
) -> None:
    """Raise a `UsageError` for choices that do not fit together, before anything is computed."""
    if model.name not in method.models:
        known = ", ".join(method.models)
        raise UsageError(f"method={method.name!r} supports model {known}; got {model.name!r}.")
    if privacy.epsilon is None:
        if privacy.mode not in method.protections:
            known = ", ".join(method.protections)
            raise UsageError(f"method={method.name!r} supports sums that are {known}; got {privacy.mode!r}.")
        return
    if "noise" not in method.protections or not model.supports_noise:
        raise UsageError(
            "epsilon requires the linear model and method admm or fedavg (or a learner of moments over "
            f"Parties); got method={method.name!r}, model={model.name!r}."
        )
    if settings.participation < 1 or lambda_ == "stability":
        raise UsageError("With epsilon all parties take part in one study: no participation, no stability.")


def _varsortability(graph: Graph, result: Arrays) -> float:
    """Varsortability by the pooled standard deviations, where these are part of the result."""
    if "pooled_scale" not in result or not graph.n_edges or not graph.is_dag:
        return np.nan
    scatter = np.diag(result["pooled_scale"] ** 2)
    if len(scatter) != graph.n_nodes:
        return np.nan
    pooled = GaussianStats(1.0, np.zeros(len(scatter)), scatter, graph.names, 1.0)
    return varsortability(true=graph, stats=pooled)
