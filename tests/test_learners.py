"""The estimators through their public interface."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from polydag import EqualVariance, GaussianStats, Graph, Knowledge, Notears, Regimes, metrics, simulate
from polydag.errors import ConvergenceWarning, DataError, UsageError
from polydag.learners import LEARNERS

LEARNER = pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)


@pytest.fixture(scope="module")
def dag() -> Graph:
    return simulate.dag(
        8,
        expected_edges=12,
        names=["age", "dose α", "crp", "il-6", "bmi", "bp", "x y", "out"],
        random_state=3,
    )


@pytest.fixture(scope="module")
def table(dag: Graph) -> pd.DataFrame:
    return simulate.linear(dag, n=800, random_state=5)


@LEARNER
def test_finds_the_truth_keeps_names_and_leaves_the_data_alone(
    make: type[Notears], dag: Graph, table: pd.DataFrame
) -> None:
    before = table.copy()
    model = make(random_state=0).fit(table)
    pd.testing.assert_frame_equal(table, before)
    assert model.graph_.names == tuple(table.columns)
    assert model.feature_names_in_.tolist() == list(table.columns)
    assert model.n_features_in_ == 8
    truth = dag if model.graph_.is_dag else dag.to_cpdag()
    assert metrics.shd(true=truth, estimate=model.graph_) <= 2
    assert model.graph_.to_dag().is_dag
    assert model.converged_
    assert np.array_equal(model.weights_ != 0, model.graph_.adjacency)
    shared = model.graph_.adjacency & dag.adjacency & ~model.graph_.adjacency.T
    assert model.weights_[shared] == pytest.approx(dag.weights[shared], abs=0.25)
    assert set(model.edges_["source"]) <= set(table.columns)
    assert len(model.edges_) == model.graph_.n_edges
    assert len(model.history_) >= 1
    assert model.raw_weights_.shape == (8, 8)


@LEARNER
def test_statistics_arrays_and_parts_give_the_same_graph(make: type[Notears], table: pd.DataFrame) -> None:
    whole = make().fit(table)
    parts = GaussianStats.from_data(table.iloc[:300]) + GaussianStats.from_data(table.iloc[300:])
    assert np.array_equal(make().fit(parts).graph_.adjacency, whole.graph_.adjacency)
    assert make().fit(parts).weights_ == pytest.approx(whole.weights_, abs=1e-8)
    nameless = make().fit(table.to_numpy())
    assert nameless.graph_.names[0] == "x0"
    assert nameless.weights_ == pytest.approx(whole.weights_, abs=1e-8)


@LEARNER
def test_the_same_call_gives_the_same_answer_and_columns_may_move(
    make: type[Notears], table: pd.DataFrame
) -> None:
    first, second = make(random_state=1).fit(table), make(random_state=1).fit(table)
    assert first.graph_ == second.graph_
    moved = make(random_state=1).fit(table[table.columns[::-1]])
    same = moved.graph_.reorder(first.graph_.names)
    assert np.array_equal(same.adjacency, first.graph_.adjacency)


@LEARNER
def test_estimators_are_cloned_and_their_parameters_read(make: type[Notears]) -> None:
    known = Knowledge(forbidden=[("a", "b")])
    copy = clone(make(knowledge=known, random_state=3))
    assert copy.get_params()["random_state"] == 3
    assert copy.get_params()["knowledge"] == known


@LEARNER
def test_knowledge_is_honoured(make: type[Notears], dag: Graph, table: pd.DataFrame) -> None:
    edge = dag.edges()[0]
    against = Knowledge(required=[(edge.target, edge.source)])
    model = make(knowledge=against).fit(table)
    assert edge.source in model.graph_.children(edge.target)
    assert model.graph_.to_dag().is_dag
    without = make(knowledge=Knowledge(forbidden=[(edge.source, edge.target), (edge.target, edge.source)]))
    graph = without.fit(table).graph_
    assert not graph.adjacency[graph.index(edge.source), graph.index(edge.target)]
    tiers = Knowledge(tiers=[table.columns[4:], table.columns[:4]])
    graph = make(knowledge=tiers).fit(table).graph_
    assert not graph.adjacency[:4, 4:].any()


@LEARNER
def test_an_edge_required_between_unrelated_columns_is_there(make: type[Notears]) -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("abc"))
    model = make(knowledge=Knowledge(required=[("c", "a")])).fit(X)
    assert model.graph_.parents("a") == ["c"]


@LEARNER
def test_unrelated_columns_give_an_empty_graph(make: type[Notears]) -> None:
    X = np.random.default_rng(1).normal(size=(500, 4))
    model = make().fit(X)
    assert model.graph_.n_edges == 0
    assert len(model.edges_) == 0


@LEARNER
def test_bad_input_is_named(make: type[Notears], table: pd.DataFrame) -> None:
    for change, words in (
        (lambda t: t.assign(flat=1.0), "flat.*constant"),
        (lambda t: t.assign(twin=t["crp"]), "crp = twin"),
        (lambda t: t.assign(crp=t["crp"].where(t.index != 6)), "crp, row 7.*missing"),
        (lambda t: t.assign(crp=t["crp"].replace(t["crp"][2], np.inf)), "crp, row 3.*inf"),
        (lambda t: t.assign(word="w"), "word"),
        (lambda t: t.iloc[:1], "1 row"),
        (lambda t: t.iloc[:0], "no rows"),
        (lambda t: t.set_axis([*t.columns[:-1], "age"], axis=1), "age"),
    ):
        with pytest.raises(DataError, match=words):
            make().fit(change(table))
    with pytest.raises(DataError, match="nobody"):
        make(knowledge=Knowledge(forbidden=[("age", "nobody")])).fit(table)
    with pytest.raises(UsageError, match="Knowledge"):
        make(knowledge=[("age", "crp")]).fit(table)


def test_equal_variance_needs_more_rows_than_columns_and_notears_does_not() -> None:
    X = simulate.linear(simulate.dag(30, expected_edges=15, random_state=0), n=20, random_state=0)
    with pytest.raises(DataError, match="20 rows for 30 columns"):
        EqualVariance().fit(X)
    assert Notears().fit(X).graph_.is_dag


def test_equal_variance_is_misled_by_standardised_columns() -> None:
    right, wrong = [], []
    for seed in range(5):
        dag = simulate.dag(15, expected_edges=30, random_state=seed)
        X = simulate.linear(dag, n=1000, random_state=seed)
        right.append(metrics.shd(true=dag, estimate=EqualVariance().fit(X).graph_))
        scaled = (X - X.mean()) / X.std()
        wrong.append(metrics.shd(true=dag, estimate=EqualVariance().fit(scaled).graph_))
    assert np.mean(right) < 0.5
    assert np.mean(wrong) > 5


def test_interventions_turn_an_edge_that_scales_get_wrong() -> None:
    rng = np.random.default_rng(0)
    cause = rng.normal(size=400)
    effect = 0.4 * cause + 0.2 * rng.normal(
        size=400
    )  # the effect has the smaller variance, so least squares reverses the edge
    seen = pd.DataFrame({"cause": cause, "effect": effect})
    assert Notears(lambda_=0.01).fit(seen).graph_.parents("cause") == ["effect"]
    cut = pd.DataFrame({"cause": cause, "effect": 3 * rng.normal(size=400)})
    both = pd.concat([seen, cut], ignore_index=True)
    targets = [()] * 400 + [("effect",)] * 400
    regimes = Regimes.from_data(both, targets, GaussianStats.from_data)
    graph = Notears(lambda_=0.01).fit(regimes).graph_
    assert graph.parents("effect") == ["cause"]


def mean_error(n_seeds: int) -> float:
    errors = []
    for seed in range(n_seeds):
        dag = simulate.dag(50, expected_edges=100, random_state=seed)
        X = simulate.linear(dag, n=1000, random_state=seed + 1000)
        errors.append(metrics.shd(true=dag, estimate=Notears().fit(X).graph_))
    return float(np.mean(errors))


def test_notears_default_reaches_the_accuracy_asked_for() -> None:
    assert mean_error(3) <= 3


@pytest.mark.slow
def test_notears_accuracy_over_twenty_seeds() -> None:
    assert mean_error(20) <= 3


@pytest.mark.parametrize("settings", [{"acyclicity": "expm"}, {"lambda_": 0.05, "threshold": 0.3}])
def test_notears_settings(settings: dict[str, object], dag: Graph, table: pd.DataFrame) -> None:
    model = Notears(**settings).fit(table)  # type: ignore[arg-type]
    assert metrics.shd(true=dag, estimate=model.graph_) <= 1
    assert set(model.pruned_["reason"]) <= {"ebic", "threshold", "cycle"}
    removed = {(row.source, row.target) for row in model.pruned_.itertuples()}
    names = model.graph_.names
    raw = {(names[i], names[j]) for i, j in np.argwhere(model.raw_weights_)}
    assert raw == removed | {(edge.source, edge.target) for edge in model.graph_.edges()}


def test_threshold_in_numbers_is_on_raw_weights(table: pd.DataFrame) -> None:
    model = Notears(lambda_=0.05, threshold=0.7).fit(table)
    assert (np.abs(model.raw_weights_[model.graph_.adjacency]) >= 0.7).all()
    assert model.threshold_ == np.abs(model.weights_[model.graph_.adjacency]).min()


def test_stability_chooses_a_penalty_and_repeats_with_the_seed(dag: Graph, table: pd.DataFrame) -> None:
    first = Notears(lambda_="stability", random_state=7).fit(table)
    second = Notears(lambda_="stability", random_state=7).fit(table)
    assert first.graph_ == second.graph_
    assert metrics.shd(true=dag, estimate=first.graph_) <= 1
    with pytest.raises(UsageError, match="needs rows"):
        Notears(lambda_="stability").fit(GaussianStats.from_data(table))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lambda_": -1}, "lambda_"),
        ({"lambda_": "aic"}, "one of bic, stability or a number"),
        ({"threshold": "best"}, "threshold"),
        ({"threshold": float("nan")}, "threshold"),
        ({"acyclicity": "trace"}, "expm, logdet"),
    ],
)
def test_notears_refuses_settings(settings: dict[str, object], words: str, table: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match=words):
        Notears(**settings).fit(table)  # type: ignore[arg-type]


def test_varsortability_is_reported(table: pd.DataFrame) -> None:
    assert Notears().fit(table).varsortability_ > 0.8


def test_a_solver_that_stops_early_says_so(table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    from polydag.optimize import notears, penalised

    def hasty(*arguments: object) -> penalised.Point:
        return penalised.descend(*arguments, max_iter=1)  # type: ignore[arg-type]

    monkeypatch.setattr(notears, "descend", hasty)
    with pytest.warns(ConvergenceWarning, match="did not converge at λ"):
        model = Notears(lambda_=0.1).fit(table)
    assert not model.converged_
    assert model.graph_.is_dag
