"""Multiple imputation: draws of what is missing, and one result of several completed tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from polydag import BOSS, BayesianDiscovery, Bootstrap, Notears, Parties, simulate
from polydag.cli.main import app
from polydag.confidence import Confidence
from polydag.errors import DataError
from polydag.sources import InMemory
from polydag.stats import GaussianStats
from polydag.stats.gaps.draws import Parameters, drawn_parameters, drawn_rows


def conditional(S: Any, mean: Any, x: Any, known: Any, ask: Any) -> tuple[Any, Any]:
    """The mean and the covariance of some entries given others of a row."""
    B = S[np.ix_(ask, known)] @ np.linalg.inv(S[np.ix_(known, known)]) if len(known) else 0.0
    shift = B @ (x[known] - mean[known]) if len(known) else 0.0
    spread = S[np.ix_(ask, ask)] - (B @ S[np.ix_(known, ask)] if len(known) else 0.0)
    return mean[ask] + shift, spread


def drawn_row(S: Any, mean: Any, x: Any, variable: Any, labels: Any, normal: Any, uniform: Any) -> Any:
    """The NumPy twin of the kernel, for one row."""
    x = x.copy()
    for v in np.unique(variable):
        ask = np.flatnonzero(variable == v)
        if np.isfinite(x[ask[0]]):
            continue
        known = np.flatnonzero(np.isfinite(x))
        expected, spread = conditional(S, mean, x, known, ask)
        if not labels[ask[0]]:
            x[ask] = expected + np.sqrt(spread[0, 0]) * normal[ask[0]]
            continue
        shares = np.maximum([1 - expected.sum(), *expected], 0.0)
        level = np.searchsorted(np.cumsum(shares), uniform[ask[0]] * shares.sum(), side="right")
        x[ask] = np.arange(1, len(ask) + 1) == level
    return x


class Fixed:
    """A generator that gives known numbers."""

    def __init__(self, normal: Any, uniform: Any) -> None:
        self._normal, self._uniform = normal, uniform

    def normal(self, size: Any) -> Any:
        return self._normal

    def random(self, size: Any) -> Any:
        return self._uniform


@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_kernel_draws_variable_by_variable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    variable, labels = np.array([0, 1, 1, 2, 3]), np.array([False, True, True, False, True])
    root = rng.normal(size=(5, 5)) / 3
    S, mean = root @ root.T + 0.2 * np.eye(5), np.array([1.0, 0.3, 0.3, -2.0, 0.5])
    X = rng.normal(size=(12, 5))
    level = rng.integers(0, 3, 12)
    X[:, 1], X[:, 2], X[:, 4] = level == 1, level == 2, rng.integers(0, 2, 12)
    gone = rng.random((12, 4)) < 0.4
    X[gone[:, variable]] = np.nan
    normal, uniform = rng.normal(size=X.shape), rng.random(X.shape)
    found = drawn_rows(
        X,
        Parameters(mean, np.linalg.inv(S)),
        variable,
        labels,
        Fixed(normal, uniform),  # type: ignore[arg-type]
    )
    wanted = [
        drawn_row(S, mean, *own)
        for own in zip(X, [variable] * 12, [labels] * 12, normal, uniform, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, atol=1e-7)


def test_drawn_parameters_spread_as_those_of_so_many_rows_do() -> None:
    S = np.array([[4.0, 1.0], [1.0, 1.0]])
    stats = GaussianStats.from_covariance(S, 200, mean=[10.0, 0.0])
    rng = np.random.default_rng(0)
    draws = [drawn_parameters(stats, rng) for _ in range(2000)]
    means = np.array([own.mean for own in draws])
    covariances = np.array([np.linalg.inv(own.inverse) for own in draws])
    np.testing.assert_allclose(np.cov(means.T) * 200, S, rtol=0.15)
    np.testing.assert_allclose(covariances.mean(axis=0), S, rtol=0.05)
    assert covariances[:, 0, 0].std() / 4 == pytest.approx(np.sqrt(2 / 200), rel=0.1)


def mixed_rows(seed: int = 0, n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ward = rng.choice(["east", "north", "west"], n)
    a = pd.Series(ward).map({"east": 0.0, "north": 2.0, "west": -2.0}) + rng.normal(size=n)
    b = a + rng.normal(size=n)
    grade = np.digitize(b + rng.normal(size=n), [-1, 1])
    return pd.DataFrame({"ward": ward, "a": a, "b": b, "grade": grade, "noise": rng.normal(size=n)})


def test_completed_tables_keep_what_is_known_and_restore_the_moments() -> None:
    X = mixed_rows(n=2000)
    hole = np.random.default_rng(1).random(X.shape) < 0.3
    holes = X.mask(hole)
    tables = [own.rows() for own in InMemory(holes, missing="multiple", random_state=3).completions()]
    assert len(tables) == 20
    shares = []
    for table in tables:
        for name in X:
            there = holes[name].notna().to_numpy()
            assert (table[name].to_numpy()[there] == X[name].to_numpy()[there]).all()
        assert set(table["ward"]) == {"east", "north", "west"}
        assert set(table["grade"]) == {0, 1, 2}
        shares.append(table.groupby("ward", observed=True)["a"].mean())
    np.testing.assert_allclose(np.mean(shares, axis=0), X.groupby("ward")["a"].mean(), atol=0.15)
    assert not tables[0].equals(tables[1])


def test_completions_repeat_with_their_seed_and_complete_tables_need_none() -> None:
    holes = mixed_rows().mask(np.random.default_rng(0).random((400, 5)) < 0.1)
    one, two = (InMemory(holes, missing="multiple", n_imputations=2, random_state=5) for _ in range(2))
    for a, b in zip(one.completions(), two.completions(), strict=True):
        pd.testing.assert_frame_equal(a.rows(), b.rows())
    assert InMemory(mixed_rows(), missing="multiple").completions() == ()
    graph = BOSS().fit(mixed_rows()).graph_
    assert BOSS().fit(InMemory(mixed_rows(), missing="multiple")).graph_ == graph


@pytest.fixture(scope="module")
def gaps() -> InMemory:
    holes = mixed_rows().mask(np.random.default_rng(2).random((400, 5)) < 0.2)
    return InMemory(holes, missing="multiple", n_imputations=4, random_state=0)


def test_learners_pool_what_they_found(gaps: InMemory) -> None:
    model = BOSS().fit(gaps)
    graphs = np.array([own.graph_.adjacency for own in model.completed_])
    found = Confidence.of_graphs(graphs, model.graph_.names, "frequency")
    np.testing.assert_array_equal(model.confidence_.forward, found.forward)
    assert {frozenset(edge[:2]) for edge in model.graph_.edges()} >= {
        frozenset(("ward", "a")), frozenset(("a", "b"))
    }  # fmt: skip
    assert any("of 4 tables" in note for note in model.notes_)
    assert any("of the values are missing" in note for note in model.notes_)
    assert model.kinds_["grade"] == "discrete"


def test_coefficients_are_pooled_by_rubins_rules() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    X = pd.DataFrame({"x": x, "y": 2 * x + rng.normal(size=300)})
    holes = InMemory(X.mask(rng.random(X.shape) < 0.3), missing="multiple", random_state=1)
    model = Notears().fit(holes)
    slopes, errors = [], []
    for table in holes.completions():
        rows = table.rows()
        beta, cov = np.polyfit(rows["x"], rows["y"], 1, cov=True)
        slopes.append(beta[0])
        errors.append(cov[0, 0])
    total = np.mean(errors) + (1 + 1 / 20) * np.var(slopes, ddof=1)
    edge = model.edges_.iloc[0]
    assert (edge["source"], edge["target"]) == ("x", "y")
    assert edge["weight"] == pytest.approx(np.mean(slopes), abs=1e-6)
    assert edge["standard_error"] == pytest.approx(np.sqrt(total), rel=0.01)
    assert total > 1.2 * np.mean(errors)


def test_probabilities_are_means_and_the_share_of_missing_values_is_that_between_tables(
    gaps: InMemory,
) -> None:
    model = BayesianDiscovery(criterion="dg", max_parents=2).fit(gaps)
    each = np.array([own.posterior_.probabilities for own in model.completed_])
    np.testing.assert_allclose(model.posterior_.probabilities, each.mean(axis=0))
    adjacent = each + each.transpose(0, 2, 1)
    p = adjacent.mean(axis=0)[0, 4]
    share = adjacent[:, 0, 4].var() / (p * (1 - p))
    assert model.confidence_.missing_share is not None
    assert model.confidence_.missing_share[0, 4] == pytest.approx(share)
    sets = model.posterior_.parents("b")
    assert sets["probability"].sum() == pytest.approx(1)
    one = model.completed_[0].posterior_.parents("b").set_index("parents")["probability"]
    assert one.sum() == pytest.approx(1)


def test_shares_of_resamples_are_corrected_for_their_number() -> None:
    """Tables that do not differ have no share of missing values, however few resamples there are."""
    rng = np.random.default_rng(0)
    parts, shares = [], []
    for p in [0.5] * 200:
        graphs = np.zeros((5, 2, 2), dtype=bool)
        graphs[:, 0, 1] = rng.random(5) < p
        parts.append(Confidence.of_graphs(graphs, ("a", "b"), "frequency"))
    shares.append(Confidence.pooled(parts).missing_share)
    assert shares[0] is not None
    assert shares[0][0, 1] < 0.06
    sure = [
        Confidence.of_graphs(np.full((5, 2, 2), [[False, there], [False, False]]), ("a", "b"), "frequency")
        for there in (True, False)
    ]
    assert Confidence.pooled(sure).missing_share[0, 1] == pytest.approx(1)  # type: ignore[index]


def test_a_bootstrap_resamples_completed_tables_in_turn(gaps: InMemory) -> None:
    model = Bootstrap(BOSS(), n_resamples=12, random_state=0).fit(gaps)
    assert model.confidence_.n == 12
    assert "missing_share" in model.pairs_
    assert model.pairs_["missing_share"].between(0, 1).all()


def test_parties_complete_their_own_rows_and_sum_under_masks() -> None:
    X = mixed_rows(n=600).drop(columns="grade")
    holes = X.mask(np.random.default_rng(3).random(X.shape) < 0.2)
    parts = {f"party {k}": InMemory(holes[k::3], missing="multiple", n_imputations=3, random_state=0)
             for k in range(3)}  # fmt: skip
    model = BOSS().fit(Parties(parts))
    found = {frozenset(edge[:2]) for edge in model.graph_.edges()}
    assert found == {frozenset(("ward", "a")), frozenset(("a", "b"))}
    assert model.disclosure_["masked"].all()
    assert len(model.completed_) == 3


def test_a_study_draws_missing_values(tmp_path: Path) -> None:
    dag = simulate.dag(5, n_edges=5, random_state=0)
    X = simulate.linear(dag, n=200, random_state=0)
    path = tmp_path / "t.csv"
    X.mask(np.random.default_rng(0).random(X.shape) < 0.2).to_csv(path, index=False)
    words = ["fit", str(path), "--missing", "multiple", "--imputations", "3", "--seed", "1"]
    result = CliRunner().invoke(app, [*words, "-m", "boss", "--bootstrap", "6", "--out", str(tmp_path / "a")])
    assert result.exit_code == 0, result.output
    assert "missing_share" in pd.read_csv(tmp_path / "a" / "pairs.csv")
    again = ["fit", "--config", str(tmp_path / "a" / "config.toml"), "--out", str(tmp_path / "b")]
    assert CliRunner().invoke(app, again).exit_code == 0
    assert (tmp_path / "a" / "pairs.csv").read_bytes() == (tmp_path / "b" / "pairs.csv").read_bytes()
    result = CliRunner().invoke(app, [*words, "-m", "posterior", "--out", str(tmp_path / "c")])
    assert result.exit_code == 0, result.output
    assert "missing_share" in pd.read_csv(tmp_path / "c" / "pairs.csv")
    assert "drawn" in (tmp_path / "c" / "summary.txt").read_text()
    result = CliRunner().invoke(app, [*words, "--as", "tasks"])
    assert result.exit_code == 2


@pytest.mark.parametrize("missing", ["multiple", "em", "testwise"])
@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_incomplete_columns_that_cannot_be_squared_are_refused_by_name(missing: Any, scale: float) -> None:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])
    table["b"] *= scale
    table.loc[::5, "c"] = np.nan
    parts = [InMemory(table[k::3].reset_index(drop=True), missing=missing) for k in range(3)]
    for source in (InMemory(table, missing=missing), Parties(parts)):
        with pytest.raises(DataError, match="column b vary by less than 1e-100"):
            BOSS().fit(source)


def test_labels_that_are_all_missing_are_refused_by_name() -> None:
    table = pd.DataFrame({"a": ["x", "y"] * 20, "b": pd.Series([None] * 40, dtype=object)})
    with pytest.raises(DataError, match="Column b has no values"):
        InMemory(table, kinds={"b": "discrete"}, missing="em").counts()
