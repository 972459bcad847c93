"""The examples of docs/extending.md keep the contracts that the package's own classes are tested for."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import test_federated_settings
import test_learners
import test_method_contract
import test_parties
import test_scores
import test_studies
from oracles import all_dags
from polydag import (
    BOSS,
    GES,
    BayesianDiscovery,
    Bootstrap,
    FederatedNotears,
    NotearsMLP,
    Parties,
    Privacy,
    metrics,
    simulate,
)
from polydag.federated.methods.registry import METHODS
from polydag.learners import LEARNERS
from polydag.scores import SCORES, make_score, total_score
from polydag.stats import GaussianStats
from polydag.studies import PartiesConfig, TableConfig, run
from test_federated_settings import parts  # noqa: F401  (fixtures of the contract tests)
from test_learners import dag  # noqa: F401
from test_method_contract import tables  # noqa: F401

EXAMPLES = Path(__file__).parents[1] / "examples"
LEARNER, SCORE, METHOD = "sort-regress", "hannan-quinn", "averaging"


def example(module: str, name: str) -> Any:
    """A class of a file in `examples/`."""
    spec = importlib.util.spec_from_file_location(module, EXAMPLES / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded  # dataclasses look their module up
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def contract(module: Any, argument: str) -> list[Any]:
    """The tests of a module that are repeated for every registered class, which they take as `argument`."""
    found = [
        pytest.param(test, id=name)
        for name, test in vars(module).items()
        if name.startswith("test_") and argument in inspect.signature(test).parameters
    ]
    assert found, f"{module.__name__} has no tests that take {argument}"
    return found


# A learner


@pytest.fixture(scope="module")
def table(dag: Any) -> pd.DataFrame:  # noqa: F811
    return simulate.linear(dag, n=800, random_state=5)


@pytest.mark.parametrize("test", contract(test_learners, "make"))
def test_the_learner_keeps_the_contract(test: Callable[..., None], request: pytest.FixtureRequest) -> None:
    needs = set(inspect.signature(test).parameters) - {"make"}
    fixtures = {name: request.getfixturevalue(name) for name in needs}
    test(make=example("sort_regress", "SortRegress"), **fixtures)


@pytest.mark.parametrize("mode", ["masked", "none"])
def test_the_learner_gives_over_parties_the_answer_of_pooling(mode: str, table: pd.DataFrame) -> None:
    learner = example("sort_regress", "SortRegress")()
    test_parties.test_parties_of_the_parts_are_the_table(learner, mode, table)


def test_the_learner_runs_as_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS, LEARNER, example("sort_regress", "SortRegress"))
    test_studies.test_every_learner_of_the_registry_can_be_run(LEARNER, tmp_path)


# A source


def batches(rows: pd.DataFrame) -> Any:
    return example("batches", "Batches")([rows[:50], rows[50:51], rows[51:]])


@pytest.mark.parametrize("learner", test_parties.NUMBERS, ids=test_parties.name)
def test_the_source_answers_as_its_rows(learner: Any, table: pd.DataFrame) -> None:
    test_parties.close(clone(learner).fit(batches(table)), clone(learner).fit(table), 1e-6)


@pytest.mark.parametrize("learner", test_parties.LABELS, ids=test_parties.name)
def test_the_source_counts_labels_as_its_rows_do(learner: Any) -> None:
    rows = test_parties.embedded.asia().sample(600, random_state=0)
    test_parties.close(clone(learner).fit(batches(rows)), clone(learner).fit(rows), 1e-9)


def test_the_source_gives_rows_to_learners_that_need_them() -> None:
    X = simulate.linear(simulate.dag(3, n_edges=2, random_state=0), n=120, random_state=0)
    learner = NotearsMLP(lambda_=0.1, hidden=2, random_state=0)
    test_parties.close(clone(learner).fit(batches(X)), clone(learner).fit(X), 1e-6)


def test_the_source_is_resampled_and_nests(table: pd.DataFrame) -> None:
    whole = BOSS().fit(table)
    thirds = {name: batches(rows) for name, rows in test_parties.thirds(table).items()}
    over_parties = BOSS().fit(Parties(thirds, site_effects="none"))
    test_parties.close(over_parties, whole, 1e-6)
    assert over_parties.notes_[0] == "north: The rows came in 3 batches."
    draws = Bootstrap(BOSS(), n_resamples=4, random_state=0)
    over_batches = clone(draws).fit(batches(table)).frequencies_
    pd.testing.assert_frame_equal(over_batches, draws.fit(table).frequencies_)


# A score


@pytest.fixture
def _score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCORES, SCORE, example("hannan_quinn", "HannanQuinn"))


@pytest.mark.usefixtures("_score")
@pytest.mark.parametrize(
    "test",
    [
        test_scores.test_equivalent_dags_score_the_same,
        test_scores.test_a_node_is_scored_by_the_rows_that_did_not_set_it,
        test_scores.test_the_order_of_parents_does_not_matter,
    ],
)
def test_the_score_keeps_the_contract(test: Callable[..., None]) -> None:
    test(name=SCORE)


@pytest.fixture
def four_columns() -> pd.DataFrame:
    return simulate.linear(simulate.dag(4, n_edges=4, random_state=1), n=200, random_state=1)


@pytest.mark.usefixtures("_score")
@pytest.mark.parametrize("learner", [GES, BOSS])
def test_searches_find_the_best_dag_by_the_score(learner: Any, four_columns: pd.DataFrame) -> None:
    score = make_score(SCORE, GaussianStats.from_data(four_columns))
    best = max(total_score(score, each) for each in all_dags(4))
    model = learner(criterion=SCORE).fit(four_columns)
    assert model.score_ == pytest.approx(best)
    assert total_score(score, model.dag_.adjacency) == pytest.approx(best)


@pytest.mark.usefixtures("_score")
def test_the_posterior_sums_the_score_over_dags(four_columns: pd.DataFrame) -> None:
    score = make_score(SCORE, GaussianStats.from_data(four_columns))
    dags = np.array(all_dags(4))
    logs = np.array([total_score(score, each) for each in dags])
    weights = np.exp(logs - logs.max())
    expected = np.einsum("k,kij->ij", weights / weights.sum(), dags)
    model = BayesianDiscovery(criterion=SCORE, over="dags", method="exact", structure_prior="uniform").fit(
        four_columns
    )
    np.testing.assert_allclose(model.posterior_.edges.to_numpy(), expected, atol=1e-8)


@pytest.mark.usefixtures("_score")
def test_the_score_is_known_on_the_command_line(tmp_path: Path) -> None:
    file = test_studies.table_file(tmp_path)
    result = run(TableConfig(data=(str(file),), method="ges", settings={"criterion": SCORE}, seed=1))
    assert (
        result.graph.adjacency.tolist()
        == GES(criterion=SCORE).fit(pd.read_csv(file)).graph_.adjacency.tolist()
    )


# A federated method


@pytest.fixture
def _method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, METHOD, example("averaging", "AveragingMethod")())


@pytest.fixture
def hospitals() -> dict[str, pd.DataFrame]:
    truth = simulate.dag(8, n_edges=10, random_state=0)
    return {f"hospital {k}": simulate.linear(truth, n=200 + 20 * k, random_state=k) for k in range(4)}


@pytest.mark.usefixtures("_method")
@pytest.mark.parametrize("test", contract(test_method_contract, "method"))
def test_the_method_keeps_the_contract(test: Callable[..., None], tables: dict[str, pd.DataFrame]) -> None:  # noqa: F811
    test(method=METHOD, tables=tables)


@pytest.mark.usefixtures("_method")
def test_the_method_refuses_what_it_does_not_support(parts: dict[str, pd.DataFrame]) -> None:  # noqa: F811
    test_federated_settings.test_every_method_fits_every_model_that_it_names(parts)


@pytest.mark.usefixtures("_method")
def test_the_method_recovers_the_graph_under_masks(hospitals: dict[str, pd.DataFrame]) -> None:
    model = FederatedNotears(method=METHOD).fit(Parties(hospitals))
    assert metrics.shd(true=simulate.dag(8, n_edges=10, random_state=0), estimate=model.graph_) == 0
    open_sums = FederatedNotears(method=METHOD).fit(Parties(hospitals, privacy=Privacy(mode="none")))
    np.testing.assert_allclose(model.raw_weights_, open_sums.raw_weights_, atol=1e-8)
    backwards = FederatedNotears(method=METHOD).fit(Parties(dict(reversed(hospitals.items()))))
    np.testing.assert_allclose(model.raw_weights_, backwards.raw_weights_, atol=1e-8)


@pytest.mark.usefixtures("_method")
def test_what_the_method_discloses_is_listed(hospitals: dict[str, pd.DataFrame]) -> None:
    left = FederatedNotears(method=METHOD).fit(Parties(hospitals)).disclosure_
    answers = left[~left["name"].str.contains(":")]  # keys and shares have the phase before a colon
    assert set(answers["name"]) == {"rows", "weights"}
    assert set(answers["site"]) == set(hospitals)
    assert answers["masked"].all()


@pytest.mark.usefixtures("_method")
def test_a_given_penalty_reaches_the_parties(hospitals: dict[str, pd.DataFrame]) -> None:
    sparse = FederatedNotears(method=METHOD, lambda_=5.0).fit(Parties(hospitals))
    assert sparse.graph_.n_edges < 10


@pytest.mark.usefixtures("_method")
def test_the_method_is_known_on_the_command_line(hospitals: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    files = [str(tmp_path / f"{name}.csv") for name in hospitals]
    for file, rows in zip(files, hospitals.values(), strict=True):
        rows.to_csv(file, index=False)
    result = run(PartiesConfig(data=tuple(files), method=METHOD, seed=1))
    expected = FederatedNotears(method=METHOD).fit(Parties(hospitals))
    assert np.array_equal(result.graph.adjacency, expected.graph_.adjacency)
