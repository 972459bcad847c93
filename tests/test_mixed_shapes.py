"""Scores for numbers and labels in shapes of data: what they equal, and what is refused before any sum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from polydag import BOSS, PC, BayesianDiscovery, LinkedRows, MultitaskDiscovery, Parties, Tasks
from polydag.cli.main import app
from polydag.errors import UsageError
from polydag.sources import InMemory


def table(n: int = 360, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ward = rng.choice(["east", "north"], n)
    x = rng.normal(size=n) * np.where(ward == "east", 1, 3)
    y = 0.6 * x + rng.normal(size=n)
    died = np.where(y + rng.logistic(size=n) > 0, "yes", "no")
    return pd.DataFrame({"ward": ward, "x": x, "y": y, "died": died})


def with_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.mask(np.random.default_rng(1).random(frame.shape) < 0.15)


@pytest.mark.parametrize("criterion", ["dg", "cg"])
def test_tasks_of_one_population_are_one_table(criterion: str) -> None:
    X = table()
    groups = Tasks({"a": X[:120], "b": X[["died", "y", "ward", "x"]][120:]})
    pool = MultitaskDiscovery(criterion=criterion, transfer="pool").fit(groups)
    one = BayesianDiscovery(criterion=criterion).fit(X)
    np.testing.assert_allclose(pool.posteriors_[0].probabilities, one.posterior_.probabilities, atol=1e-10)


def test_tasks_alone_are_tables_alone() -> None:
    X = table()
    alone = MultitaskDiscovery(criterion="cg", transfer="none").fit(Tasks({"a": X[:180], "b": X[180:]}))
    for found, rows in zip(alone.posteriors_, (X[:180], X[180:]), strict=True):
        own = BayesianDiscovery(criterion="cg").fit(rows)
        np.testing.assert_allclose(found.probabilities, own.posterior_.probabilities, atol=1e-10)


@pytest.mark.parametrize("missing", ["em", "testwise"])
def test_cells_over_parties_are_refused_before_a_sum(missing: str) -> None:
    X = with_gaps(table())
    parts = {
        name: InMemory(X[k : k + 120], missing=missing) for name, k in (("a", 0), ("b", 120), ("c", 240))
    }
    parties = Parties(parts)
    for model in (BOSS(criterion="cg"), PC(test="cg"), BayesianDiscovery(criterion="cg")):
        with pytest.raises(UsageError, match=r"complete rows.*'dg'"):
            model.fit(parties)
    assert not len(parties.disclosure_)


def test_linked_rows_take_what_a_table_says_of_itself_or_refuse_it() -> None:
    X = table().assign(ward=lambda t: (t["ward"] == "east").astype(int), school=np.repeat(np.arange(72), 5))
    declared = LinkedRows(InMemory(X, kinds={"ward": "discrete"}), groups="school", random_state=0)
    assert declared.kinds["ward"] == "discrete"
    gaps = X.assign(x=X["x"].where(X.index % 7 > 0))
    for missing in ("em", "testwise", "multiple"):
        with pytest.raises(UsageError, match=f"missing='{missing}'.*--missing drop"):
            LinkedRows(InMemory(gaps, missing=missing), groups="school")
    words = X.assign(ward=X["ward"].astype(str))
    with pytest.raises(UsageError, match=r"With interventions.*these are labels: ward, died"):
        LinkedRows(InMemory(words, interventions=["none"] * len(X)), groups="school")


def test_tasks_with_missing_values_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    with_gaps(table(120)).drop(columns="ward").assign(site=["a", "b"] * 60).to_csv(path, index=False)
    arguments = ["--as", "tasks", "--task-column", "site", "--missing", "em", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["fit", str(path), *arguments, "--quiet", "--seed", "1"])
    assert done.exit_code == 0, done.output
    assert "Do the tasks differ at all?" in done.output
