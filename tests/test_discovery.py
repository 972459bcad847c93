"""The discovery estimator as a person calls it, and cutting numbers into levels."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from polydag import DiscreteCounts, GaussianStats, Graph, Knowledge, Regimes, data, simulate
from polydag.computing.progress import Step, listening
from polydag.data.discretize import continuous_columns, discretize
from polydag.embedded import asia
from polydag.errors import DataError, DataWarning, UsageError
from polydag.learners.posterior.bayesian_discovery import BayesianDiscovery
from polydag.posterior import exact_posterior, family_table, with_prior
from polydag.posterior.families import candidates as candidates_module
from polydag.scores import make_score
from polydag.sources import InMemory

pytestmark = pytest.mark.portable

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return asia().sample(400, random_state=1)


def test_as_the_issue_writes_it() -> None:
    frame = pd.read_csv(GOLDEN / "asia_200.csv")
    model = BayesianDiscovery(criterion="k2", structure_prior="fair", max_parents=3, method="exact").fit(
        frame
    )
    arcs = pd.read_csv(GOLDEN / "asia_200_arcs_m3.csv")
    edges = model.posterior_.edges
    assert list(edges.index) == list(edges.columns) == list(frame.columns)
    np.testing.assert_allclose(edges.to_numpy()[arcs["tail"], arcs["head"]], arcs["prob"], rtol=0, atol=1e-9)
    parents = model.posterior_.parents("xray")
    assert parents["probability"].sum() == pytest.approx(1.0)
    with_either = [
        p for sets, p in zip(parents["parents"], parents["probability"], strict=True) if "either" in sets
    ]
    assert sum(with_either) == pytest.approx(edges.loc["either", "xray"])


def test_what_a_fitted_model_holds(rows: pd.DataFrame) -> None:
    before = rows.copy()
    model = BayesianDiscovery(criterion="bdeu", max_parents=2).fit(rows)
    pd.testing.assert_frame_equal(rows, before)
    assert model.graph_.names == tuple(rows.columns)
    P = model.posterior_.probabilities
    assert np.array_equal(model.raw_weights_, P)
    both = model.graph_.adjacency & model.graph_.adjacency.T
    directed = model.graph_.adjacency & ~both
    np.testing.assert_array_equal(model.weights_[directed], P[directed])
    np.testing.assert_allclose(model.weights_[both], (P + P.T)[both])
    assert model.pruned_.empty
    assert np.array_equal(directed, P > 0.5)
    assert np.array_equal(both, (P + P.T > 0.5) & (np.maximum(P, P.T) <= 0.5))
    assert both.any()
    assert model.converged_
    assert model.best_graph_.is_dag
    score = make_score("bdeu", DiscreteCounts.from_data(rows), equivalent_sample_size=4.0)
    table = with_prior(family_table(score, 2))
    sums = [
        table.scores[j, table.index(j, np.flatnonzero(model.best_graph_.adjacency[:, j]))] for j in range(8)
    ]
    assert sum(sums) == pytest.approx(model.best_score_)
    assert model.log_evidence_ > model.best_score_
    assert model.candidates_.empty
    assert "Posterior (exact)" in repr(model.posterior_)


def test_parameters_and_clone() -> None:
    model = BayesianDiscovery(
        criterion="bds", max_parents=2, n_jobs=2, knowledge=Knowledge(forbidden=[("a", "b")])
    )
    assert clone(model).get_params() == model.get_params()


def test_threads_change_nothing(rows: pd.DataFrame) -> None:
    one = BayesianDiscovery().fit(rows).posterior_.edges
    two = BayesianDiscovery(n_jobs=2).fit(rows).posterior_.edges
    pd.testing.assert_frame_equal(one, two, rtol=0, atol=1e-13)


@pytest.mark.parametrize("score", ["k2", "bdeu", "bds"])
def test_rows_counts_and_tables_are_the_same(score: str, rows: pd.DataFrame) -> None:
    model = BayesianDiscovery(criterion=score, max_parents=2)
    expected = model.fit(rows).posterior_.probabilities
    codes = rows.apply(lambda column: column.cat.codes).astype(int)
    halves = DiscreteCounts.from_data(rows[:100]) + DiscreteCounts.from_data(rows[100:])
    for other in (codes, codes.to_numpy(), codes.astype(float), data.from_frame(rows.astype(str)), halves):
        found = model.fit(other).posterior_.probabilities
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


def test_numbers_by_bge() -> None:
    dag = simulate.dag(6, expected_edges=6, random_state=2)
    frame = simulate.linear(dag, n=2000, random_state=3)
    discovery = BayesianDiscovery(criterion="bge", max_parents=4)
    model = clone(discovery).fit(frame)
    skeleton = model.posterior_.probabilities + model.posterior_.probabilities.T
    joined = dag.adjacency | dag.adjacency.T
    assert skeleton[joined].min() > 0.9
    assert skeleton[~joined].max() < 0.3
    scaled = clone(discovery).fit(frame * [1, 10, 0.1, 1, 1000, 1] + 5)
    np.testing.assert_allclose(scaled.posterior_.probabilities, model.posterior_.probabilities, atol=1e-9)
    stats = GaussianStats.from_data(frame).standardized()
    again = clone(discovery).fit(stats)
    np.testing.assert_allclose(again.posterior_.probabilities, model.posterior_.probabilities, atol=1e-9)


def test_interventional_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, 600)
    y = np.where(rng.random(600) < 0.85, x, 1 - x)
    frame = pd.DataFrame({"x": x, "y": y})
    targets: list[list[str]] = [[] for _ in range(300)] + [["x"] for _ in range(300)]
    regimes = Regimes.from_data(frame, targets, DiscreteCounts.from_data)
    model = BayesianDiscovery(criterion="bdeu", max_parents=1)
    assert model.fit(frame).posterior_.edges.loc["x", "y"] == pytest.approx(0.5)
    assert model.fit(regimes).posterior_.edges.loc["x", "y"] > 0.99


def test_knowledge_and_edge_priors(rows: pd.DataFrame) -> None:
    knowledge = Knowledge(
        required=[("xray", "asia")], forbidden=[("smoke", "lung")], tiers=[["dysp"], ["bronc"]]
    )
    model = BayesianDiscovery(max_parents=2, knowledge=knowledge).fit(rows)
    edges = model.posterior_.edges
    assert edges.loc["xray", "asia"] == pytest.approx(1.0)
    assert edges.loc["smoke", "lung"] == 0.0
    assert edges.loc["bronc", "dysp"] == 0.0
    assert model.graph_.adjacency[model.graph_.index("xray"), model.graph_.index("asia")]
    plain = BayesianDiscovery(max_parents=2).fit(rows).posterior_.edges
    prior = pd.DataFrame(0.5, index=rows.columns, columns=rows.columns)
    same = BayesianDiscovery(max_parents=2, edge_prior=prior).fit(rows).posterior_.edges
    pd.testing.assert_frame_equal(same, plain, rtol=0, atol=1e-12)
    prior.loc["asia", "smoke"] = 0.95
    raised = BayesianDiscovery(max_parents=2, edge_prior=prior).fit(rows).posterior_.edges
    assert raised.loc["asia", "smoke"] > plain.loc["asia", "smoke"]
    prior.loc["asia", "smoke"] = 0.0
    assert (
        BayesianDiscovery(max_parents=2, edge_prior=prior).fit(rows).posterior_.edges.loc["asia", "smoke"]
        == 0.0
    )


def test_candidates_are_reported(rows: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    model = BayesianDiscovery(max_parents=2, max_candidates=3).fit(rows)
    assert model.candidates_["candidates"].map(len).tolist() == [3] * 8
    assert model.candidates_["best_left_out"].notna().all()
    kept = dict(zip(model.candidates_["variable"], model.candidates_["candidates"], strict=True))
    edges = model.posterior_.edges
    for source, target in itertools.permutations(rows.columns, 2):
        assert source in kept[target] or edges.loc[source, target] == 0
    monkeypatch.setattr(candidates_module, "MANY_FAMILIES", 100)
    with pytest.warns(DataWarning, match="each keeps its 4 best candidate parents"):
        automatic = BayesianDiscovery(max_parents=2).fit(rows)
    assert automatic.candidates_["candidates"].map(len).tolist() == [4] * 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert BayesianDiscovery(max_parents=2, max_candidates=None).fit(rows).candidates_.empty


def test_pruning_keeps_what_matters(rows: pd.DataFrame) -> None:
    learner = BayesianDiscovery(criterion="bdeu", max_parents=2, equivalent_sample_size=1.0)
    full = learner.fit(rows).posterior_.probabilities
    few = learner.set_params(max_candidates=5).fit(rows).posterior_.probabilities
    assert np.array_equal(full > 0.5, few > 0.5)


def test_cut_into_levels_on_the_way() -> None:
    dag = Graph.from_edges(["a", "b", "c"], [("a", "b"), ("b", "c")])
    frame = simulate.linear(dag, n=600, random_state=0)
    with pytest.raises(DataError, match=r"Column a \(and 2 more\) is continuous.*--discretize quantile:4"):
        BayesianDiscovery(max_parents=2, criterion="bdeu").fit(frame)
    model = BayesianDiscovery(max_parents=2, discretize="quantile:4").fit(frame)
    assert (model.criterion_, model.notes_) == ("bdeu", ())
    P = model.posterior_.probabilities
    assert (P + P.T)[0, 1] > 0.9
    table = BayesianDiscovery(max_parents=2, discretize="quantile:4").fit(data.from_frame(frame))
    np.testing.assert_allclose(table.posterior_.probabilities, P, atol=1e-12)


def test_the_score_is_that_of_the_kinds_of_the_columns(rows: pd.DataFrame) -> None:
    numbers = np.random.default_rng(0).standard_normal((60, 3))
    frame = pd.DataFrame(numbers, columns=list("abc"))
    few = frame.assign(a=np.arange(60) % 4)
    for data_, criterion, said in (
        (rows, "bdeu", ""),
        (frame, "bge", "All columns are numbers: the score is bge."),
        (numbers, "bge", "All columns are numbers"),
        (GaussianStats.from_data(frame), "bge", "All columns are numbers"),
        (few, "dg", "There are numbers and labels: the score is dg"),
        (data.from_frame(few, kinds={"a": "continuous"}), "bge", "All columns are numbers"),
    ):
        model = BayesianDiscovery(max_parents=1).fit(data_)
        again = BayesianDiscovery(max_parents=1, criterion=criterion).fit(data_)
        assert model.criterion_ == again.criterion_ == criterion
        np.testing.assert_array_equal(model.posterior_.probabilities, again.posterior_.probabilities)
        assert any(note.startswith(said) for note in (*model.notes_, ""))
        assert not any("the score is" in note for note in again.notes_)
    holes = frame.mask(np.random.default_rng(1).random(frame.shape) < 0.1)
    filled = BayesianDiscovery(max_parents=1).fit(InMemory(holes, missing="multiple", n_imputations=2))
    assert filled.criterion_ == "bge"
    assert "All columns are numbers: the score is bge." in filled.notes_


@pytest.mark.parametrize(
    ("settings_", "said"),
    [
        ({"criterion": "magic"}, "criterion must be one of .*k2.*; got 'magic'"),
        ({"method": "magic"}, "method must be one of"),
        ({"structure_prior": "sparse"}, "structure_prior must be one of fair, uniform"),
        ({"max_parents": 2.5}, "whole number"),
        ({"max_parents": -1}, "max_parents"),
        ({"method": "exact", "memory": 1e-6}, "exact posterior of 8 variables .* Up to 5 variables fit"),
        ({"discretize": "deciles"}, "discretize must be quantile:K or interval:K"),
        ({"max_candidates": 0}, "max_candidates must be a whole number at least 1 or 'auto' or None; got 0"),
        ({"threshold": 2.0}, "threshold must be a number at least 0 and at most 1; got 2.0"),
        ({"n_jobs": 0}, "n_jobs must be positive"),
        (
            {"criterion": "bdeu", "equivalent_sample_size": 0.0},
            "equivalent_sample_size must be a number above 0",
        ),
        ({"knowledge": "none"}, "must be a polydag.Knowledge"),
    ],
)
def test_settings_that_cannot_be(settings_: dict[str, Any], said: str, rows: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match=said):
        BayesianDiscovery(**settings_).fit(rows)


def test_too_many_variables_are_told_before_anything_is_computed() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (20, 70)))
    steps: list[Step] = []
    with listening(steps.append), pytest.raises(UsageError, match=r"70 variables .* variables fit"):
        BayesianDiscovery(method="exact").fit(frame)
    assert not steps


def test_missing_labels_are_dropped_or_imputed_when_asked(rows: pd.DataFrame) -> None:
    holes = rows.astype(str).mask(np.random.default_rng(0).random(rows.shape) < 0.02)
    model = BayesianDiscovery(criterion="bdeu", max_parents=2)
    with pytest.raises(DataError, match=r"missing='drop' or 'impute' .*--missing drop\|impute"):
        data.from_frame(holes)
    dropped = model.fit(data.from_frame(holes, missing="drop")).posterior_.probabilities
    whole = holes.dropna()
    assert 0 < len(whole) < len(holes)
    np.testing.assert_allclose(dropped, model.fit(whole).posterior_.probabilities, atol=1e-12)
    imputed = model.fit(data.from_frame(holes, missing="impute")).posterior_.probabilities
    filled = holes.fillna(holes.mode().iloc[0])
    np.testing.assert_allclose(imputed, model.fit(filled).posterior_.probabilities, atol=1e-12)


def test_columns_that_cannot_be_used(rows: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="Column asia has only one level"):
        BayesianDiscovery().fit(rows.assign(asia="yes"))
    with pytest.raises(DataError, match="Column id has 400 levels, more than 64"):
        BayesianDiscovery(criterion="bdeu").fit(rows.assign(id=range(400)))
    with pytest.raises(DataError, match=r"Column id has 400 different labels .*--exclude id"):
        BayesianDiscovery().fit(rows.assign(id=[f"p{i}" for i in range(400)]))
    with pytest.raises(DataError, match="Column asia, row 4: the value is missing"):
        BayesianDiscovery().fit(rows.reindex([0, 1, 2, 1000, 4]))
    with pytest.raises(DataError, match="needs counts of labels"):
        BayesianDiscovery(criterion="bdeu").fit(
            GaussianStats.from_data(np.random.default_rng(0).standard_normal((9, 4)))
        )
    with pytest.raises(DataError, match="shape"):
        BayesianDiscovery().fit(np.zeros(5, dtype=int))


@given(
    values=st.lists(st.floats(-100, 100).map(lambda x: round(x, 3)), min_size=3, max_size=40),
    way=st.sampled_from(["quantile", "interval"]),
    levels=st.integers(2, 6),
)
@settings(max_examples=60, deadline=None)
def test_levels_keep_the_order_of_values(values: list[float], way: str, levels: int) -> None:
    frame = pd.DataFrame({"x": values})
    if len(set(values)) == 1 or (way == "quantile" and np.quantile(values, 1 - 1 / levels) == min(values)):
        with pytest.raises(DataError, match="only one"):
            discretize(frame, f"{way}:{levels}", ["x"])
        return
    codes = discretize(frame, f"{way}:{levels}", ["x"])["x"].cat.codes.to_numpy()
    order = np.argsort(values)
    assert (np.diff(codes[order]) >= 0).all()
    same = dict(zip(values, codes, strict=True))
    assert [same[value] for value in values] == codes.tolist()
    assert 2 <= len(set(codes.tolist())) <= levels


def test_quantiles_hold_equal_shares() -> None:
    values = np.random.default_rng(0).permutation(400) + 0.5
    cut = discretize(pd.DataFrame({"x": values}), "quantile:4")["x"]
    assert cut.value_counts().tolist() == [100] * 4
    assert cut.cat.ordered


def test_which_columns_are_cut() -> None:
    frame = pd.DataFrame(
        {"f": [0.5, 1.5, 2.0], "whole": [1.0, 2.0, 3.0], "i": [1, 2, 3], "s": ["a", "b", "c"]}
    )
    assert continuous_columns(frame) == ["f"]
    assert discretize(frame, "interval:2")["i"].tolist() == [1, 2, 3]
    missing = discretize(frame.assign(f=[0.5, np.nan, 2.0]), "interval:2")["f"]
    assert missing.isna().tolist() == [False, True, False]
    with pytest.raises(DataError, match="Column s holds labels"):
        discretize(frame, columns=["s"])
    with pytest.raises(DataError, match="No such column: z"):
        discretize(frame, columns=["z"])
    with pytest.raises(DataError, match="Column f has only one value"):
        discretize(frame.assign(f=1.5))
    with pytest.raises(DataError, match="most values are equal"):
        discretize(pd.DataFrame({"x": [0.0] * 9 + [0.5]}), "quantile:4")


def test_exact_posterior_of_the_same_table(rows: pd.DataFrame) -> None:
    """The estimator adds nothing to what its pieces compute."""
    table = with_prior(family_table(make_score("k2", DiscreteCounts.from_data(rows)), 3), "uniform")
    expected = exact_posterior(table).probabilities
    found = BayesianDiscovery(criterion="k2", structure_prior="uniform").fit(rows).posterior_.probabilities
    np.testing.assert_array_equal(found, expected)
