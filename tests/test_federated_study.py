"""Parties from the command line, the demonstration, charts, and the paper's figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm
from typer.testing import CliRunner

from over_parties import learned
from polydag import (
    BOSS,
    GES,
    Bootstrap,
    Graph,
    Knowledge,
    LinkedRows,
    Notears,
    Parties,
    metrics,
    runs,
    simulate,
)
from polydag.cli import demos
from polydag.cli.main import app
from polydag.computing import checkpoint
from polydag.embedded import asia
from polydag.errors import DataError, NotConvergedError, UsageError
from polydag.plot.line_and_box_charts import Line, Panel, line_charts, nice_step
from polydag.reproduce import federated as paper
from polydag.studies import PartiesConfig, TableConfig, run
from polydag.studies.findings.parties import disclosure


@pytest.fixture(scope="module")
def dag() -> Graph:
    return simulate.dag(6, expected_edges=7, random_state=4)


@pytest.fixture
def files(tmp_path: Path, dag: Graph) -> list[str]:
    paths = []
    for k, name in enumerate(("north", "south", "west")):
        simulate.linear(dag, n=80 + 40 * k, random_state=k).to_csv(tmp_path / f"{name}.csv", index=False)
        paths.append(str(tmp_path / f"{name}.csv"))
    return paths


def test_fit_as_parties_writes_what_left(files: list[str], tmp_path: Path, dag: Graph) -> None:
    out = tmp_path / "run"
    result = CliRunner().invoke(app, ["fit", "--as", "parties", *files, "--out", str(out), "--seed", "1"])
    assert result.exit_code == 0, result.output
    assert "privacy = masked" in result.output
    told = json.loads((out / "disclosure.json").read_text())
    assert told["privacy"] == "masked"
    assert told["bytes"] == sum(entry["bytes"] for entry in told["entries"])
    assert {entry["site"] for entry in told["entries"]} == set(files)
    assert sum(row["times"] for row in told["summary"]) == len(told["entries"])
    pooled = Notears().fit(pd.concat([pd.read_csv(file) for file in files]))
    graph = json.loads((out / "graph.json").read_text())
    assert len(graph["edges"]) == pooled.graph_.n_edges
    again = CliRunner().invoke(
        app, ["fit", "--config", str(out / "config.toml"), "--out", str(tmp_path / "b")]
    )
    assert again.exit_code == 0, again.output
    for name in ("graph.json", "edges.csv", "history.csv", "disclosure.json"):
        assert (out / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("method", ["voting", "fedavg"])
def test_other_methods_and_settings(files: list[str], tmp_path: Path, method: str) -> None:
    settings = {"learner": "ges"} if method == "voting" else {"lambda": 0.05}
    result = runs.perform(
        PartiesConfig(data=tuple(files), method=method, settings=settings, seed=0), tmp_path / "r"
    )
    assert result.graph.n_edges > 0
    assert result.n == 360
    assert (result.probabilities is not None) == (method == "voting")


def test_parties_that_differ_have_weights_of_their_own(files: list[str], tmp_path: Path, dag: Graph) -> None:
    result = runs.perform(PartiesConfig(data=tuple(files), method="varying", seed=0), tmp_path / "r")
    own = json.loads((tmp_path / "r" / "party_weights.json").read_text())
    assert list(own) == files
    assert metrics.shd(true=dag, estimate=result.graph) <= 1
    for edges in own.values():
        found = {(edge["source"], edge["target"]) for edge in edges}
        assert found == {(edge.source, edge.target) for edge in result.graph.edges()}


def test_what_is_wrong_with_a_file_is_told_with_its_name(files: list[str], tmp_path: Path) -> None:
    table = pd.read_csv(files[1])

    def complaint(changed: pd.DataFrame) -> str:
        changed.to_csv(files[1], index=False)
        with pytest.raises(DataError) as error:
            runs.perform(PartiesConfig(data=tuple(files), method="admm", seed=0), tmp_path / "r")
        assert files[1] in str(error.value)
        assert files[0] not in str(error.value)
        return str(error.value)

    assert "lacks x3" in complaint(table.drop(columns="x3"))
    assert "has in addition y" in complaint(table.assign(y=1.0))
    assert "--columns" in complaint(table.drop(columns="x3"))
    assert "x2 holds labels ('low'), not numbers" in complaint(table.assign(x2="low"))
    assert "x2 holds labels ('1,5')" in complaint(table.assign(x2="1,5"))
    too_large = complaint(table.assign(x2=table["x2"] * 1e50))  # for sums under masks, the default
    assert "of column x2 cannot be added under masks" in too_large
    assert "numbers up to 10^42." in too_large
    assert "e+" not in too_large  # the site's own number stays there
    table.head(3).to_csv(files[1], index=False)
    with pytest.raises(DataError, match=r"south\.csv does not take part: It has 3 rows; .* at least 10"):
        runs.perform(PartiesConfig(data=tuple(files), settings={"min_rows": 10}), tmp_path / "r")


def test_columns_in_another_order_are_realigned(files: list[str]) -> None:
    config = PartiesConfig(data=tuple(files), seed=0)
    first = run(config)
    table = pd.read_csv(files[1])
    table[table.columns[::-1]].to_csv(files[1], index=False)
    again = run(config).graph
    assert again.names == first.graph.names
    assert np.array_equal(again.adjacency, first.graph.adjacency)
    assert again.weights == pytest.approx(first.graph.weights, abs=1e-9)


def test_site_effects_are_an_option_and_recorded(files: list[str], tmp_path: Path) -> None:
    for name in files[1:]:
        (pd.read_csv(name) + 3.0).to_csv(name, index=False)
    graphs = {}
    for method in ("boss", "admm"):
        for effects in ("means", "none"):
            config = PartiesConfig(data=tuple(files), method=method, site_effects=effects, seed=0)
            result = runs.perform(config, tmp_path / f"{method} {effects}")
            graphs[method, effects] = result.graph
            assert result.config.site_effects == effects  # type: ignore[attr-defined]
            if (method, effects) != ("admm", "none"):
                assert sum("Means differ between" in note for note in result.notes) == 1
        assert graphs[method, "means"].n_edges < graphs[method, "none"].n_edges
    with pytest.raises(UsageError, match="'means and scales', 'random'; got 'scales'"):
        PartiesConfig(data=tuple(files), site_effects="scales")


def test_another_unit_becomes_a_note(files: list[str], tmp_path: Path) -> None:
    pd.read_csv(files[0]).assign(x1=lambda t: t["x1"] * 1e-4).to_csv(files[0], index=False)
    result = runs.perform(PartiesConfig(data=tuple(files), method="notears", seed=0), tmp_path / "r")
    assert any(files[0] in note and "column x1" in note for note in result.notes)


@pytest.mark.parametrize("method", ["notears", "equal-variance", "ges", "boss", "pc", "posterior"])
def test_a_method_over_parties_is_the_method_over_all_rows(files: list[str], method: str) -> None:
    over_parties = run(PartiesConfig(data=tuple(files), method=method, site_effects="none", seed=0))
    whole = run(TableConfig(data=tuple(files), method=method, seed=0))
    assert np.array_equal(over_parties.graph.adjacency, whole.graph.adjacency)
    np.testing.assert_allclose(over_parties.graph.weights, whole.graph.weights, rtol=1e-6, atol=1e-8)
    disclosed = over_parties.documents["disclosure"]
    assert {entry["round"] for entry in disclosed["entries"]} == {1}
    assert all(entry["masked"] for entry in disclosed["entries"])
    assert any("disclosure.json" in note for note in over_parties.notes)
    assert over_parties.config.settings["privacy"]["mode"] == "masked"
    if method == "posterior":
        np.testing.assert_allclose(over_parties.probabilities, whole.probabilities, atol=1e-8)
        assert over_parties.config.settings["method"] == "exact"


@pytest.mark.parametrize("method", ["ges", "boss", "pc", "posterior"])
def test_labels_of_parties_are_counted_in_batches(method: str, tmp_path: Path) -> None:
    rows = asia().sample(300, random_state=3)[["smoke", "lung", "bronc", "dysp"]]
    paths = []
    for k in range(3):
        own = rows.iloc[k::3].assign(code=[0, 1] * 50)
        if k == 2:
            own = own.assign(
                code=own["code"].map({0: "no", 1: "yes"})
            )  # labels at one party are labels at all
        own.to_csv(tmp_path / f"{k}.csv", index=False)
        paths.append(str(tmp_path / f"{k}.csv"))
    settings = {"max_parents": 2} if method == "posterior" else {}
    found = run(PartiesConfig(data=tuple(paths), method=method, seed=0, settings=settings))
    parts = [pd.read_csv(path).astype(str) for path in paths]
    pd.concat(parts).to_csv(tmp_path / "all.csv", index=False)
    whole = run(TableConfig(data=(str(tmp_path / "all.csv"),), method=method, seed=0, settings=settings,
                            kinds={"code": "discrete"}))  # fmt: skip
    assert np.array_equal(found.graph.adjacency, whole.graph.adjacency)
    if method == "posterior":
        np.testing.assert_allclose(found.probabilities, whole.probabilities, atol=1e-10)


def test_the_rows_of_each_party_may_be_linked(tmp_path: Path) -> None:
    dag = simulate.dag(8, n_edges=8, random_state=0)
    blocks = simulate.clusters("equi", 90, 5, base=0.6)
    paths, sources = [], {}
    for k in range(3):
        own = simulate.linked(dag, row_covariance=blocks, random_state=k)
        own["ward"] = [f"w{row // 5}" for row in range(90)]
        own["id"] = [f"{k}-{row}" for row in range(90)]
        own.to_csv(tmp_path / f"{k}.csv", index=False)
        paths.append(str(tmp_path / f"{k}.csv"))
        sources[paths[k]] = LinkedRows(own.drop(columns="id"), groups="ward", structure="common")
    expected = BOSS().fit(Parties(sources))
    pairs = [
        (f"{k}-{i}", f"{k}-{j}") for k in range(3) for i in range(90) for j in range(i) if i // 5 == j // 5
    ]
    pd.DataFrame(pairs, columns=["u", "v"]).to_csv(tmp_path / "pairs.csv", index=False)
    columns = tuple(f"x{i}" for i in range(8))
    for way in ({"groups": "ward"}, {"links": str(tmp_path / "pairs.csv"), "row_ids": "id"}):
        config = PartiesConfig(data=tuple(paths), method="boss", columns=columns, seed=0,
                               settings={"structure": "common"}, **way)  # type: ignore[arg-type]  # fmt: skip
        result = run(config)
        assert np.array_equal(result.graph.adjacency, expected.graph_.adjacency)
        np.testing.assert_allclose(result.graph.weights, expected.graph_.weights, atol=1e-8)
        assert list(result.tables["row_dependence"]["name"]) == paths
        assert result.measures["effective_n"] < 270
    admm = run(PartiesConfig(data=tuple(paths), method="admm", columns=columns, groups="ward", seed=0,
                             settings={"structure": "common"}))  # fmt: skip
    assert admm.config.method == "admm"
    assert metrics.shd(true=dag, estimate=admm.graph) <= 3


def test_a_bootstrap_over_parties_draws_rows_within_each(files: list[str]) -> None:
    result = run(PartiesConfig(data=tuple(files), method="ges", bootstrap=4, seed=2))
    left = result.documents["disclosure"]["entries"]
    assert {entry["round"] for entry in left} == {1, 2, 3, 4, 5}  # the fit and four resamples
    assert all(entry["masked"] for entry in left)
    expected = Bootstrap(GES(), n_resamples=4, random_state=2).fit(
        Parties({file: pd.read_csv(file) for file in files})
    )
    np.testing.assert_array_equal(result.probabilities, expected.frequencies_.to_numpy())


def test_differential_privacy_is_a_setting_of_the_source(files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    line = ["fit", "--as", "parties", *files, "--method", "notears", "--set", "epsilon=50", "--seed", "1"]
    line += ["--set", "bounds=[-20, 20]", "--set", f'ledgers="{tmp_path / "ledgers"}"', "--out", str(out)]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    assert runs.read_config(out).config.settings["privacy"]["epsilon"] == 50
    assert "[study.settings.privacy]" in (out / "config.toml").read_text()
    assert len(list((tmp_path / "ledgers").glob("*.jsonl"))) == 3


def test_bad_descriptions_of_a_study_are_refused(files: list[str], tmp_path: Path) -> None:
    for change, why in (
        ({"data": (files[0],)}, "at least two"),
        ({"data": (files[0], files[0])}, "named twice"),
    ):
        with pytest.raises(UsageError, match=why):
            PartiesConfig(**change)  # type: ignore[arg-type]
    for change, why in (
        ({"method": "gossip"}, "Known are auto, notears"),
        ({"settings": {"x": 1}}, "no setting x"),
    ):
        with pytest.raises(UsageError, match=why):
            runs.perform(PartiesConfig(data=tuple(files), **change), tmp_path / "r")  # type: ignore[arg-type]


def test_what_was_set_in_rows_is_a_column(tmp_path: Path) -> None:
    names = ["dose", "crp", "pain"]
    truth = Graph.from_edges(names, [("dose", "crp", 1.0), ("crp", "pain", 1.0)])
    cut = Graph.from_edges(names, [("crp", "pain", 1.0)])
    files = []
    for k in range(4):
        watched = simulate.linear(truth, n=120, random_state=k).assign(did="none")
        held = simulate.linear(cut, n=120, noise_scale=np.array([1.0, 3.0, 1.0]), random_state=9 + k)
        table = pd.concat([watched, held.assign(did="crp")]) if k else watched.drop(columns="did")
        table.to_csv(tmp_path / f"s{k}.csv", index=False)
        files.append(str(tmp_path / f"s{k}.csv"))
    out = tmp_path / "run"
    command = ["fit", "--as", "parties", *files, "--interventions", "did", "--out", str(out), "--seed", "1"]
    result = CliRunner().invoke(app, [*command, "--method", "notears"])
    assert result.exit_code == 0, result.output
    edges = {
        (edge["source"], edge["target"]) for edge in json.loads((out / "graph.json").read_text())["edges"]
    }
    assert edges == {("dose", "crp"), ("crp", "pain")}
    assert 'interventions = "did"' in (out / "config.toml").read_text()
    wrong = pd.read_csv(files[1]).assign(did="fever")
    wrong.to_csv(files[1], index=False)
    with pytest.raises(DataError, match=r"s1\.csv: Column did, row 1: 'fever' is not a column.*joined by \+"):
        runs.perform(PartiesConfig(data=tuple(files), interventions="did"), tmp_path / "r")
    for file in files[1:]:
        pd.read_csv(file).drop(columns="did").to_csv(file, index=False)
    with pytest.raises(UsageError, match="No file has a column ate"):
        runs.perform(PartiesConfig(data=tuple(files), interventions="ate"), tmp_path / "r")


def test_an_interrupted_fit_goes_on_to_the_same_graph(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polydag.federated.protocol.storage import resume as resuming

    parts = {file: pd.read_csv(file) for file in files}
    whole = learned(parts)
    calls = 0
    real = resuming.run

    def failing(*args: object, **more: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(resuming, "run", failing)
    with pytest.raises(KeyboardInterrupt), checkpoint.saving(tmp_path / "p", {}):
        learned(parts)
    with checkpoint.saving(tmp_path / "p", {}):
        resumed = learned(parts)
    assert resumed.graph_ == whole.graph_
    assert np.array_equal(resumed.raw_weights_, whole.raw_weights_)
    keys = resumed.disclosure_["name"].str.startswith("join: ")  # they join once more, with fresh keys
    assert keys.sum() == 2 * whole.disclosure_["name"].str.startswith("join: ").sum()
    numbers = [
        each[~each["name"].str.startswith("join: ")] for each in (resumed.disclosure_, whole.disclosure_)
    ]
    pd.testing.assert_frame_equal(*(each.reset_index(drop=True) for each in numbers))
    blocks = -(-whole.n_rounds_ // resuming.BLOCK)
    assert calls == blocks + 1  # two blocks before the interruption were not run again


def test_pieces_of_other_settings_are_not_taken(files: list[str], tmp_path: Path) -> None:
    parts = {file: pd.read_csv(file) for file in files}
    known = Knowledge(forbidden=[("x0", "x1"), ("x1", "x0")])
    changes: list[dict[str, Any]] = [
        {"threshold": 0.9},
        {"knowledge": known},
        {"acyclicity": "expm"},
        {"lambda_": 0.2, "threshold": 0.5},
        {"method": "moments"},
    ]
    with checkpoint.saving(tmp_path / "p", {}):
        learned(parts)
        found = [learned(parts, **change) for change in changes]
    for change, model in zip(changes, found, strict=True):
        fresh = learned(parts, **change)
        assert np.array_equal(model.graph_.adjacency, fresh.graph_.adjacency)
        assert model.raw_weights_ == pytest.approx(fresh.raw_weights_)
    four = {f"{name} {k}": part.iloc[k::2] for name, part in parts.items() for k in range(2)}
    setting: dict[str, Any] = {"method": "voting", "lambda_": "stability", "privacy": "none"}
    with checkpoint.saving(tmp_path / "q", {}):
        learned(four, **setting, random_state=0)
        again = learned(four, **setting, random_state=1, knowledge=known)
    whole = learned(four, **setting, random_state=1, knowledge=known)
    assert again.lambda_used_ == whole.lambda_used_
    pd.testing.assert_frame_equal(again.disclosure_, whole.disclosure_)


def test_the_key_of_pieces_does_not_depend_on_the_process() -> None:
    script = (
        "from polydag import FederatedNotears, GES, Knowledge\n"
        "from polydag.federated.protocol.storage.fingerprint import fingerprint\n"
        "known = Knowledge(forbidden=[('a', 'b'), ('c', 'd'), ('e', 'f'), ('g', 'h')])\n"
        "print(fingerprint(FederatedNotears(learner=GES(knowledge=known), knowledge=known)))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (1, 2)
    }
    assert len(told) == 1


def test_the_sachs_data_is_looked_for_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper, "measured", lambda setting, seed: 1 / 0)
    monkeypatch.setenv("POLYDAG_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"sachs_observational_853\.csv, which does not exist"):
        paper.run([1, 2, 3], 1)
    monkeypatch.delenv("POLYDAG_DATA")
    command = ["reproduce", "federated", "--out", str(tmp_path / "r"), "--quiet"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 3
    assert "set POLYDAG_DATA" in result.output
    told = CliRunner().invoke(app, [*command, "--table", "1"])
    assert told.exit_code == 2
    assert "use --figure 1" in told.output
    assert paper.TRIALS == 30


def test_going_on_is_offered_only_where_it_can_help(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polydag.federated.protocol.storage import resume as resuming

    real = resuming.run
    for error, offered in (
        (DataError("wrong"), False),
        (NotConvergedError("lost"), True),
        (KeyboardInterrupt(), True),
    ):
        calls = iter([None, None, error])

        def failing(*args: object, calls: Iterator[Any] = calls, **more: object) -> object:
            if (now := next(calls)) is not None:
                raise now
            return real(*args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(resuming, "run", failing)
        with pytest.raises(type(error)) as stopped:
            runs.perform(PartiesConfig(data=tuple(files), method="admm", seed=0), tmp_path / "r", force=True)
        assert any("--resume" in note for note in getattr(stopped.value, "__notes__", ())) == offered


def test_the_demo_of_parties(tmp_path: Path) -> None:
    outcome = demos.run("parties", tmp_path / "demo", 1)
    errors = {a.by: metrics.shd(true=outcome.truth, estimate=a.graph) for a in outcome.answers}
    assert errors["boss"] < errors["largest alone"]
    assert (outcome.data / outcome.files).is_file()


def test_a_summary_of_disclosures_adds_up() -> None:
    ledger = pd.DataFrame(
        [
            ("a", 1, "x", "2", 16, False, 0.0),
            ("a", 2, "x", "2", 16, False, 0.0),
            ("b", 1, "x", "2", 16, False, 0.0),
        ],
        columns=["site", "round", "name", "shape", "bytes", "masked", "noise"],
    )
    told = disclosure(ledger, "none")
    assert told["bytes"] == 48
    assert [(row["site"], row["times"], row["bytes"]) for row in told["summary"]] == [
        ("a", 2, 32),
        ("b", 1, 16),
    ]


def test_charts_are_well_formed_and_hold_every_point() -> None:
    lines = [
        Line("a & b", [1.0, 2.0, float("nan")], [0.1, 0.2, 0.0]),
        Line("c", [0.0, 3.0, 1.0], [0.0, 0.5, 0.0]),
    ]
    text = line_charts([Panel("SHD <x>", "parties", (2, 4, 8), lines)] * 2)
    root = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    drawn = [len(line.attrib["points"].split()) for line in root.iter(f"{space}polyline")]
    assert drawn == [2, 3, 2, 3]
    words = [element.text for element in root.iter(f"{space}text")]
    assert words.count("SHD <x>") == 2
    assert "a & b" in words
    heights = [float(y) for line in root.iter(f"{space}polyline") for y in
               (pair.split(",")[1] for pair in line.attrib["points"].split())]  # fmt: skip
    assert min(heights) >= 30
    assert nice_step(0.0) == 0.25
    assert [nice_step(x) for x in (0.011, 1.0, 1.1, 2.2, 26)] == [0.02, 1.0, 2.0, 2.5, 50.0]


def test_figures_are_computed_resumed_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [paper.Setting("d = 4", "parties", k, paper.simulated(4, 40, k), paper.graphs) for k in (2, 5)]
    monkeypatch.setattr(paper, "settings", lambda figure: places)
    with checkpoint.saving(tmp_path / "p", {}):
        found = paper.run([2], seeds=2)
        monkeypatch.setattr(paper, "measured", lambda setting, seed: 1 / 0)
        again = paper.run([2], seeds=2)
    table = found["figure2"]
    pd.testing.assert_frame_equal(table, again["figure2"])
    assert len(table) == 2 * len(paper.LINEAR)
    assert table["tpr"].between(0, 1).all()
    assert (table["shd_se"] >= 0).all()
    assert list(paper.pictures(found)) == ["figure2"]
    ET.fromstring(paper.pictures(found)["figure2"])
    with pytest.raises(UsageError, match="figures are 1, 2, 3, 4, 5"):
        paper.run([6], 1)


def test_figure_4_has_networks() -> None:
    place = paper.Setting("networks", "parties", 2, paper.nonlinear(3, 60, 2), paper.network_graphs)
    found = paper.measured(place, 0)
    assert tuple(found["methods"]) == paper.NONLINEAR
    assert found["measured"].shape == (len(paper.NONLINEAR), len(paper.METRICS))
    assert (found["measured"][:, 0] <= 3).all()


def test_the_papers_places(reference_data: Path) -> None:
    assert [len(paper.settings(figure)) for figure in paper.TABLES] == [4, 6, 6, 4, 12]
    sample = paper.settings(3)[5].draw(0)
    assert sample.truth.n_edges == 17
    assert [len(part) for part in sample.parts] == [8] * 64
    assert sum(len(part) for part in paper.settings(1)[1].draw(0).parts) == 60


def test_algorithm_1_to_the_letter() -> None:
    """Against equations (2) to (7) written out; L-BFGS-like accuracy is not needed to find the same graph."""
    sample = paper.simulated(5, 60, 3)(1)
    found = paper.as_published(sample.parts)
    d, n = 5, 60
    S = [np.cov(part.T, bias=True) * len(part) / n for part in sample.parts]
    W, beta = np.zeros((d, d)), [np.zeros((d, d)) for _ in S]
    rho1 = rho2 = 1e-3
    alpha = 0.0
    for _ in range(140):
        B = [np.linalg.solve(s + rho2 * np.eye(d), rho2 * W - b + s) for s, b in zip(S, beta, strict=True)]
        centre = np.mean([own + b / rho2 for own, b in zip(B, beta, strict=True)], axis=0)
        W, h = _server(W, centre, len(S) * rho2, 0.01, alpha, rho1)
        beta = [b + rho2 * (own - W) for b, own in zip(beta, B, strict=True)]
        alpha, rho1, rho2 = alpha + rho1 * h, min(rho1 * 1.75, 1e16), min(rho2 * 1.25, 1e16)
    assert np.array_equal(found.adjacency, np.abs(W) >= 0.3)
    assert found.weights == pytest.approx(np.where(np.abs(W) >= 0.3, W, 0.0), abs=0.02)


def _server(
    W: np.ndarray, centre: np.ndarray, pull: float, lambda_: float, alpha: float, rho1: float
) -> tuple[np.ndarray, float]:
    """Problem (3) by proximal gradient steps that halve until the objective falls."""

    def smooth(W: np.ndarray) -> tuple[float, np.ndarray]:
        E = expm(W * W)
        h = np.trace(E) - len(W)
        value = alpha * h + rho1 / 2 * h * h + pull / 2 * ((W - centre) ** 2).sum()
        return value, (alpha + rho1 * h) * E.T * 2 * W + pull * (W - centre)

    value, gradient = smooth(W)
    step = 1.0 / pull
    for _ in range(300):
        while True:
            moved = W - step * gradient
            new = np.sign(moved) * np.maximum(np.abs(moved) - step * lambda_, 0.0)
            change = new - W
            reached, slope = smooth(new)
            if reached <= value + (gradient * change).sum() + (change**2).sum() / (2 * step) + 1e-15:
                break
            step /= 2
        W, value, gradient = new, reached, slope
        if np.abs(change).max() < 1e-9:
            break
        step *= 1.5
    return W, float(np.trace(expm(W * W)) - len(W))


def test_a_site_that_is_lost_leaves_blocks_to_go_on_from(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polydag.federated.protocol.storage import resume as resuming

    parts = {Path(file).stem: pd.read_csv(file) for file in files}
    whole = learned(parts)
    real = resuming.run

    def losing(*args: object, **more: object) -> object:
        gone = lambda m: [] if m.round > 30 and m.sender == "south" else [m]  # noqa: E731
        return real(*args, **more, carry=gone)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(resuming, "run", losing)
        with (
            pytest.raises(NotConvergedError, match=r"round 31 .*south"),
            checkpoint.saving(tmp_path / "p", {}),
        ):
            learned(parts)
    assert checkpoint.has_pieces(tmp_path / "p")
    with checkpoint.saving(tmp_path / "p", {}):
        assert learned(parts).graph_ == whole.graph_


def test_a_party_of_one_row_takes_part(tmp_path: Path) -> None:
    rows = simulate.linear(simulate.dag(4, n_edges=4, random_state=0), n=121, random_state=1)
    cuts = [slice(0, 1), slice(1, 61), slice(61, 121)]
    for name, part in zip(("a", "b", "c"), cuts, strict=True):
        rows.iloc[part].to_csv(tmp_path / f"{name}.csv", index=False)
    files = tuple(str(tmp_path / f"{name}.csv") for name in ("a", "b", "c"))
    found = run(PartiesConfig(files, method="notears", site_effects="none", seed=0))
    whole = learned([rows.iloc[part] for part in cuts], method="moments")
    assert found.n == 121
    assert found.graph == whole.graph_
    (tmp_path / "a.csv").write_text("x0,x1,x2,x3\n")
    with pytest.raises(DataError, match=r"a\.csv has column names but no rows\. At least 1 row is needed"):
        run(PartiesConfig(files, method="notears"))
