"""Studies: configurations that survive TOML, settings, methods, and what a study does with its data."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag import (
    BOSS,
    GES,
    BayesianDiscovery,
    Graph,
    MultitaskDiscovery,
    Notears,
    Tasks,
    simulate,
    studies,
)
from polydag.cli import demos
from polydag.data.method_choice import choose
from polydag.embedded import asia
from polydag.errors import DataError, UsageError
from polydag.learners import LEARNERS, ROW_LEARNERS
from polydag.posterior.probabilities import Posterior
from polydag.sources import InMemory
from polydag.studies import Config, PartiesConfig, TableConfig, TasksConfig, load, run
from polydag.studies.config.changes import changed_study
from polydag.studies.config.fields import KnownSettings, flattened, overlaid, parse_settings, recorded
from polydag.studies.config.file import from_table, to_table
from polydag.studies.config.shapes import option, options
from polydag.studies.data.addresses import public
from polydag.studies.data.inputs import require_same
from polydag.studies.findings.posterior import listed, undirected
from polydag.studies.methods import METHODS
from polydag.studies.plan import plan_of

texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=12)
values = st.one_of(st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), texts)
configs = st.builds(
    TableConfig,
    data=st.lists(texts, min_size=1, max_size=3).map(tuple),
    method=texts,
    query=st.none() | texts,
    columns=st.none() | st.lists(texts, max_size=3).map(tuple),
    kinds=st.dictionaries(texts, st.sampled_from(["continuous", "discrete"]), max_size=2),
    missing=st.sampled_from(["error", "drop", "impute"]),
    settings=st.dictionaries(texts, values | st.lists(values, max_size=3), max_size=3),
    knowledge=st.none() | texts,
    seed=st.none() | st.integers(0, 2**62),
    jobs=st.integers(1, 64),
)


@given(configs)
@settings(max_examples=80, deadline=None)
def test_a_configuration_survives_toml(config: Config) -> None:
    table = tomllib.loads(tomli_w.dumps(to_table(config)))
    assert from_table(table, "here") == config


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "data"),
        ({"data": []}, "data"),
        ({"data": "x.csv"}, "list of texts"),
        (
            {"data": ["x"], "sed": 1},
            "here: sed is not a key of a study of shape table. Known are shape, data",
        ),
        ({"data": ["x"], "seed": "1"}, "seed is a whole number"),
        ({"data": ["x"], "seed": True}, "seed is a whole number"),
        ({"data": ["x"], "seed": -1}, "seed"),
        ({"data": ["x"], "jobs": 0}, "jobs"),
        ({"data": ["x"], "missing": "guess"}, "missing"),
        ({"data": ["x"], "settings": 3}, "table of names"),
        ({"data": ["x"], "shape": "round"}, "here: .*'round'. Known are table, parties, tasks.* --groups"),
        ({"data": ["x"], "shape": "pooled"}, "here: .*'pooled'.* --method posterior"),
        ({"data": ["x"], "shape": ["table"]}, "shape is a text; got \\['table'\\]"),
        ({"data": ["x"], "shape": "table", "task_column": "y"}, "here: task_column is not a key"),
    ],
)
def test_a_wrong_configuration_says_where(table: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        from_table(table, "here")


OF_EACH_SHAPE = {
    "table": TableConfig(data=("a.csv",), groups="school"),
    "parties": PartiesConfig(data=("a.csv", "b.csv", "c.csv"), groups="ward"),
    "tasks": TasksConfig(data=("a.csv",), task_column="group"),
}


@pytest.mark.parametrize("name", studies.SHAPES)
def test_the_shape_belongs_to_the_class(name: str) -> None:
    config = OF_EACH_SHAPE[name]
    assert type(config) is studies.SHAPES[name]
    table = to_table(config)
    assert table["shape"] == config.shape == name
    again = from_table(table, "here")
    assert again == config
    assert type(again) is type(config)
    with pytest.raises(TypeError, match="shape"):
        type(config)(data=("a.csv", "b.csv"), shape=name)  # type: ignore[call-arg]


def test_the_default_method_depends_on_the_data() -> None:
    def planned(config: Config) -> str:
        assert config.method == "auto"
        return plan_of(config).method.name

    assert planned(TableConfig(data=("a.csv",))) == "boss"
    assert planned(TableConfig(data=("a.csv",), groups="school")) == "boss"
    assert planned(TableConfig(data=("a.csv",), groups="school", order=("x", "y"))) == "bcd"
    assert planned(TableConfig(data=("a.csv",), discretize="quantile:4")) == "posterior"
    assert planned(PartiesConfig(data=("a.csv", "b.csv", "c.csv"))) == "boss"
    assert planned(PartiesConfig(data=("a.csv", "b.csv", "c.csv"), groups="ward")) == "boss"
    assert planned(TasksConfig(data=("a.csv", "b.csv"))) == "posterior"


def test_what_auto_chose_is_said_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TableConfig(data=(str(table_file(tmp_path)),), seed=1)
    result = run(config)
    assert result.config.method == "boss"
    assert result.notes[0].startswith("Method auto chose boss for ")
    assert "with the score bic for numbers and the penalty of the extended BIC: of the" in result.notes[0]
    assert "columns: of the" in run(dataclasses.replace(config, settings={"penalty": 2.0})).notes[0]
    assert run(result.config).graph == result.graph
    assert choose(d=100, n=1e6, labels=True).reason.endswith("fewest errors. It takes about 5 minutes.")
    monkeypatch.setattr("polydag.data.method_choice.PATIENCE", 0.0)
    quick = run(config)
    assert quick.config.method == "ges"
    assert "boss would take about a minute (--method boss); ges takes about a minute" in quick.notes[0]


def test_every_field_is_an_option_with_help() -> None:
    for name, described in options().items():
        assert described.help.endswith("."), name
        assert described.flags[0] == "data" or described.flags[0].startswith("--")
    assert option("--x", "text", "X.").metadata["option"].flags == ("--x",)


THREE = ("a.csv", "b.csv", "c.csv")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (TableConfig(data=THREE, method="magic"), "No method is called 'magic'. Known are auto, notears,"),
        (
            TableConfig(data=THREE, method="admm"),
            "admm works with --as parties, not .* For one table use notears",
        ),
        (TasksConfig(data=THREE, method="voting"), "voting works with --as parties, not with --as tasks"),
        (TasksConfig(data=THREE, method="ges"), "Over tasks use --method posterior"),
        (PartiesConfig(data=THREE, method="notears-mlp"), "admm, fedavg or voting with --set model=mlp"),
        (PartiesConfig(data=THREE, method="bcd", groups="g", order=("x",)), "bcd works with --as table"),
        (TableConfig(data=THREE, method="bcd", order=("x",)), "bcd learns from linked rows: add --groups"),
        (TableConfig(data=THREE, method="bcd", groups="g"), "needs a known order"),
        (TableConfig(data=THREE, method="ges", order=("x",)), "--order is for the method bcd"),
        (TableConfig(data=THREE, method="notears-lagged", groups="g"), "rows that follow each other in time"),
        (
            TableConfig(data=THREE, method="equal-variance", interventions="i"),
            "does not use .* ges, boss, pc",
        ),
        (
            TableConfig(data=THREE, method="notears", discretize="quantile:3"),
            "notears is for numbers",
        ),
        (TasksConfig(data=THREE, groups="g", discretize="quantile:3"), "decorrelated as numbers"),
        (TableConfig(data=THREE, method="posterior", bootstrap=5), "a posterior has its own"),
        (TableConfig(data=THREE, method="notears-lagged", bootstrap=5), "time series"),
        (
            TableConfig(data=THREE, method="bcd", groups="g", order=("x",), knowledge="k"),
            "does not take backg",
        ),
        (PartiesConfig(data=THREE, method="ges", links="l.csv"), "needs row names: add --row-ids"),
        (PartiesConfig(data=THREE[:2]), "at least three parties; 2 were named.*--set privacy=none"),
        (PartiesConfig(data=THREE, method="ges", bootstrap=5, settings={"epsilon": 1.0}), "spend epsilon"),
        (PartiesConfig(data=THREE, groups="g", settings={"epsilon": 1.0}), "do not depend on each other"),
        (PartiesConfig(data=THREE, settings={"epsilon": -1.0}), "epsilon must be a number above 0"),
        (PartiesConfig(data=THREE, settings={"privacy": "open"}), "mode must be one of masked, none"),
        (TableConfig(data=THREE, method="posterior", settings={"n_chains": 0}), "n_chains"),
        (
            TableConfig(data=THREE, method="notears", settings={"lambda": 1, "lambda_": 2}),
            "lambda_ is given twice",
        ),
        (TableConfig(data=THREE, settings={"epsilon": 1.0}), "boss has no setting epsilon"),
        (
            PartiesConfig(data=THREE, method="admm", groups="g", settings={"lambda2": 1.0}),
            "network__lambda2 or free__lambda2",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_read(config: Config, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(config)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"groups": "a", "coords": "x,y:5"}, "one of --groups, --links, --coords and --covariance"),
        ({"row_ids": "id"}, "--row-ids names the rows for --links"),
        ({"covariates": ("age",)}, "--covariates is for linked rows"),
        ({"links": "l.csv", "missing": "drop"}, "row numbers would shift"),
    ],
)
def test_links_are_declared_in_one_way(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        TableConfig(data=("a.csv",), **fields)


KNOWN = KnownSettings(
    "it",
    {"lambda_": 0.1, "criterion": "k2", "memory": None},
    {
        "chains": {"n_steps": None, "n_chains": 4},
        "privacy": {"mode": "masked", "bounds": None, "n_chains": 1},
    },
)


def test_settings_are_flat_or_nested() -> None:
    flat = KNOWN.named({"lambda": 1, "n-steps": 9, "privacy": "none", "bounds": {"x": [0, 1]}})
    nested = {"lambda_": 1, "chains": {"n_steps": 9}, "privacy": {"mode": "none", "bounds": {"x": [0, 1]}}}
    assert flat == nested == KNOWN.named(nested)
    assert KNOWN.named({"chains__n_chains": 2}) == {"chains": {"n_chains": 2}}
    everything = KNOWN.all_of(flat)
    assert everything["chains"] == {"n_steps": 9, "n_chains": 4}
    assert (everything["criterion"], everything["lambda_"]) == ("k2", 1)
    assert "memory" not in recorded(everything)
    assert recorded({"a": {"b": None}}) == {}
    assert KNOWN.named(flattened(nested)) == nested
    assert overlaid(nested, {"chains": {"n_chains": 3}})["chains"] == {"n_steps": 9, "n_chains": 3}
    for given_settings, words in (
        ({"n_chains": 3}, "n_chains is ambiguous. Write chains__n_chains or privacy__n_chains"),
        ({"chains__steps": 3}, "no setting chains__steps. Those of chains are n_steps, n_chains"),
        ({"chains": {"steps": 3}}, "no setting chains__steps"),
        ({"chains": 3}, "no setting chains"),
        ({"n_steps": 3, "chains__n_steps": 3}, "chains__n_steps is given twice"),
        ({"criterion": None}, "None cannot be recorded"),
        ({"columns": "x"}, "Use --columns, which is an option"),
        (
            {"mu": 1},
            "no setting mu. Its settings are criterion, lambda_, memory; of chains: n_steps, n_chains; of",
        ),
    ):
        with pytest.raises(UsageError, match=words):
            KNOWN.named(given_settings)


def test_a_recorded_study_is_changed_by_options() -> None:
    config = PartiesConfig(data=THREE, method="admm", settings={"epsilon": 1.0, "lambda_": 0.3, "hidden": 4})
    other = changed_study(config, None, {"settings": {"privacy__epsilon": 2.0}}, "here")
    assert other.settings == {"privacy": {"epsilon": 2.0}, "lambda_": 0.3, "network": {"hidden": 4}}
    # Privacy is that of the source, whatever learns from it.
    other = changed_study(config, None, {"method": "boss", "settings": {"penalty": 2.0}}, "here")
    assert plan_of(other).settings["privacy"]["epsilon"] == 1.0
    assert plan_of(other).settings["penalty"] == 2.0
    with pytest.raises(UsageError, match="here describes a study with --as parties; --as tasks does not fit"):
        changed_study(config, "tasks", {}, "here")
    with pytest.raises(UsageError, match="--task-column is only for --as tasks"):
        changed_study(config, "parties", {"task_column": "x"}, "here")


def test_every_registered_learner_has_a_method_with_help() -> None:
    assert set(METHODS) >= set(LEARNERS) | set(ROW_LEARNERS)
    for name, method in METHODS.items():
        assert method.name == name
        assert method.summary.endswith(".")
        for shape in method.shapes:
            params = method.learner_class(shape)().get_params(deep=False)
            assert set(method.fixed) <= set(params)


def test_values_are_typed_as_in_toml() -> None:
    given_texts = ["a=1", "b=0.5", "c=true", "d=[1, 2]", "e=word", 'f="two words"', "g = 1e-3"]
    found = parse_settings(given_texts)
    assert found == {"a": 1, "b": 0.5, "c": True, "d": [1, 2], "e": "word", "f": "two words", "g": 1e-3}
    assert type(found["a"]) is int


@pytest.mark.parametrize("text", ["novalue", "=1", "a=two words", "a=", "a=[1"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"NAME=VALUE|cannot be understood"):
        parse_settings([text])


def test_an_unknown_setting_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no setting lamda.*acyclicity, lambda_, threshold"):
        load(TableConfig(data=("a.csv",), method="notears", settings={"lamda": 0.1}))


@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_every_learner_of_the_registry_can_be_run(method: str, tmp_path: Path) -> None:
    file = table_file(tmp_path)
    result = run(TableConfig(data=(str(file),), method=method, seed=1))
    assert result.graph.names == ("x0", "x1", "x2", "x3", "x4")
    assert result.converged
    assert set(result.config.settings) <= set(plan_of(result.config).settings)
    assert from_table(to_table(result.config), "here") == result.config


def table_file(folder: Path, name: str = "table.csv", seed: int = 1, n: int = 200) -> Path:
    dag = simulate.dag(5, n_edges=5, random_state=0)
    simulate.linear(dag, n=n, random_state=seed).to_csv(folder / name, index=False)
    return folder / name


def test_a_study_equals_the_learner(tmp_path: Path) -> None:
    file = table_file(tmp_path)
    result = run(TableConfig(data=(str(file),), method="notears", settings={"lambda": 0.05}, seed=3))
    model = Notears(lambda_=0.05, random_state=3).fit(pd.read_csv(file))
    assert result.graph == model.graph_
    assert result.measures["lambda_used"] == 0.05
    assert len(result.pruned) == len(model.pruned_)


def test_a_seed_is_drawn_and_recorded(tmp_path: Path) -> None:
    result = run(TableConfig(data=(str(table_file(tmp_path)),), method="equal-variance"))
    assert result.config.seed is not None


def test_several_tables_are_put_together(tmp_path: Path) -> None:
    files = [table_file(tmp_path, f"{seed}.csv", seed) for seed in (1, 2)]
    both = pd.concat([pd.read_csv(file) for file in files])
    shuffled = pd.read_csv(files[1])[["x3", "x0", "x4", "x1", "x2"]]
    shuffled.to_csv(files[1], index=False)
    both.to_csv(tmp_path / "both.csv", index=False)
    parts = run(TableConfig(data=tuple(map(str, files)), method="equal-variance", seed=1))
    whole = run(TableConfig(data=(str(tmp_path / "both.csv"),), method="equal-variance", seed=1))
    assert parts.n == whole.n == 400
    assert parts.graph == whole.graph
    assert "2 tables were concatenated" in parts.notes[0]


def test_tables_with_other_columns_are_refused(tmp_path: Path) -> None:
    file = table_file(tmp_path)
    other = tmp_path / "other.csv"
    pd.read_csv(file).rename(columns={"x1": "y"}).to_csv(other, index=False)
    with pytest.raises(DataError, match=r"x1 only in .*table.csv; y only in .*other.csv"):
        run(TableConfig(data=(str(file), str(other))))


def test_a_large_file_is_streamed_with_the_same_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TableConfig(data=(str(table_file(tmp_path)),), method="equal-variance", seed=1)
    before = run(config)
    monkeypatch.setattr("polydag.studies.data.inputs.LARGE_BYTES", 100)
    streamed = run(config)
    assert "large" in streamed.notes[0]
    assert streamed.sha256 == before.sha256
    np.testing.assert_array_equal(streamed.graph.adjacency, before.graph.adjacency)
    np.testing.assert_allclose(streamed.graph.weights, before.graph.weights, rtol=1e-9)


def test_columns_missing_values_and_notes(tmp_path: Path) -> None:
    file = table_file(tmp_path)
    frame = pd.read_csv(file)
    frame.loc[3, "x2"] = np.nan
    frame.to_csv(file, index=False)
    config = TableConfig(data=(str(file),), method="equal-variance", seed=1)
    with pytest.raises(DataError, match="x2"):
        run(config)
    assert run(dataclasses.replace(config, columns=("x0", "x1"))).graph.names == ("x0", "x1")
    dropped = run(dataclasses.replace(config, missing="drop"))
    assert dropped.n == 199
    assert "1 of 200 rows dropped" in dropped.notes[0]


def test_jobs_that_make_no_difference_are_said(tmp_path: Path) -> None:
    config = TableConfig(data=(str(table_file(tmp_path)),), method="equal-variance", seed=1, jobs=3)
    assert any("jobs = 3" in note for note in run(config).notes)


def test_a_database_is_known_by_its_rows(tmp_path: Path) -> None:
    sqlite3 = pytest.importorskip("sqlite3")
    pytest.importorskip("sqlalchemy")
    frame = pd.read_csv(table_file(tmp_path))
    connection = sqlite3.connect(tmp_path / "rows.db")
    frame.to_sql("rows", connection, index=False)
    connection.close()
    address = f"sqlite:///{tmp_path / 'rows.db'}"
    config = TableConfig(data=(address,), query="select * from rows", method="equal-variance", seed=1)
    first, again = run(config), run(config)
    assert first.sha256 == again.sha256
    fewer = load(dataclasses.replace(config, query="select * from rows limit 100"))
    with pytest.raises(DataError, match="ORDER BY"):
        require_same(fewer.sha256, first.sha256, "config.toml")


@given(st.text(st.characters(categories=("L", "N")), min_size=6, max_size=12).map(lambda s: f"pw{s}"))
@settings(max_examples=30, deadline=None)
def test_no_password_is_written_down(secret: str) -> None:
    for address in (
        f"postgresql://me:{secret}@host/base",
        f"postgresql://me:{secret}%40x@host:5432/base?sslmode=require",
        f"postgresql://host/base?user=me&password={secret}&sslmode=require",
    ):
        shown = public(address)
        assert secret not in shown
        assert shown.startswith("postgresql://")
        assert ("sslmode=require" in shown) == ("sslmode=require" in address)
    assert public("sqlite:///a/b.db") == "sqlite:///a/b.db"
    assert public("data/a.csv") == "data/a.csv"


def test_the_demo_is_reproducible_and_beats_the_naive_answer(tmp_path: Path) -> None:
    from polydag import metrics

    outcome = demos.run("table", tmp_path / "a", 7)
    again = demos.run("table", tmp_path / "b", 7)
    assert outcome.result.graph == again.result.graph
    naive, ours = (metrics.shd(true=outcome.truth, estimate=answer.graph) for answer in outcome.answers)
    assert ours < naive
    assert (outcome.run / "graph.svg").is_file()
    with pytest.raises(UsageError, match=r"Known are table"):
        demos.run("nothing", tmp_path, 1)


def test_connections_without_a_direction_are_listed(tmp_path: Path) -> None:
    P = np.zeros((4, 4))
    P[0, 1], P[1, 0] = 0.5, 0.5
    P[0, 2], P[2, 0] = 0.7, 0.3
    P[1, 2], P[2, 1] = 0.3, 0.35
    graph = Posterior(tuple("abcd"), P, "exact").graph
    said = "Connected, but the rows do not determine the direction: a – b (1.00), b – c (0.65)."
    assert undirected(graph(0.5)) == (said,)
    assert undirected(graph(0.8), " in x")[0].endswith(": a – b (1.00), a – c (1.00).")
    assert undirected(Graph(np.zeros((4, 4)), tuple("abcd"))) == ()
    assert listed((f"v{k}", "w", k / 10) for k in range(10)).endswith("v5 – w (0.50) and 5 more")
    asia().sample(300, random_state=0).to_csv(tmp_path / "d.csv", index=False)
    result = run(TableConfig(data=(str(tmp_path / "d.csv"),), method="posterior", seed=0))
    told = undirected(result.graph)
    assert told
    assert told[0] in result.notes
    pairs = re.findall(r"(\w+) – (\w+) \(", told[0])
    lines = {frozenset((edge.source, edge.target)) for edge in result.graph.edges() if not edge.directed}
    assert set(map(frozenset, pairs)) == lines


def test_a_bootstrap_gives_every_edge_its_frequency(tmp_path: Path) -> None:
    from polydag import runs

    dag = simulate.dag(4, n_edges=3, random_state=0)
    simulate.linear(dag, n=200, random_state=0).to_csv(tmp_path / "d.csv", index=False)
    for method in ("ges", "equal-variance"):
        config = TableConfig(data=(str(tmp_path / "d.csv"),), method=method, bootstrap=12, seed=1)
        result = runs.perform(config, tmp_path / method)
        assert all(edge.adjacent is not None and edge.adjacent > 0.6 for edge in result.edges)
        pairs = pd.read_csv(tmp_path / method / "pairs.csv")
        assert set(pairs["kind"]) == {"frequency"}
        edges = pd.read_csv(tmp_path / method / "edges.csv")
        either = {frozenset(pair): share for *pair, share in pairs[["a", "b", "adjacent"]].to_numpy()}
        for edge in edges.itertuples():
            assert edge.adjacent == pytest.approx(either[frozenset((edge.source, edge.target))])
        again = runs.read_config(tmp_path / method / "config.toml")
        assert again.config.bootstrap == 12


@pytest.fixture
def dosed(tmp_path: Path) -> pd.DataFrame:
    """Rows that were observed, and rows in which crp was set."""
    names = ["dose", "crp", "pain"]
    truth = Graph.from_edges(names, [("dose", "crp", 1.0), ("crp", "pain", 1.0)])
    cut = Graph.from_edges(names, [("crp", "pain", 1.0)])
    observed = simulate.linear(truth, n=200, random_state=0).assign(did="none")
    held = simulate.linear(cut, n=200, noise_scale=np.array([1.0, 3.0, 1.0]), random_state=1).assign(
        did="crp"
    )
    table = pd.concat([observed, held], ignore_index=True)
    table.to_csv(tmp_path / "dosed.csv", index=False)
    return table


@pytest.mark.parametrize(
    ("method", "learner"),
    [
        ("ges", GES()),
        ("boss", BOSS()),
        ("notears", Notears()),
        ("posterior", BayesianDiscovery(criterion="bge")),
    ],
)
def test_interventions_in_one_table(method: str, learner: Any, dosed: pd.DataFrame, tmp_path: Path) -> None:
    file = str(tmp_path / "dosed.csv")
    config = TableConfig(data=(file,), method=method, interventions="did", columns=("dose", "crp", "pain"))
    result = run(config)
    expected = learner.fit(InMemory(dosed, interventions="did"))
    assert result.graph.names == ("dose", "crp", "pain")
    assert np.array_equal(result.graph.adjacency, expected.graph_.adjacency)
    assert {(e.source, e.target) for e in result.graph.edges()} == {("dose", "crp"), ("crp", "pain")}
    with pytest.raises(UsageError, match="No file has a column ate"):
        run(dataclasses.replace(config, interventions="ate"))
    dosed.assign(did="fever").to_csv(file, index=False)
    with pytest.raises(DataError, match=r"dosed\.csv: Column did, row 1: 'fever' is not a column"):
        run(config)
    dosed.assign(did=dosed["did"].where(dosed["did"] != "none")).to_csv(file, index=False)
    for missing in ("error", "drop", "impute"):
        with pytest.raises(DataError, match=r"dosed\.csv, column did: \d+ of .* Write none where nothing"):
            run(dataclasses.replace(config, missing=missing))


def test_interventions_in_tasks_and_labels(dosed: pd.DataFrame, tmp_path: Path) -> None:
    for k, part in enumerate((dosed.iloc[::2], dosed.iloc[1::2])):
        part.to_csv(tmp_path / f"{k}.csv", index=False)
    files = tuple(str(tmp_path / f"{k}.csv") for k in range(2))
    result = run(TasksConfig(data=files, interventions="did", seed=0))
    parts = {str(k): InMemory(pd.read_csv(file), interventions="did") for k, file in enumerate(files)}
    expected = MultitaskDiscovery(criterion="bge").fit(Tasks(parts))
    np.testing.assert_allclose(result.probabilities, expected.raw_weights_, rtol=1e-9)
    labels = dosed.assign(
        **{name: np.where(dosed[name] > 0, "high", "low") for name in ("dose", "crp", "pain")}
    )
    labels.to_csv(tmp_path / "labels.csv", index=False)
    found = run(
        TableConfig(data=(str(tmp_path / "labels.csv"),), method="posterior", interventions="did", seed=0)
    )
    expected_labels = BayesianDiscovery().fit(InMemory(labels, interventions="did"))
    np.testing.assert_allclose(found.probabilities, expected_labels.posterior_.probabilities, rtol=1e-9)


def test_a_file_that_is_named_twice_counts_twice(tmp_path: Path) -> None:
    file = str(table_file(tmp_path))
    assert run(TableConfig(data=(file, file), method="equal-variance", seed=1)).n == 400
