"""Columns of parties that are changed in a common way: ranks, and levels at common points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from polydag import BOSS, Parties, Privacy
from polydag.cli.main import app
from polydag.data.discretize import discretize
from polydag.data.transform import transformed
from polydag.errors import DataError, UsageError
from polydag.sources import InMemory


def skewed(seed: int, n: int = 600) -> pd.DataFrame:
    """Columns with heavy tails, in very different units; b follows from a, c from b, and d is a count."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    b = a + rng.normal(size=n)
    c = b + rng.normal(size=n)
    return pd.DataFrame(
        {"a": 1e6 * np.exp(2 * a), "b": 1e-4 * b**3, "c": c - 250_000, "d": rng.poisson(30, n).astype(float)}
    )


def parties_of(X: pd.DataFrame) -> Parties:
    return Parties({f"party {k}": X[k::3] for k in range(3)})


@given(seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_ranks_over_parties_are_those_of_all_rows(seed: int) -> None:
    X = skewed(seed)
    parties = parties_of(X).with_normal_scores(["a", "b", "c", "d"])
    found = pd.concat([own.rows() for own in parties.parties.values()]).loc[X.index]
    wanted = transformed(X, dict.fromkeys(X, "rank"), "X")
    for name in X:
        assert np.corrcoef(found[name], wanted[name])[0, 1] > 0.995
        assert (np.abs(found[name] - wanted[name]) < 0.1).mean() > 0.97
        order = X[name].sort_values().index
        assert (np.diff(found[name][order]) >= 0).all()
    close = np.isclose(found["d"], wanted["d"], atol=1e-9)
    assert close.mean() > 0.98  # values have a cell of their own, but for a few rare ones
    assert parties.disclosure_["masked"].all()
    assert parties.disclosure_["round"].nunique() >= 2


def test_missing_values_stay_missing_and_are_not_counted() -> None:
    X = skewed(0)
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.2)
    sources = {f"party {k}": InMemory(holes[k::3], missing="em") for k in range(3)}
    parties = Parties(sources).with_normal_scores(["a", "b", "c"])
    found = pd.concat([own.rows() for own in parties.parties.values()]).loc[X.index]
    assert (found.isna() == holes.isna()).all(axis=None)
    assert found["a"].mean() == pytest.approx(0, abs=0.02)
    assert BOSS().fit(parties).graph_.n_edges == 2


@pytest.mark.parametrize("how", ["quantile:4", "interval:3"])
def test_levels_over_parties_are_those_of_all_rows(how: str) -> None:
    X = skewed(1)[["b", "c"]]
    parties = parties_of(X).discretized(how)
    found = pd.concat([own.rows().astype(str) for own in parties.parties.values()]).loc[X.index]
    wanted = discretize(X, how)
    for name in X:
        same = pd.Series(found[name]).map({level: k for k, level in enumerate(_in_order(found[name]))})
        assert (same.to_numpy() == wanted[name].cat.codes.to_numpy()).mean() > 0.9
    assert parties.contents == "labels"
    assert BOSS().fit(parties).graph_.n_edges == 1


def _in_order(labels: pd.Series) -> list[str]:  # type: ignore[type-arg]
    return sorted(set(labels), key=lambda text: float(text[1:].split(",")[0]))


def test_what_has_no_common_ranks() -> None:
    X = skewed(2)
    with pytest.raises(DataError, match="no column e"):
        parties_of(X).with_normal_scores(["e"])
    with pytest.raises(UsageError, match="holds labels"):
        parties_of(X.assign(d="x")).with_normal_scores(["d"])
    with pytest.raises(UsageError, match="no differential privacy"):
        Parties({k: X[k::3] for k in range(3)}, privacy=Privacy(epsilon=1.0)).with_normal_scores(["a"])


def test_studies_rank_and_cut_over_parties(tmp_path: Path) -> None:
    X = skewed(3)
    for k in range(3):
        X[k::3].to_csv(tmp_path / f"{k}.csv", index=False)
    words = ["fit", "--as", "parties", *(str(tmp_path / f"{k}.csv") for k in range(3)), "-m", "boss"]
    ranks = ["--transform", "a=rank", "--transform", "b=rank"]
    for name, more in {"ranks": ranks, "levels": ["--discretize", "quantile:3"]}.items():
        result = CliRunner().invoke(app, [*words, *more, "--seed", "1", "--out", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
        edges = pd.read_csv(tmp_path / name / "edges.csv")
        assert {frozenset(pair) for pair in edges[["source", "target"]].to_numpy()} == {
            frozenset("ab"), frozenset("bc")
        }  # fmt: skip
        again = ["fit", "--config", str(tmp_path / name / "config.toml"), "--out", str(tmp_path / f"{name}2")]
        assert CliRunner().invoke(app, again).exit_code == 0


@pytest.mark.parametrize("method", ["auto", "boss", "ges", "pc", "posterior"])
def test_numbers_are_cut_for_every_method_that_takes_labels(method: str, tmp_path: Path) -> None:
    X = skewed(4)
    X.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "-m", method, "--discretize", "quantile:3", "--seed", "1"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "labels: a, b, c, d" in (tmp_path / "run" / "summary.txt").read_text().lower()
