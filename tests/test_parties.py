"""Parties as a source: every learner gets the answer of pooling, and only sums leave a party."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from polydag import (
    BOSS,
    GES,
    PC,
    BayesianDiscovery,
    Bootstrap,
    EqualVariance,
    FederatedNotears,
    GaussianStats,
    LinkedRows,
    MultitaskDiscovery,
    Notears,
    NotearsMLP,
    Parties,
    Privacy,
    Regimes,
    Tasks,
    embedded,
    simulate,
)
from polydag.errors import DataError, DataWarning, UsageError
from polydag.privacy import ledger
from polydag.sources import InMemory

NUMBERS = [BOSS(), GES(), PC(), Notears(), EqualVariance(), BayesianDiscovery(criterion="bge")]
LABELS = [
    GES(max_parents=2),
    BOSS(max_parents=2),
    PC(max_conditioning=2),
    BayesianDiscovery(criterion="bdeu", max_parents=2),
]
LEDGERS = "ledgers"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    dag = simulate.dag(6, n_edges=7, names=list("abcdef"), random_state=2)
    return simulate.linear(dag, n=300, random_state=2) * [1, 10, 0.1, 1, 5, 1] + [0, 100, 0, -3, 0, 50]


@pytest.fixture(scope="module")
def labels() -> pd.DataFrame:
    return embedded.asia().sample(600, random_state=0)


def thirds(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    n = len(table)
    return {"north": table[: n // 2], "south": table[n // 2 : 3 * n // 4], "west": table[3 * n // 4 :]}


def close(first: Any, second: Any, tolerance: float = 1e-8) -> None:
    assert np.array_equal(first.graph_.adjacency, second.graph_.adjacency)
    assert first.graph_.names == second.graph_.names
    np.testing.assert_allclose(first.raw_weights_, second.raw_weights_, rtol=tolerance, atol=tolerance)


def name(learner: Any) -> str:
    return type(learner).__name__


@pytest.mark.parametrize("mode", ["masked", "none"])
@pytest.mark.parametrize("learner", NUMBERS, ids=name)
def test_parties_of_the_parts_are_the_table(learner: Any, mode: str, table: pd.DataFrame) -> None:
    parties = Parties(thirds(table), privacy=Privacy(mode=mode), site_effects="none")
    close(learner.fit(parties), type(learner)(**learner.get_params(deep=False)).fit(table), 1e-6)


@pytest.mark.parametrize("learner", LABELS, ids=name)
def test_labels_are_counted_in_batches(learner: Any, labels: pd.DataFrame) -> None:
    parties = Parties(thirds(labels))
    close(learner.fit(parties), type(learner)(**learner.get_params(deep=False)).fit(labels), 1e-9)
    left = parties.disclosure_
    assert set(left["site"]) == {"north", "south", "west"}
    assert left["masked"].all()
    asked = left.loc[left["name"].str.startswith("counts of "), "name"]
    assert len(asked) >= 3
    for name in asked:
        columns = name.removeprefix("counts of ").replace("; ", " × ").split(" × ")
        assert set(columns) <= set(labels.columns)


def test_the_posterior_asks_one_question_for_each_layer(labels: pd.DataFrame) -> None:
    parties = Parties(thirds(labels))
    BayesianDiscovery(criterion="bdeu", max_parents=2).fit(parties)
    sums = parties.disclosure_
    tables = sums[~sums["name"].str.contains(":")]  # keys and shares have the phase before a colon
    assert tables["round"].nunique() <= 4


def test_the_order_of_parties_changes_nothing(table: pd.DataFrame) -> None:
    parts = thirds(table)
    backwards = dict(reversed(parts.items()))
    close(BOSS().fit(Parties(parts)), BOSS().fit(Parties(backwards)), 1e-9)


def test_columns_are_matched_by_name(table: pd.DataFrame) -> None:
    parts = thirds(table)
    moved = {**parts, "south": parts["south"][table.columns[::-1]]}
    close(BOSS().fit(Parties(moved)), BOSS().fit(Parties(parts)), 1e-8)
    for method in ("admm", "fedavg", "varying", "voting"):
        found, wanted = (FederatedNotears(method=method).fit(Parties(each)) for each in (moved, parts))
        close(found, wanted, 1e-8)
    with pytest.raises(DataError, match="south: its columns are not those of the other parties: it lacks a"):
        BOSS().fit(Parties({**parts, "south": parts["south"].drop(columns="a")}))


def test_linked_rows_inside_parties() -> None:
    """Equal to the whole decorrelated at once, since links do not cross parties and the strength is known."""
    dag = simulate.dag(8, n_edges=8, random_state=0)
    X = simulate.linked(dag, row_covariance=simulate.clusters("equi", 120, 4, base=0.6), random_state=0)
    X = X.assign(ward=[row // 4 for row in range(120)]) + 3.0
    linked = {
        party: LinkedRows(part, groups="ward", correlation=0.5)
        for party, part in {"a": X[:40], "b": X[40:60], "c": X[60:]}.items()
    }
    whole = LinkedRows(X, groups="ward", correlation=0.5)
    found, wanted = Parties(linked, site_effects="none").moments(), whole.moments()
    assert isinstance(found, GaussianStats)
    assert found.mass == pytest.approx(wanted.mass)
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-8)
    np.testing.assert_allclose(found.scatter, wanted.scatter, rtol=1e-8, atol=1e-8)
    close(BOSS().fit(Parties(linked, site_effects="none")), BOSS().fit(whole), 1e-7)


def test_interventions_inside_parties(table: pd.DataFrame) -> None:
    targets = [[]] * 150 + [["a"]] * 150
    whole = Regimes.from_data(table, targets, GaussianStats.from_data)
    rows = np.arange(300)
    parts = {
        f"p{k}": InMemory(table[rows % 3 == k], interventions=[targets[row] for row in rows[rows % 3 == k]])
        for k in range(3)
    }
    close(GES().fit(Parties(parts, site_effects="none")), GES().fit(whole), 1e-7)


def test_a_bootstrap_over_parties_draws_within_each(table: pd.DataFrame) -> None:
    parts = thirds(table)
    found = Bootstrap(BOSS(), n_resamples=3, random_state=5).fit(Parties(parts, site_effects="none"))
    total = np.zeros((6, 6))
    for seed in np.random.SeedSequence(5).spawn(3):
        rng = np.random.default_rng(seed)
        drawn = [part.iloc[rng.integers(0, len(part), len(part))] for part in parts.values()]
        A = BOSS().fit(pd.concat(drawn)).graph_.adjacency
        total += np.where(A & A.T, 0.5, A)
    np.testing.assert_allclose(found.frequencies_.to_numpy(), total / 3)


def test_parties_as_tasks_show_their_own_statistics(table: pd.DataFrame, tmp_path: Path) -> None:
    parts = thirds(table)
    parties = Parties(parts, privacy=Privacy(ledgers=tmp_path / LEDGERS))
    with pytest.warns(DataWarning, match="statistics of every party leave it unmasked"):
        tasks = parties.as_tasks()
    settings = {"criterion": "bge", "max_parents": 2}
    found = MultitaskDiscovery(**settings).fit(tasks)
    wanted = MultitaskDiscovery(**settings).fit(Tasks(parts))
    for first, second in zip(found.posteriors_, wanted.posteriors_, strict=True):
        np.testing.assert_allclose(first.probabilities, second.probabilities, atol=1e-7)
    left = tasks.disclosure_
    assert not left["masked"].any()
    assert set(left["site"]) == set(parts)
    for party in parts:
        entries = ledger.read(tmp_path / LEDGERS / f"{party}.jsonl")
        assert any(entry.kind == ledger.DATA and not entry.masked for entry in entries)


def test_tasks_whose_members_are_parties(table: pd.DataFrame) -> None:
    halves = {"controls": table[:150], "patients": table[150:]}
    settings = {"criterion": "bge", "max_parents": 2}
    parties = {task: Parties(thirds(part), site_effects="none") for task, part in halves.items()}
    found = MultitaskDiscovery(**settings).fit(parties)
    wanted = MultitaskDiscovery(**settings).fit(halves)
    for first, second in zip(found.posteriors_, wanted.posteriors_, strict=True):
        np.testing.assert_allclose(first.probabilities, second.probabilities, atol=1e-7)


def test_what_a_fit_says_of_its_parties(table: pd.DataFrame) -> None:
    model = BOSS().fit(Parties(thirds(table)))
    assert model.disclosure_["masked"].all()
    assert "masked" in model.protection_
    assert BOSS().fit(table).disclosure_.empty


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda t: BOSS().fit(Parties({"a": t[:100], "b": t[100:]})), "at least 3 sites"),
        (lambda t: NotearsMLP().fit(Parties(thirds(t))), "rows stay with their parties"),
        (lambda t: Notears(lambda_="stability").fit(Parties(thirds(t))), "rows stay with their parties"),
        (lambda t: Bootstrap(BOSS()).fit(Parties(thirds(t), privacy=Privacy(epsilon=1.0))), "every resample"),
        (lambda t: Parties(thirds(t), privacy=Privacy(epsilon=1.0)).as_tasks(), "no differential privacy"),
        (lambda t: Parties(thirds(t), privacy="masked"), "must be a polydag.Privacy"),
        (lambda t: Parties(t), "got one DataFrame"),
        (lambda t: BOSS().fit(Parties({**thirds(t), "west": t.assign(a=np.nan)})), "^west: Column a, row 1"),
        (lambda t: LinkedRows(Parties(thirds(t)), groups="a"), "Linked rows go inside parties"),
        (lambda t: Parties({}), "no parties"),
    ],
)
def test_what_cannot_be(make: Any, said: str, table: pd.DataFrame) -> None:
    with pytest.raises((DataError, UsageError), match=said):
        make(table)
