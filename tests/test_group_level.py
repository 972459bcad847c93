"""Columns that have one value for each group: causes at their own level, with as many rows as groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from polydag import BOSS, GES, PC, BayesianDiscovery, GaussianStats, Knowledge, LinkedRows, LinkedRowsDAG
from polydag.errors import DataError
from polydag.rows.families import group_moments
from polydag.scores import make_score
from polydag.stats import ByNode

SCHOOLS, PUPILS = 40, 8
SHARED, OWN = ("budget", "size"), ("talent", "mark")


def pupils(seed: int = 0) -> pd.DataFrame:
    """A budget makes a school large; its size and talent make marks."""
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(SCHOOLS), PUPILS)

    def error() -> np.ndarray:
        return 0.6 * rng.standard_normal(SCHOOLS)[school] + 0.8 * rng.standard_normal(len(school))

    budget = rng.standard_normal(SCHOOLS)
    size = 0.9 * budget + 0.5 * rng.standard_normal(SCHOOLS)
    talent = error()
    mark = 0.9 * size[school] + 0.7 * talent + error()
    columns = {"budget": budget[school], "talent": talent, "size": size[school], "mark": mark}
    return pd.DataFrame({"school": school, **columns})


def test_a_family_of_a_property_of_the_group_is_scored_by_one_row_for_each_group() -> None:
    data = pupils()
    found = LinkedRows(data, groups="school", structure="common").family_moments()
    assert isinstance(found, ByNode)
    score = make_score("bic", found, penalty=1.0)
    schools = data.groupby("school")[list(SHARED)].first()
    direct = make_score("bic", GaussianStats.from_data(schools), penalty=1.0)
    place = {name: i for i, name in enumerate(score.names)}
    for child, parents in (("size", []), ("size", ["budget"]), ("budget", ["size"])):
        own = score.local_score(place[child], [place[name] for name in parents])
        alone = direct.local_score(SHARED.index(child), [SHARED.index(name) for name in parents])
        assert own == pytest.approx(alone)
    # Pupils explain nothing of their school.
    more = score.local_score(place["size"], [place["mark"]]) - score.local_score(place["size"], [])
    assert more == pytest.approx(-0.5 * np.log(SCHOOLS))


@pytest.mark.parametrize("learner", [BOSS(), GES(), PC(), LinkedRowsDAG()])
def test_no_pupil_changes_its_school(learner: Any) -> None:
    model = learner.fit(LinkedRows(pupils(), groups="school"))
    graph = model.graph_
    edges = {(graph.names[i], graph.names[j]) for i, j in np.argwhere(graph.adjacency)}
    assert not {edge for edge in edges if edge[0] in OWN and edge[1] in SHARED}
    assert {("size", "mark"), ("budget", "size"), ("talent", "mark")} <= edges


def test_the_posterior_of_an_edge_into_the_school_is_zero() -> None:
    model = BayesianDiscovery(criterion="bge", max_parents=3).fit(LinkedRows(pupils(), groups="school"))
    probability = model.posterior_.probabilities
    place = {name: i for i, name in enumerate(model.graph_.names)}
    assert probability[place["size"], place["mark"]] > 0.9
    assert max(probability[place[own], place[shared]] for own in OWN for shared in SHARED) == 0.0


def test_standard_errors_are_those_of_schools() -> None:
    """The slope of one property on another: as from a table of schools, not as from all pupils."""
    data = pupils()
    order = Knowledge(required=[("budget", "size")])
    found = BOSS(knowledge=order).fit(LinkedRows(data, groups="school")).edges_
    schools = data.groupby("school")[list(SHARED)].first()
    direct = BOSS(knowledge=order).fit(schools).edges_
    own = found[(found["source"] == "budget") & (found["target"] == "size")].iloc[0]
    assert own["weight"] == pytest.approx(direct["weight"].iloc[0])
    assert own["standard_error"] == pytest.approx(direct["standard_error"].iloc[0])


def test_covariates_are_taken_out_of_properties_of_the_group() -> None:
    data = pupils().assign(age=np.random.default_rng(1).standard_normal(SCHOOLS * PUPILS))
    table = LinkedRows(data, groups="school", covariates=["age"]).table
    found = group_moments(table, np.ones(len(data), dtype=bool)).select(SHARED)
    schools = data.groupby("school")[[*SHARED, "age"]].mean()
    Z = np.stack([np.ones(SCHOOLS), schools["age"]], axis=1)
    values = schools[list(SHARED)].to_numpy()
    left = values - Z @ np.linalg.lstsq(Z, values, rcond=None)[0]
    np.testing.assert_allclose(found.scatter, left.T @ left, atol=1e-9)
    assert found.n == SCHOOLS - 1


def test_what_was_taken_for_a_property_of_the_group_is_noted() -> None:
    rows = LinkedRows(pupils(), groups="school")
    model = BOSS().fit(rows)
    assert any("budget, size is the same in all linked rows" in note for note in model.notes_)
    assert any(f"judged by {SCHOOLS} groups" in note for note in model.notes_)
    with pytest.raises(DataError, match="Both required and forbidden: mark -> size"):
        BOSS(knowledge=Knowledge(required=[("mark", "size")])).fit(rows)
