"""scikit-learn's own checks of every learner, and what people do with estimators: search, clone, pickle."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from polydag import (
    BOSS,
    GES,
    PC,
    AutoDAG,
    BayesianDiscovery,
    Bootstrap,
    Chains,
    EqualVariance,
    FederatedNotears,
    Graph,
    LinkedRows,
    LinkedRowsDAG,
    MultitaskDiscovery,
    Notears,
    NotearsLagged,
    NotearsMLP,
    Parties,
    Privacy,
    RowDecorrelator,
    simulate,
)
from polydag.errors import DataError, UsageError
from polydag.regression.held_out import mean_log_likelihood
from polydag.stats import GaussianStats

OWN_WORDS = "our message says rows and missing values, not n_samples and NaN"
EVERYWHERE = {
    "check_dtype_object": "objects that are no numbers raise a DataError, not a TypeError",
    "check_estimators_nan_inf": OWN_WORDS,
    "check_fit2d_1sample": OWN_WORDS,
}
GROUPS = {"check_parameters_default_constructible": "groups of settings are frozen values"}
SLICES = {
    "check_n_features_in_after_fitting": "the graph is over time slices, not over columns",
    "check_n_features_in": "the graph is over time slices, not over columns",
    "check_fit_score_takes_y": "the graph is over time slices, not over columns",
    "check_pipeline_consistency": "the graph is over time slices, not over columns",
}
SAME_ROWS = dict.fromkeys(
    (
        "check_n_features_in_after_fitting",
        "check_methods_subset_invariance",
        "check_methods_sample_order_invariance",
        "check_fit_idempotent",
        "check_fit2d_predict1d",
    ),
    "rows are decorrelated together: it transforms the fitted rows only",
)


def halves(X: Any) -> Any:
    """Every other row, twice, where X has rows; what is no table is passed on as it is."""
    rows = X.tocsr() if hasattr(X, "tocsr") else X
    return [rows[0::2], rows[1::2]] if getattr(rows, "ndim", 0) == 2 else [rows]


class TwoTasks(MultitaskDiscovery):
    """One table as two tasks."""

    def fit(self, X: Any, y: None = None) -> Any:
        return super().fit(halves(X))


class TwoParties(FederatedNotears):
    """One table as two parties, which add up in the open."""

    def fit(self, X: Any, y: None = None) -> Any:
        return super().fit(Parties(halves(X), privacy=Privacy(mode="none")))


class InGroups(LinkedRowsDAG):
    """One table whose rows are linked in fours."""

    def fit(self, X: Any, y: None = None) -> Any:
        count = X.shape[0] if getattr(X, "ndim", 0) == 2 else 0
        return super().fit(LinkedRows(X, groups=[row // 4 for row in range(count)], structure="common"))


LEARNERS: list[tuple[Any, dict[str, str]]] = [
    (BOSS(), {}),
    (GES(), {}),
    (PC(), {}),
    (Notears(), {}),
    (EqualVariance(), {}),
    (NotearsLagged(lambda_=0.1), SLICES | GROUPS),
    (BayesianDiscovery(criterion="bge", chains=Chains(n_chains=2, n_steps=200)), GROUPS),
    (NotearsMLP(hidden=1, lambda_=0.5, random_state=0), {}),
    (AutoDAG(), {}),
    (Bootstrap(EqualVariance(), n_resamples=3, random_state=0), {}),
    (TwoTasks(criterion="bge", max_parents=2), GROUPS),
    (TwoParties(lambda_=0.1), GROUPS),
    (InGroups(), {"check_estimators_empty_data_messages": OWN_WORDS}),
    (
        RowDecorrelator(structure="common"),
        SAME_ROWS | GROUPS | {"check_estimators_empty_data_messages": OWN_WORDS},
    ),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("learner", "expected"), LEARNERS, ids=lambda each: type(each).__name__)
def test_scikit_learns_checks(learner: Any, expected: dict[str, str]) -> None:
    """All checks pass but those that are listed, with the reason."""
    known = EVERYWHERE | expected
    found = check_estimator(learner, expected_failed_checks=known, on_fail=None, on_skip=None)
    failed = {each["check_name"]: each["exception"] for each in found if each["status"] == "failed"}
    assert not failed
    assert sum(each["status"] == "passed" for each in found) > 20


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return simulate.linear(simulate.dag(5, n_edges=6, random_state=0), n=300, random_state=1)


def test_the_likelihood_of_a_complete_graph_is_that_of_the_normal_distribution(table: pd.DataFrame) -> None:
    train, test = table[:200], table[200:]
    fitted, held_out = GaussianStats.from_data(train), GaussianStats.from_data(test)
    complete = Graph(np.triu(np.ones((5, 5)), 1), fitted.names)
    normal = multivariate_normal(fitted.mean, fitted.covariance)
    expected = normal.logpdf(test.to_numpy()).mean()
    assert mean_log_likelihood(complete, fitted, held_out) == pytest.approx(expected)
    empty = mean_log_likelihood(Graph.from_edges(fitted.names), fitted, held_out)
    alone = multivariate_normal(fitted.mean, np.diag(fitted.covariance.diagonal())).logpdf(test.to_numpy())
    assert empty == pytest.approx(alone.mean())


@pytest.mark.parametrize("learner", [BOSS(), GES(), PC(), Notears(), EqualVariance(), AutoDAG()])
def test_held_out_likelihood(table: pd.DataFrame, learner: Any) -> None:
    fitted = clone(learner).fit(table[:200])
    shuffled = table[200:][list(table.columns[::-1])]
    assert fitted.score(table[200:]) == pytest.approx(fitted.score(shuffled))
    assert fitted.score(table[200:]) > fitted.score(table[200:] + 3)
    assert np.isfinite(cross_val_score(learner, table, cv=3)).all()
    again = pickle.loads(pickle.dumps(fitted))
    assert again.score(table[200:]) == fitted.score(table[200:])
    with pytest.raises(DataError, match="need the columns of the fitted ones"):
        fitted.score(table.iloc[200:, :3])
    assert type(learner).__name__ in learner._repr_html_()


def test_a_penalty_is_chosen_by_held_out_likelihood(table: pd.DataFrame) -> None:
    search = GridSearchCV(BOSS(), {"penalty": [1, 500]}, cv=3, error_score="raise").fit(table)
    assert search.best_params_ == {"penalty": 1}
    assert search.best_estimator_.graph_.n_edges > 3
    assert search.score(table) == search.best_estimator_.score(table)


def test_a_grid_search_uses_score(table: pd.DataFrame) -> None:
    search = GridSearchCV(Notears(), {"lambda_": [0.01, 100.0]}, cv=3, error_score="raise").fit(table)
    assert search.best_params_ == {"lambda_": 0.01}
    assert search.score(table) == search.best_estimator_.score(table)


def test_labels_networks_and_posteriors_have_no_gaussian_likelihood(table: pd.DataFrame) -> None:
    labels = (table > 0).astype(str)
    with pytest.raises(UsageError, match="needs the moments of numbers"):
        GES().fit(labels).score(labels)
    assert not hasattr(NotearsMLP(), "score")
    assert not hasattr(BayesianDiscovery(), "score")


def test_the_transformer_names_its_output(table: pd.DataFrame) -> None:
    grouped = table.assign(school=np.arange(300) // 5)
    model = RowDecorrelator("school", structure="common").fit(grouped)
    assert model.get_feature_names_out().tolist() == list(table.columns)
    model.set_output(transform="pandas")
    assert list(model.transform(grouped).columns) == list(table.columns)
    array = RowDecorrelator([row // 5 for row in range(300)], structure="common").fit(table.to_numpy())
    out = array.set_output(transform="pandas").transform(table.to_numpy())
    assert list(out.columns) == [f"x{i}" for i in range(5)]
