"""Probabilities of edges from the command line: files in, tables out, the same again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import joblib
import pandas as pd
import pytest
from typer.testing import CliRunner

from polydag import BayesianDiscovery, runs, simulate
from polydag.cli.main import app
from polydag.embedded import asia
from polydag.errors import UsageError
from polydag.studies import TableConfig
from polydag.studies.cluster import computing_on
from polydag.studies.plan import plan_of


@pytest.fixture
def labels(tmp_path: Path) -> str:
    asia().sample(300, random_state=0).to_csv(tmp_path / "asia.csv", index=False)
    return str(tmp_path / "asia.csv")


@pytest.fixture
def numbers(tmp_path: Path) -> str:
    dag = simulate.dag(5, expected_edges=5, random_state=1)
    simulate.linear(dag, n=200, random_state=2).to_csv(tmp_path / "numbers.csv", index=False)
    return str(tmp_path / "numbers.csv")


def fit(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["fit", "--method", "posterior", *map(str, words)])
    return done.exit_code, done.output


def test_the_tables_are_those_of_the_learner(labels: str, tmp_path: Path) -> None:
    code, said = fit(labels, "--set", "max_parents=2", "--out", tmp_path / "run", "--seed", 1)
    assert code == 0, said
    model = BayesianDiscovery(max_parents=2).fit(pd.read_csv(labels))
    written = pd.read_csv(tmp_path / "run" / "posterior.csv")
    assert len(written) == 8 * 7
    assert written["probability"].is_monotonic_decreasing
    table = written.pivot_table(index="source", columns="target", values="probability", fill_value=0.0)
    names = list(model.posterior_.names)
    pd.testing.assert_frame_equal(
        table.loc[names, names], model.posterior_.edges, check_names=False, rtol=1e-12
    )
    parents = pd.read_csv(tmp_path / "run" / "parents.csv", keep_default_na=False)
    first = model.posterior_.parents("dysp").iloc[0]
    mine = parents[parents["variable"] == "dysp"].iloc[0]
    assert tuple(mine["parents"].split()) == first["parents"]
    assert mine["probability"] == pytest.approx(first["probability"], rel=1e-12)


def test_a_recorded_run_repeats_bit_for_bit_and_names_the_method_chosen(labels: str, tmp_path: Path) -> None:
    fit(labels, "--set", "max_parents=2", "--out", tmp_path / "a")
    config = runs.read_config(tmp_path / "a").config
    assert (config.method, config.settings["method"]) == ("posterior", "exact")
    again = ["fit", "--config", str(tmp_path / "a" / "config.toml"), "--out", str(tmp_path / "b")]
    assert CliRunner().invoke(app, again).exit_code == 0
    for name in ("posterior.csv", "parents.csv", "graph.json", "config.toml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_numbers_get_the_score_for_numbers_or_levels(numbers: str, tmp_path: Path) -> None:
    code, said = fit(numbers, "--out", tmp_path / "a")
    assert code == 0, said
    assert "the score is bge" in " ".join(said.split())
    assert runs.read_config(tmp_path / "a").config.settings["criterion"] == "bge"
    code, said = fit(numbers, "--discretize", "quantile:3", "--out", tmp_path / "b")
    assert code == 0, said
    assert runs.read_config(tmp_path / "b").config.settings["criterion"] == "bdeu"
    code, said = fit(numbers, "--set", "criterion=k2", "--out", tmp_path / "c")
    assert code == 3
    assert "--discretize quantile:4" in " ".join(said.split())


def test_missing_labels_are_dropped_or_filled_in_when_asked(labels: str, tmp_path: Path) -> None:
    frame = pd.read_csv(labels)
    frame.loc[3, "smoke"] = None
    frame.loc[7, "xray"] = None
    holes = str(tmp_path / "holes.csv")
    frame.to_csv(holes, index=False)
    code, said = fit(holes, "--out", tmp_path / "no")
    assert code == 3
    assert "missing values in 2 of 300 rows" in " ".join(said.split())
    for how, n in (("drop", 298), ("impute", 300)):
        result = runs.perform(
            TableConfig(data=(holes,), method="posterior", missing=how, settings={"max_parents": 2}),
            tmp_path / how,
        )
        assert result.n == n
        assert any("2 " in note and ("dropped" in note or "imputed" in note) for note in result.notes)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--set", "method=guess"], 2, "method must be one of auto, exact, weighted, mcmc"),
        (["--bootstrap", "5"], 2, "a posterior has its own"),
        (["--set", "max_parents=2.5"], 2, "whole number"),
        (["--set", "colour=red"], 2, "has no setting colour"),
        (["--set", "seed=3"], 2, "has no setting seed. Use --seed, which is an option"),
        (["--set", "n_steps=0"], 2, "n_steps must be"),
        (["--cluster", "tcp://127.0.0.1:9"], 2, "No dask scheduler answers"),
    ],
)
def test_what_cannot_be_is_refused(
    labels: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, said: str
) -> None:
    monkeypatch.setattr("polydag.studies.cluster._SECONDS", 1)
    got, output = fit(labels, *words, "--out", tmp_path / "x")
    assert got == code
    assert said in " ".join(output.split())
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["n_steps", "chains__n_steps", "n-steps"])
def test_settings_of_chains_have_their_own_names(name: str) -> None:
    config = TableConfig(data=("x.csv",), method="posterior", settings={name: 400})
    chains = plan_of(config).settings["chains"]
    assert (chains["n_steps"], chains["n_chains"]) == (400, 4)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A dask scheduler on loopback with one worker of two threads (joblib hands nothing to one)."""
    from distributed import LocalCluster

    monkeypatch.setenv("DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE", "false")
    local = LocalCluster(
        n_workers=1, threads_per_worker=2, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    try:
        yield local.scheduler_address
    finally:
        local.close()


@pytest.mark.xdist_group("dask")
def test_chains_write_how_well_edges_are_known_wherever_they_run(
    labels: str, cluster: str, tmp_path: Path
) -> None:
    chains = ["--seed", "1"]
    settings = {"method": "mcmc", "max_parents": 2, "n_steps": 400, "chains__burn_in": 200, "n_chains": 2}
    for name, value in settings.items():
        chains += ["--set", f"{name}={value}"]
    code, said = fit(labels, *chains, "--out", tmp_path / "here")
    assert code in (0, 4), said  # so few steps may not mix
    written = pd.read_csv(tmp_path / "here" / "posterior.csv")
    assert {"rhat", "ess"} <= {name.lower().replace("_", "") for name in written.columns}
    parents = pd.read_csv(tmp_path / "here" / "parents.csv", keep_default_na=False)
    assert set(parents["variable"]) == set(written["source"])
    assert parents.groupby("variable")["probability"].sum().between(0.9, 1 + 1e-9).all()
    again, said = fit(labels, *chains, "--cluster", cluster, "--out", tmp_path / "there")
    assert again == code, said
    for table in ("posterior.csv", "parents.csv"):
        assert (tmp_path / "there" / table).read_bytes() == (tmp_path / "here" / table).read_bytes()


@pytest.mark.xdist_group("dask")
def test_work_is_done_by_the_cluster(cluster: str) -> None:
    with computing_on(cluster):
        where = joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(2))
    assert set(where).isdisjoint({os.getpid()})
    with pytest.raises(UsageError, match="No dask scheduler answers"), computing_on("nowhere"):
        pass
