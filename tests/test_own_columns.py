"""Tasks that lack some of the columns: scores by what is left of a network, and what is said of each task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from polydag import (
    BayesianDiscovery,
    DiscreteCounts,
    GaussianStats,
    Knowledge,
    MultitaskDiscovery,
    Tasks,
    simulate,
)
from polydag.embedded import asia
from polydag.errors import DataError, UsageError
from polydag.learners.posterior.influence import influence
from polydag.learners.posterior.own_columns import table_over
from polydag.posterior import family_table
from polydag.posterior.mcmc.chains import Chains
from polydag.scores import make_score
from polydag.simulate import linear


def clinics(lacks: str = "xray") -> dict[str, pd.DataFrame]:
    north, south = asia().sample(300, random_state=0), asia().sample(300, random_state=1)
    return {"north": north, "south": south.drop(columns=lacks)}


def test_families_are_scored_by_what_is_left_of_them() -> None:
    rng = np.random.default_rng(0)
    score = make_score("bge", GaussianStats.from_data(rng.normal(size=(30, 3)), names=["c", "a", "d"]))
    table = table_over(("a", "b", "c", "d"), score, 2, 1)
    for node, name in enumerate(table.names):
        for s in range(len(table.sets)):
            parents = [table.names[v] for v in table.parents(node, s)]
            own = [score.names.index(parent) for parent in parents if parent in score.names]
            expected = score.local_score(score.names.index(name), own) if name in score.names else 0.0
            assert table.scores[node, s] == pytest.approx(expected, abs=1e-10)
    same = table_over(score.names, score, 2, 1)
    np.testing.assert_array_equal(same.scores, family_table(score, 2).scores)


def test_what_is_said_of_tasks_that_lack_a_column() -> None:
    tables = clinics()
    model = MultitaskDiscovery(max_parents=2).fit(tables)
    north, south = model.posteriors_
    assert model.feature_names_in_.tolist() == list(tables["north"].columns)
    assert (north.names, south.names) == tuple(tuple(table.columns) for table in tables.values())
    assert "south lacks xray: its network is over its other columns." in model.notes_
    assert model.relatedness_.iloc[0, 1] > 0.99
    assert "one population" not in {way for way, share in model.ways_.items() if share > 0}
    alone = BayesianDiscovery(max_parents=2).fit(tables["south"]).posterior_.edges
    truth = asia().graph
    index = [truth.index(name) for name in south.names]
    true = truth.adjacency[np.ix_(index, index)]
    connected, before = (P.to_numpy() + P.to_numpy().T for P in (south.edges, alone))
    wrong = [np.abs(P - (true | true.T)).sum() for P in (connected, before)]
    assert wrong[0] < wrong[1]  # tasks that lack a column gain all the same
    for posterior in (north, south):
        for name in posterior.names:
            parents = posterior.parents(name)
            assert parents["probability"].sum() == pytest.approx(1.0)
            for other in posterior.names:
                has = [other in own for own in parents["parents"]]
                expected = posterior.edges.loc[other, name]
                assert parents["probability"][has].sum() == pytest.approx(expected, abs=1e-9)
    unknown = ["in south", "shared", "only in north", "only in south"]
    for table in (model.differences_, model.connections_):
        lacking = (table.iloc[:, :2] == "xray").any(axis=1)
        assert table.loc[lacking, unknown].isna().all(axis=None)
        assert not table.loc[lacking, "in north"].isna().any()
        assert not table.loc[~lacking].isna().any(axis=None)
    drawn = model.sample_dags(400, random_state=0)
    assert [dags.names for dags in drawn] == [north.names, south.names]
    for posterior, dags in zip(model.posteriors_, drawn, strict=True):
        np.testing.assert_allclose(dags.adjacency.mean(axis=0), posterior.probabilities, atol=0.1)
    one = south.sample_dags(400, random_state=1)  # type: ignore[attr-defined]
    np.testing.assert_allclose(one.adjacency.mean(axis=0), south.probabilities, atol=0.1)
    assert [graph.names for graph in model.graphs_] == [north.names, south.names]
    assert model.raw_weights_[:, 6].max() == north.probabilities[:, list(north.names).index("xray")].max()
    assert model.power("south", "north") is None
    assert model.unknown_pairs_ == ()


def test_pairs_that_no_task_has_both_of_are_unknown() -> None:
    tables = clinics()
    tables["north"] = tables["north"].drop(columns="dysp")
    model = MultitaskDiscovery(max_parents=2, threshold=0.0).fit(tables)
    names = model.feature_names_in_.tolist()
    assert sorted(names) == sorted(asia().names)
    assert model.unknown_pairs_ == (("xray", "dysp"),)
    i, j = names.index("xray"), names.index("dysp")
    assert model.raw_weights_[i, j] == model.raw_weights_[j, i] == 0.0
    assert not model.graph_.adjacency[i, j]
    assert not model.graph_.adjacency[j, i]


@pytest.mark.parametrize("kind", ["numbers", "mixed", "counts"])
def test_numbers_mixed_columns_and_statistics(kind: str) -> None:
    dag = simulate.dag(5, n_edges=6, random_state=0)
    first, second = (linear(dag, n=n, random_state=n) for n in (200, 150))
    if kind == "mixed":
        first, second = (t.assign(x1=np.where(t["x1"] > 0, "high", "low")) for t in (first, second))
    tables: dict[str, Any] = {"a": first, "b": second.drop(columns="x3")}
    if kind == "counts":
        cut = {task: table.gt(0.0).astype(int) for task, table in tables.items()}
        tables = {task: DiscreteCounts.from_data(table) for task, table in cut.items()}
    model = MultitaskDiscovery(max_parents=2).fit(tables)
    assert model.criterion_ == {"numbers": "bge", "mixed": "dg", "counts": "bdeu"}[kind]
    assert [len(posterior.names) for posterior in model.posteriors_] == [5, 4]
    assert np.isfinite(model.raw_weights_).all()


@pytest.mark.filterwarnings("ignore:The chains")
def test_chains_over_columns_that_differ() -> None:
    tables = {task: table.iloc[:, 1:] for task, table in clinics().items()}
    exact = MultitaskDiscovery(max_parents=2).fit(tables)
    chains = Chains(n_chains=2, n_steps=2000)
    sampled = MultitaskDiscovery(max_parents=2, method="mcmc", chains=chains, random_state=0).fit(tables)
    for one, other in zip(exact.posteriors_, sampled.posteriors_, strict=True):
        assert one.names == other.names
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=0.1)
    diagnostics = sampled.posteriors_[1].diagnostics
    assert diagnostics is not None
    assert len(diagnostics) == 6 * 5
    assert set(diagnostics["source"]) == set(tables["south"].columns)


def test_knowledge_of_a_column_that_a_task_lacks() -> None:
    known = Knowledge(required=[("either", "xray")], forbidden=[("smoke", "bronc")])
    model = MultitaskDiscovery(max_parents=2, knowledge=known).fit(clinics())
    assert model.posteriors_[0].edges.loc["either", "xray"] == pytest.approx(1.0)
    assert [p.edges.loc["smoke", "bronc"] for p in model.posteriors_] == [0.0, 0.0]


def test_what_needs_the_same_columns_is_refused() -> None:
    tables = clinics()
    for transfer in ("family", "theorem1", "none", "pool"):
        with pytest.raises(DataError, match="south lacks the column xray, which north has"):
            MultitaskDiscovery(transfer=transfer).fit(tables)
    with pytest.raises(DataError, match="south lacks the column xray, which north has"):
        MultitaskDiscovery(discretize="quantile:2").fit(tables)
    with pytest.raises(DataError, match=r"lacks the column xray \(it has 'Xray', written differently\)"):
        MultitaskDiscovery().fit({**tables, "south": tables["north"].rename(columns={"xray": "Xray"})})
    with pytest.raises(DataError, match="other has fewer than two columns in common"):
        MultitaskDiscovery().fit({**tables, "other": tables["north"][["xray"]].assign(new=[0, 1] * 150)})
    with pytest.raises(UsageError, match="Tasks that lack columns need all 8 variables as candidate parents"):
        MultitaskDiscovery(max_parents=2, max_candidates=3).fit(tables)
    model = MultitaskDiscovery(max_parents=1).fit(tables)
    with pytest.raises(UsageError, match="Influence needs the same columns"):
        influence(model, Tasks(tables), "smoke", "lung", only_in="north")
