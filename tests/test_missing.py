"""Missing values: codes, dropping, test-wise moments, expected moments, and parties that lack columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from typer.testing import CliRunner

from polydag import BOSS, GES, PC, Parties, Privacy, data, simulate
from polydag.cli.main import app
from polydag.errors import DataError, UsageError
from polydag.sources import InMemory
from polydag.stats import GaussianStats
from polydag.stats.gaps._incomplete_kernels import fill_expected
from polydag.stats.gaps.incomplete import (
    expected,
    incomplete_moments,
    inverse_covariance,
    positive_definite,
)

Array = NDArray[np.float64]


def rows_with_gaps(seed: int, n: int = 60, d: int = 4, share: float = 0.3) -> Array:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 5 * rng.normal(size=d)
    X[rng.random(X.shape) < share] = np.nan
    return X


def moments(X: Array, how: Any, **settings_: Any) -> GaussianStats:
    names = tuple(f"x{j}" for j in range(X.shape[1]))
    return incomplete_moments(lambda change: change(X), names, how, **settings_).stats


@given(seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_kernel_fills_in_conditional_expectations(seed: int) -> None:
    X = rows_with_gaps(seed, n=8)
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 4))
    S, mean = root @ root.T + np.eye(4), rng.normal(size=4)
    R, extra = X - mean, np.zeros((4, 4))
    fill_expected(R, np.isnan(X), np.linalg.inv(S), extra)
    expected, total = np.array(X), np.zeros((4, 4))
    for row in expected:
        gone = np.isnan(row)
        if not gone.any():
            continue
        known = ~gone
        B = (
            S[np.ix_(gone, known)] @ np.linalg.pinv(S[np.ix_(known, known)])
            if known.any()
            else np.zeros((4, 0))
        )
        row[gone] = mean[gone] + B @ (row[known] - mean[known])
        total[np.ix_(gone, gone)] += S[np.ix_(gone, gone)] - B @ S[np.ix_(known, gone)]
    np.testing.assert_allclose(R + mean, expected, atol=1e-8)
    np.testing.assert_allclose(extra, total, atol=1e-8)


def test_em_finds_the_maximum_likelihood_where_it_is_known() -> None:
    """One column with gaps, the other without: regress on what is there (Anderson 1957)."""
    rng = np.random.default_rng(3)
    x = 100 + rng.normal(size=300)
    y = 2 * x + rng.normal(size=300)
    y[x > 100.5] = np.nan  # missing at random: the mean of what is there is biased
    found = moments(np.c_[x, y], "em", tolerance=1e-9, max_steps=2000)
    there = np.isfinite(y)
    slope, level = np.polyfit(x[there], y[there], 1)
    residual = (y - level - slope * x)[there].var()
    mean = [x.mean(), level + slope * x.mean()]
    variance = x.var()
    cov = [[variance, slope * variance], [slope * variance, residual + slope**2 * variance]]
    np.testing.assert_allclose(found.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(found.covariance, cov, rtol=1e-4)
    assert found.mean[1] - np.nanmean(y) > 0.5


@given(seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_test_wise_covariances_are_those_of_the_rows_that_have_both(seed: int) -> None:
    X = rows_with_gaps(seed)
    found = moments(X, "testwise")
    sd = np.nanstd(X, axis=0)
    wanted = np.eye(4)
    for i in range(4):
        for j in range(i):
            both = X[np.isfinite(X[:, [i, j]]).all(axis=1)]
            r = np.cov(both[:, i], both[:, j], bias=True)[0, 1] / (sd[i] * sd[j])
            wanted[i, j] = wanted[j, i] = np.clip(r, -1, 1)
    np.testing.assert_allclose(found.correlation, positive_definite(wanted), atol=1e-8)
    np.testing.assert_allclose(found.mean, np.nanmean(X, axis=0), rtol=1e-9)
    assert np.linalg.eigvalsh(found.correlation)[0] > 0
    assert 0 < found.n < 60


@pytest.mark.parametrize("how", ["testwise", "em"])
def test_complete_rows_have_their_own_moments(how: str) -> None:
    X = rows_with_gaps(0, share=0)
    found, wanted = moments(X, how), GaussianStats.from_data(X)
    np.testing.assert_allclose(found.covariance, wanted.covariance, rtol=1e-8)
    assert found.n == pytest.approx(wanted.n)


@pytest.fixture(scope="module")
def linear() -> tuple[Any, pd.DataFrame]:
    dag = simulate.dag(8, n_edges=8, random_state=5)
    weights = np.where(dag.adjacency, 0.5, 0.0)
    X = np.random.default_rng(6).normal(size=(2000, 8)) @ np.linalg.inv(np.eye(8) - weights)
    return dag, pd.DataFrame(X, columns=list(dag.names))


@pytest.mark.parametrize("how", ["testwise", "em"])
def test_learners_take_rows_with_gaps(how: str, linear: tuple[Any, pd.DataFrame]) -> None:
    dag, X = linear
    rng = np.random.default_rng(1)
    holes = X.mask(rng.random(X.shape) < 0.15)
    assert holes.dropna().shape[0] < 700
    for learner in (BOSS(), GES(), PC()):
        model = learner.fit(InMemory(holes, missing=how))
        errors = (model.graph_.adjacency | model.graph_.adjacency.T) ^ (dag.adjacency | dag.adjacency.T)
        assert errors.sum() / 2 <= 3
        assert any("15% of the values are missing" in note for note in model.notes_)


def test_labels_with_gaps_can_be_scored_by_moments(linear: tuple[Any, pd.DataFrame]) -> None:
    _, X = linear
    labels = X.apply(lambda x: pd.qcut(x, 3, labels=["low", "mid", "high"]).astype(object))
    holes = InMemory(labels.mask(np.random.default_rng(0).random(X.shape) < 0.1), missing="em")
    assert BOSS(criterion="dg").fit(holes).graph_.n_edges > 3


@pytest.mark.parametrize("how", ["testwise", "em"])
def test_parties_with_gaps_give_the_answer_of_their_centred_rows(how: str) -> None:
    X = pd.DataFrame(rows_with_gaps(4, n=150), columns=list("abcd"))
    parts = {f"party {k}": X.iloc[k::3] for k in range(3)}
    source = Parties({name: InMemory(own, missing=how) for name, own in parts.items()})
    found = source.moments()
    centred = pd.concat([own - own.mean() for own in parts.values()])
    wanted = moments(centred.to_numpy(), how, tolerance=1e-3)
    assert isinstance(found, GaussianStats)
    np.testing.assert_allclose(found.covariance, wanted.covariance, rtol=1e-6)
    shown = source.disclosure_
    assert shown["masked"].all()


def test_parties_with_overlapping_columns_get_one_graph_and_hear_what_is_unknown() -> None:
    dag = simulate.dag(4, n_edges=3, random_state=0)
    X = simulate.linear(dag, n=900, random_state=1)
    first, *_, last = X.columns
    parts = {"a": X.iloc[:300].drop(columns=first), "b": X.iloc[300:600].drop(columns=last),
             "c": X.iloc[600:].drop(columns=last)}  # fmt: skip
    sources = {name: InMemory(own, missing="em") for name, own in parts.items()}
    model = BOSS().fit(Parties(sources))
    assert set(model.graph_.names) == set(X.columns)
    told = " ".join(model.notes_)
    assert f"a has no values of {first}" in told
    assert f"({last} – {first})" in told
    assert "is unknown" in told
    with pytest.raises(DataError, match="lacks"):
        BOSS().fit(Parties(parts, privacy=Privacy(mode="none")))


def test_codes_are_marked_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"chol": [0, 200, 0, 230, 210, 1], "age": [50, 61, 999, 43, 55, 60],
                  "smoker": ["no", "?", "yes", "no", "yes", "no"]}).to_csv(path, index=False)  # fmt: skip
    table = data.read(path, na=["chol=0", "999", "smoker=?"], missing="keep")
    assert table.frame.isna().sum().to_dict() == {"chol": 2, "age": 1, "smoker": 1}
    assert table.notes == ("Codes taken as missing values: chol 2, age 1, smoker 1.",)
    with pytest.raises(DataError, match="no column weight"):
        data.read(path, na=["weight=0"])
    with pytest.raises(UsageError, match="COLUMN=VALUE"):
        data.read(path, na=["chol="])


def test_dropping_most_rows_is_refused_with_the_columns_that_cost_most() -> None:
    frame = pd.DataFrame({"a": np.arange(40) / 3, "b": np.arange(40) / 7, "c": np.arange(40) / 9})
    holes = frame.assign(a=frame["a"].where(frame.index > 37))
    with pytest.raises(DataError, match=r"only 2 of 40 rows .*missing='em'.*without a 40 rows"):
        InMemory(holes, missing="drop")
    assert data.from_frame(frame.assign(a=frame["a"].where(frame.index > 9)), missing="drop").n == 30


def test_columns_are_transformed_and_the_run_repeats(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    frame = pd.DataFrame({"x": np.exp(x), "y": x + rng.normal(size=200), "z": x**3})
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    table = data.read(path, transforms={"x": "log", "z": "rank", "y": "none"})
    np.testing.assert_allclose(table.frame["x"], x, atol=1e-9)
    assert np.corrcoef(table.frame["z"], x)[0, 1] > 0.98
    assert table.frame["z"].std() == pytest.approx(1, abs=0.05)
    with pytest.raises(DataError, match="no logarithm"):
        data.read(path, transforms={"z": "log"})
    changes = ["--transform", "x=log", "--transform", "z=rank", "--missing", "em"]
    words = ["fit", str(path), "-m", "boss", *changes, "--out", str(tmp_path / "a")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    again = ["fit", "--config", str(tmp_path / "a" / "config.toml"), "--out", str(tmp_path / "b")]
    assert CliRunner().invoke(app, again).exit_code == 0
    assert (tmp_path / "a" / "graph.json").read_bytes() == (tmp_path / "b" / "graph.json").read_bytes()


@pytest.mark.parametrize("words", [["-m", "notears-mlp"], ["-m", "boss", "--interventions", "x"]])
def test_gaps_are_refused_before_reading_where_rows_must_be_complete(
    words: list[str], tmp_path: Path
) -> None:
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "none.csv"), "--missing", "em", *words])
    assert result.exit_code == 2
    assert "--missing em cannot be combined with" in " ".join(result.output.split())


def test_a_hospital_study_with_codes_and_gaps_from_start_to_end(reference_data: Path, tmp_path: Path) -> None:
    files = [str(reference_data / "heart" / f"heart_{name}.csv") for name in
             ("cleveland", "hungarian", "switzerland", "va")]  # fmt: skip
    columns = "age,sex,cp,trestbps,chol,thalach,exang,oldpeak,num"
    tiers = tmp_path / "tiers.toml"
    tiers.write_text(
        'tiers = [["age", "sex"], ["cp", "trestbps", "chol", "thalach", "exang", "oldpeak", "num"]]\n'
    )
    words = ["fit", "--as", "parties", *files, "--columns", columns, "--na", "chol=0", "--na", "trestbps=0",
             "--missing", "em", "-m", "boss", "--knowledge", str(tiers),
             "--out", str(tmp_path / "run")]  # fmt: skip
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    edges = pd.read_csv(tmp_path / "run" / "edges.csv")
    assert not edges["target"].isin(["age", "sex"]).any()
    assert "chol 123" in (tmp_path / "run" / "summary.txt").read_text()


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_longer_steps_lead_em_to_the_same_end_in_fewer_passes(share: float) -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6))
    rows[rng.random(rows.shape) < share] = np.nan
    names = tuple("abcdef")
    rows = rows - np.nanmean(rows, axis=0)
    scale = np.nanstd(rows, axis=0)
    mean, covariance, passes = np.zeros(6), np.diag(scale**2), 0
    tight, enough = None, 0
    while tight is None:  # the textbook's iteration
        found = expected(rows, mean, inverse_covariance(covariance, 400))
        passes += 1
        change = np.abs((found.covariance - covariance) / np.outer(scale, scale)).max()
        enough = enough or (passes if change < 1e-4 else 0)
        tight = found if change < 1e-10 else None
        mean, covariance = found.mean, found.covariance
    fast = incomplete_moments(lambda change: change(rows), names, "em", tolerance=1e-4)
    assert fast.settled
    assert fast.steps - 2 < 0.8 * enough
    np.testing.assert_allclose(fast.stats.correlation, tight.correlation, atol=3e-3)


@pytest.mark.parametrize("missing", ["em", "testwise"])
def test_pairs_that_no_row_holds_are_no_edges(missing: str) -> None:
    rng = np.random.default_rng(0)
    parts = {}
    for party, columns in (("one", "abc"), ("two", "bcd"), ("three", "abc")):
        rows = np.cumsum(rng.normal(size=(200, 4)), axis=1)
        parts[party] = InMemory(pd.DataFrame(rows, columns=list("abcd"))[list(columns)], missing=missing)
    model = BOSS().fit(Parties(parts))
    assert {frozenset((edge.source, edge.target)) for edge in model.graph_.edges()} == {
        frozenset("ab"), frozenset("bc"), frozenset("cd")
    }  # fmt: skip
    assert any("a \u2013 d" in note and "unknown" in note for note in model.notes_)
    assert model.unknown_pairs_ == (("a", "d"),)


def test_unknown_pairs_are_a_table_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    X = simulate.linear(simulate.dag(4, n_edges=3, random_state=0), n=900, random_state=1)
    first, *_, last = X.columns
    for k, lost in enumerate((first, last, last)):
        X.iloc[300 * k : 300 * (k + 1)].drop(columns=lost).to_csv(f"{k}.csv", index=False)
    words = [
        "fit",
        "--as",
        "parties",
        "0.csv",
        "1.csv",
        "2.csv",
        "--method",
        "boss",
        "--missing",
        "em",
        "--seed",
        "1",
    ]
    done = CliRunner().invoke(app, [*words, "--out", "run"])
    assert done.exit_code == 0, done.stderr
    unknown = pd.read_csv("run/unknown_pairs.csv")
    assert [set(row) for row in unknown.to_numpy().tolist()] == [{first, last}]
