"""Groups of settings, sources as parties' tables, and what a method and a model must provide."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from polydag import FederatedNotears, GaussianStats, Graph, Network, Privacy, Series, simulate
from polydag.errors import DataError, UsageError
from polydag.federated.methods.fitting import fit_parties
from polydag.federated.methods.interface import Fitted, MethodSettings, Study
from polydag.federated.methods.registry import METHODS
from polydag.federated.methods.statistics.moments import Moments
from polydag.federated.models.interface import Model
from polydag.federated.models.registry import MODELS
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Local, Program
from polydag.federated.protocol.storage.fingerprint import fingerprint
from polydag.sources import InMemory, Parties


@pytest.fixture(scope="module")
def parts() -> dict[str, pd.DataFrame]:
    rows = simulate.linear(simulate.dag(4, expected_edges=4, random_state=1), n=240, random_state=2)
    return {f"p{k}": rows.iloc[k::3] for k in range(3)}


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"mode": "total"}, "mode must be one of masked, none"),
        ({"quorum": 1}, "quorum must be a whole number at least 2"),
        ({"ledgers": 3}, "ledgers must be a path"),
        ({"epsilon": 0}, "epsilon must be a number above 0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must lie between 0 and 1"),
        ({"epsilon": 1.0, "mode": "none"}, "requires mode='masked'"),
        ({"budget": 2.0}, "give epsilon"),
        ({"epsilon": 1.0, "bounds": 7}, "bounds must be a mapping"),
        ({"epsilon": 1.0, "bounds": {"a": (2, 1)}}, "for a it is"),
    ],
)
def test_privacy_checks_itself(setting: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Privacy(**setting)


def test_privacy_knows_budget_and_bounds(tmp_path: Path) -> None:
    assert Privacy(ledgers=tmp_path).allowance is None
    assert Privacy(epsilon=1.0).allowance == (1.0, 1e-5)
    assert Privacy(epsilon=1.0, budget=2.0).allowance == (2.0, 1e-5)
    assert Privacy(epsilon=1.0).bounds_of(("a",)) is None
    assert Privacy(epsilon=1.0, bounds=[0, 1]).bounds_of(("a", "b")) == ((0.0, 1.0), (0.0, 1.0))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="for b it is None"):
        Privacy(epsilon=1.0, bounds={"a": (0, 1)}).bounds_of(("a", "b"))


def test_groups_of_settings_are_parameters_of_the_estimator() -> None:
    learner = FederatedNotears(network=Network(hidden=3), series=Series(lags=2))
    learner.set_params(network__lambda2=0.5, lambda_=0.1)
    again = clone(learner)
    assert again.network == Network(hidden=3, lambda2=0.5)
    assert again.series.lags == 2
    assert again.get_params()["network__hidden"] == 3
    for name, wrong in (("network", 3), ("series", None), ("random_state", -1), ("knowledge", "a")):
        with pytest.raises(UsageError, match=f"{name} must be"):
            FederatedNotears(**{name: wrong}).fit([])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="hidden must be"):
        Network(hidden=0)
    with pytest.raises(UsageError, match="lags must be"):
        Series(lags=0)


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_parties_may_be_sources_and_bring_their_privacy(parts: dict[str, pd.DataFrame], model: str) -> None:
    learner = FederatedNotears(model=model, lambda_=0.1, network=Network(hidden=2), random_state=0)
    sources = Parties({name: InMemory(part) for name, part in parts.items()}, privacy=Privacy(mode="none"))
    found = clone(learner).fit(sources)
    assert found.protection_.startswith("NOT PRIVATE")
    tables = Parties(parts, privacy=Privacy(mode="none"))
    assert np.array_equal(found.raw_weights_, clone(learner).fit(tables).raw_weights_)
    with pytest.raises(DataError, match="at least 500"):
        clone(learner).fit(Parties(parts, min_rows=500))
    labels = parts["p0"].gt(0).astype(str)
    with pytest.raises(DataError, match=r"p0: Column x0 is (str|object), not numeric"):
        clone(learner).fit({**parts, "p0": labels})


def test_every_method_fits_every_model_that_it_names(parts: dict[str, pd.DataFrame]) -> None:
    for name, method in METHODS.items():
        assert method.name == name
        assert set(method.models) <= set(MODELS)
        assert set(method.protections) <= {"none", "masked", "noise"}
        for form in set(MODELS) - set(method.models):
            with pytest.raises(UsageError, match="supports model"):
                FederatedNotears(method=name, model=form).fit(parts)
        if "noise" not in method.protections:
            private = Parties(parts, privacy=Privacy(epsilon=1.0))
            with pytest.raises(UsageError, match="epsilon requires"):
                FederatedNotears(method=name).fit(private)
    for name, model in MODELS.items():
        assert model.name == name


class Correlations:
    """A method in a few lines: edges between columns whose pooled correlation is large, in column order."""

    name = "correlations"
    models = ("linear",)
    protections = ("none", "masked")
    uses_learner = False

    def paper_lambda(self, model: Model) -> float:
        return model.paper_lambda

    def party(self, table: Any, model: Model, settings: MethodSettings, privacy: Privacy) -> Local:
        return model.party(table, settings)

    def program(self, study: Study) -> Program:
        return Moments(study.names)

    def read(self, study: Study, result: Arrays) -> Fitted:
        statistics = Moments(study.names).statistics(result)
        assert isinstance(statistics, GaussianStats)
        scale = np.sqrt(statistics.scatter.diagonal())
        weights = np.triu(statistics.scatter / np.outer(scale, scale), 1)
        kept = np.abs(weights) > 0.5
        return Fitted(
            Graph(kept, study.names, np.where(kept, weights, 0.0)), weights, pd.DataFrame(), [], True, 1
        )


def test_a_new_method_is_one_object(parts: dict[str, pd.DataFrame]) -> None:
    fit = fit_parties(parts, Correlations(), MODELS["linear"], MethodSettings(), Privacy())
    exact = np.corrcoef(pd.concat(list(parts.values())).T)
    assert fit.fitted.raw_weights == pytest.approx(np.triu(exact, 1))
    assert fit.n_rounds == 1
    assert fit.disclosure["masked"].all()


def test_fingerprints_tell_settings_and_arrays_apart() -> None:
    first = fingerprint({"W": np.zeros(3), "model": MethodSettings(), "known": {"b", "a"}})
    assert first == fingerprint({"known": {"a", "b"}, "W": np.zeros(3), "model": MethodSettings()})
    changes: list[Mapping[str, Any]] = [
        {"W": np.zeros((3, 1))},
        {"W": np.ones(3)},
        {"model": MethodSettings(threshold=0.1)},
        {"known": {"a"}},
    ]
    base = {"W": np.zeros(3), "model": MethodSettings(), "known": {"a", "b"}}
    assert len({first, *(fingerprint({**base, **change}) for change in changes)}) == 5
