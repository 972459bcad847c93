"""Coefficients within groups and between them: a second implementation, level, power, and what is said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from polydag import BOSS, Graph, Knowledge, LinkedRows
from polydag.studies.findings.linked_rows import findings

EDGES = Graph.from_edges(["z", "x", "y"], [("z", "y"), ("x", "y")])


def pupils(seed: int, *, contextual: float = 0.0, groups: int = 30, size: int = 10) -> pd.DataFrame:
    """Marks y by talent x (of which schools take more or less) and by the school's budget z."""
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(groups), size)

    def part(share: float) -> np.ndarray:
        shared, own = rng.standard_normal(groups)[school], rng.standard_normal(groups * size)
        return np.asarray(np.sqrt(share) * shared + np.sqrt(1 - share) * own)

    z, x = rng.standard_normal(groups)[school], part(0.3)
    mean = pd.Series(x).groupby(school).transform("mean").to_numpy()
    y = 0.5 * x + 0.3 * z + part(0.4) + contextual * mean
    return pd.DataFrame({"z": z, "x": x, "y": y, "school": school})


def levels(data: pd.DataFrame) -> pd.DataFrame:
    rows = LinkedRows(data, groups="school", structure="common")
    return rows.within_and_between(EDGES).set_index("source")


def test_against_regressions_on_deviations_and_on_means() -> None:
    data = pupils(0)
    means = data.groupby("school").mean()
    own = data[["x", "y"]] - data.groupby("school")[["x", "y"]].transform("mean")
    found = levels(data)
    # Equal groups: within is least squares of the deviations, between that of the means.
    assert found.loc["x", "within"] == pytest.approx((own["x"] @ own["y"]) / (own["x"] @ own["x"]), rel=1e-8)
    design = np.column_stack([np.ones(30), means["z"], means["x"]])
    between = np.linalg.lstsq(design, means["y"], rcond=None)[0]
    np.testing.assert_allclose(found.loc[["z", "x"], "between"], between[1:], rtol=1e-8)
    left = means["y"] - design @ between
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * (left @ left) / 27)
    np.testing.assert_allclose(found.loc[["z", "x"], "between_se"], errors[1:], rtol=0.1)
    row = found.loc["x"]
    spread = np.hypot(row["within_se"], row["between_se"])  # deviations and means are orthogonal
    expected = 2 * t.sf(abs(row["within"] - row["between"]) / spread, 27)
    assert row["p_value"] == pytest.approx(expected, rel=1e-6)
    assert np.isnan(found.loc["z", ["within", "p_value"]].astype(float)).all()


def test_level_power_and_coverage() -> None:
    null = [levels(pupils(seed)).loc["x"] for seed in range(150)]
    assert sum(row["p_value"] < 0.05 for row in null) <= 15
    assert sum(abs(row["within"] - 0.5) < 2 * row["within_se"] for row in null) >= 134
    other = [levels(pupils(seed, contextual=1.0)).loc["x", "p_value"] < 0.05 for seed in range(30)]
    assert sum(other) >= 25


def test_what_cannot_be_told_is_left_out() -> None:
    def found(table: pd.DataFrame, graph: Graph) -> pd.DataFrame:
        return LinkedRows(table, groups="school", structure="common").within_and_between(graph)

    data = pupils(1)
    assert found(data, Graph.from_edges(["z", "x", "y"], [("z", "y")], undirected=[("x", "y")])).empty
    assert found(data, Graph.from_edges(["z", "x", "y"], [("x", "z")])).empty
    assert found(pupils(1, groups=6), EDGES).empty
    balanced = data.assign(x=data["x"] - data.groupby("school")["x"].transform("mean"))
    assert found(balanced, EDGES).empty
    pairs = LinkedRows(data[["x", "y"]], links=[(i, i + 1) for i in range(0, 300, 2)], structure="common")
    assert pairs.within_and_between(Graph.from_edges(["x", "y"], [("x", "y")])).empty


@pytest.mark.parametrize(("seeds", "most"), [(20, 4), pytest.param(200, 20, marks=pytest.mark.slow)])
def test_the_level_in_panels_whose_correlation_decays(seeds: int, most: int) -> None:
    graph = Graph.from_edges(["x", "y"], [("x", "y")])
    block = 0.7 ** np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    root = np.kron(np.eye(25), np.linalg.cholesky(block))
    rejected = 0
    for seed in range(seeds):
        x, error = root @ np.random.default_rng(seed).standard_normal((200, 2)).T[..., None]
        data = pd.DataFrame({"x": x[:, 0], "y": 0.6 * x[:, 0] + error[:, 0]})
        rows = LinkedRows(data, groups=np.arange(200) // 8, structure="decay")
        rejected += rows.within_and_between(graph)["p_value"][0] < 0.05
    assert rejected <= most  # more have a probability of 0.003 and 0.001 at the nominal level


def test_a_difference_is_said() -> None:
    rows = LinkedRows(pupils(2, contextual=2.0), groups="school")
    model = BOSS(knowledge=Knowledge(required=[("x", "y")], tiers=[["z", "x"], ["y"]])).fit(rows)
    found = findings(model, rows)
    assert any("the coefficient of x -> y differs" in note for note in found.notes)
    assert list(found.tables["within_and_between"]["target"].unique()) == ["y"]
    alike = LinkedRows(pupils(2), groups="school")
    assert not any("differs" in note for note in findings(BOSS().fit(alike), alike).notes)
