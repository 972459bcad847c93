"""Labels with missing values: draws from a network, expected counts, and tables of available rows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from polydag import BOSS, GES, PC, BayesianDiscovery, Parties, Privacy
from polydag.embedded import asia
from polydag.errors import UsageError
from polydag.sources import InMemory
from polydag.stats.gaps import label_draws
from polydag.stats.gaps.available import AvailableTables
from polydag.stats.gaps.label_draws import drawn_labels, families_of, network

ARITIES = np.array([2, 3, 2, 2])


@pytest.fixture(scope="module")
def model() -> Any:
    rng = np.random.default_rng(0)
    dag = np.zeros((4, 4), dtype=bool)
    dag[0, 1] = dag[0, 2] = dag[1, 3] = dag[2, 3] = True
    families = families_of(dag)
    assert families == [(0,), (0, 1), (0, 2), (1, 2, 3)]
    return network(families, [20 * rng.gamma(1, size=[ARITIES[v] for v in own]) for own in families])


def conditional(model: Any, row: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The probability of each completion of a row, by enumeration."""
    found = {}
    for full in product(
        *(range(arity) if code < 0 else [code] for code, arity in zip(row, ARITIES, strict=True))
    ):
        logs = [table[tuple(full[v] for v in own if v >= 0)]
                for own, table in zip(model.families, model.tables, strict=True)]  # fmt: skip
        found[full] = float(np.exp(np.sum(logs)))
    total = sum(found.values())
    return {full: own / total for full, own in found.items()}


@pytest.mark.parametrize("most", [256, 3])  # one block; several blocks in turn
@pytest.mark.parametrize("row", [(-1, -1, 1, 0), (-1, 2, -1, -1), (0, -1, -1, 1)])
def test_labels_are_drawn_by_their_probability_given_the_row(
    row: tuple[int, ...], most: int, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_draws, "MOST", most)
    codes = np.repeat([row], 1000, axis=0)
    drawn = drawn_labels(codes, ARITIES, model, 20, np.random.default_rng(1)).reshape(-1, 4)
    for full, probability in conditional(model, row).items():
        assert (drawn == full).all(axis=1).mean() == pytest.approx(probability, abs=0.02)


def rows_of_asia(seed: int, n: int, share: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    X = asia().sample(n, random_state=seed)
    return X, X.mask(np.random.default_rng(seed).random(X.shape) < share)


def test_counts_of_complete_rows_are_their_own() -> None:
    X, _ = rows_of_asia(0, 300, 0.0)
    found, wanted = InMemory(X, missing="em").counts(), InMemory(X).counts()
    np.testing.assert_array_equal(found.table(["lung", "smoke"]), wanted.table(["lung", "smoke"]))


def test_expected_counts_keep_the_rows_and_correct_what_is_missing_at_random() -> None:
    """y is missing mostly where x is 1: its share in what is there is biased, the expected one is not."""
    rng = np.random.default_rng(0)
    x = rng.random(4000) < 0.5
    y = rng.random(4000) < np.where(x, 0.9, 0.1)
    gone = rng.random(4000) < np.where(x, 0.7, 0.05)
    frame = pd.DataFrame({"x": x.astype(int), "y": np.where(gone, np.nan, y)})
    counts = InMemory(frame, kinds={"y": "discrete"}, missing="em").counts()
    assert counts.n == pytest.approx(4000)
    np.testing.assert_allclose(counts.table(["x"]), [(~x).sum(), x.sum()])
    assert counts.table(["y"])[1] / 4000 == pytest.approx(0.5, abs=0.03)
    assert y[~gone].mean() < 0.35


def test_first_tables_are_those_of_the_rows_that_have_all_columns() -> None:
    _, holes = rows_of_asia(1, 500, 0.2)
    source = InMemory(holes, missing="em")
    rows = source.label_rows(source.levels(source.names), source.names)
    found = AvailableTables(rows.with_missing(), 300)
    names = ["smoke", "lung", "bronc"]
    own = holes[names].dropna()
    wanted = pd.crosstab(own["smoke"], [own["lung"], own["bronc"]]).to_numpy().reshape(2, 2, 2)
    (table,) = found.tables([tuple(found.names.index(name) for name in names)])
    np.testing.assert_allclose(table, wanted * 300 / len(own))
    with pytest.raises(UsageError, match="cannot be compared"):
        BOSS(criterion="bdeu").fit(InMemory(holes, missing="testwise"))


def test_learners_of_labels_take_rows_with_gaps() -> None:
    X, holes = rows_of_asia(2, 2000, 0.1)
    source = InMemory(holes, missing="em")
    assert source.contents == "labels"
    wanted = BOSS().fit(X).graph_
    skeleton = wanted.adjacency | wanted.adjacency.T
    for learner in (BOSS(), GES(), PC(), BayesianDiscovery(max_parents=2)):
        model = learner.fit(source)
        found = model.graph_.adjacency | model.graph_.adjacency.T
        assert (found ^ skeleton).sum() / 2 <= 3
        assert any("10% of the values are missing" in note for note in model.notes_)
        assert any("structural EM" in note for note in model.notes_)


def test_parties_draw_their_own_labels_and_sum_under_masks() -> None:
    _, holes = rows_of_asia(3, 900, 0.15)
    columns = ["smoke", "lung", "bronc", "dysp"]
    whole = InMemory(holes[columns], missing="em")
    parts = {f"party {k}": InMemory(holes[columns][k::3], missing="em") for k in range(3)}
    source = Parties(parts)
    model = BOSS().fit(source)
    assert model.graph_ == BOSS().fit(whole).graph_
    assert model.disclosure_["masked"].all()
    assert any("structural EM" in note for note in model.notes_)
    sets = [(0, 1), (2, 3)]
    for found, wanted in zip(source.counts().tables(sets), whole.counts().tables(sets), strict=True):
        np.testing.assert_allclose(found, wanted, atol=15)


def test_parties_that_lack_a_column_of_labels_take_it_from_the_others() -> None:
    X, _ = rows_of_asia(4, 1200, 0.0)
    columns = ["smoke", "lung", "bronc", "dysp"]
    parts = {"a": X[columns][:600], "b": X[columns][600:900], "c": X[columns][900:].drop(columns="smoke")}
    sources = {name: InMemory(own, missing="em") for name, own in parts.items()}
    model = BOSS().fit(Parties(sources, privacy=Privacy(mode="none")))
    assert set(model.graph_.names) == set(columns)
    assert any(edge[:2] in {("bronc", "dysp"), ("dysp", "bronc")} for edge in model.graph_.edges())
