"""Studies: configurations that survive TOML, settings, and what a pooled study does with its data."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag import Notears, simulate, studies
from polydag.cli import demos
from polydag.embedded import asia
from polydag.errors import DataError, UsageError
from polydag.learners import LEARNERS
from polydag.studies import methods, pooled, posterior
from polydag.studies.config import Config, from_table, to_table
from polydag.studies.inputs import public, require_same
from polydag.studies.linked import LinkedConfig
from polydag.studies.methods import parse_settings, settings_of
from polydag.studies.parties import PartiesConfig
from polydag.studies.posterior import PosteriorConfig, listed, undirected
from polydag.studies.tasks import TasksConfig

texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=12)
values = st.one_of(st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), texts)
configs = st.builds(
    Config,
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
        ({"data": ["x"], "sed": 1}, "sed is not known"),
        ({"data": ["x"], "seed": "1"}, "seed is a whole number"),
        ({"data": ["x"], "seed": True}, "seed is a whole number"),
        ({"data": ["x"], "seed": -1}, "seed"),
        ({"data": ["x"], "jobs": 0}, "jobs"),
        ({"data": ["x"], "missing": "guess"}, "missing"),
        ({"data": ["x"], "settings": 3}, "table of names"),
        ({"data": ["x"], "shape": "round"}, "here: .*'round'.* Known are .*pooled"),
        ({"data": ["x"], "shape": ["pooled"]}, "shape is a text; got \\['pooled'\\]"),
        ({"data": ["x"], "shape": "pooled", "groups": "school"}, "groups is not known"),
    ],
)
def test_a_wrong_configuration_says_where(table: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        from_table(table, "here")


OF_EACH_SHAPE = {
    "linked": LinkedConfig(data=("a.csv",), groups="school"),
    "parties": PartiesConfig(data=("a.csv", "b.csv")),
    "pooled": Config(data=("a.csv",)),
    "posterior": PosteriorConfig(data=("a.csv",)),
    "tasks": TasksConfig(data=("a.csv", "b.csv")),
}


@pytest.mark.parametrize("name", studies.SHAPES)
def test_the_shape_belongs_to_the_class(name: str) -> None:
    config = OF_EACH_SHAPE[name]
    assert type(config) is studies.shape(name).CONFIG
    table = to_table(config)
    assert table["shape"] == config.shape == name
    again = from_table(table, "here")
    assert again == config
    assert type(again) is type(config)
    for wrong in ({"shape": name}, {"shape": "pooled"}):
        with pytest.raises(TypeError, match="shape"):
            type(config)(data=("a.csv", "b.csv"), **wrong)  # type: ignore[arg-type]
    for other in studies.SHAPES:
        if other != name:
            with pytest.raises(UsageError, match=f"{type(config).__name__} .*'{name}', not '{other}'"):
                studies.shape(other).run(config)


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
        settings_of("notears", {"lamda": 0.1})


def test_lambda_needs_no_underscore() -> None:
    assert settings_of("notears", {"lambda": 0.1})["lambda_"] == 0.1


@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_every_learner_of_the_registry_can_be_run(method: str, tmp_path: Path) -> None:
    file = table_file(tmp_path)
    result = pooled.run(Config(data=(str(file),), method=method, seed=1))
    assert result.graph.names == ("x0", "x1", "x2", "x3", "x4")
    assert result.converged
    assert set(result.config.settings) <= set(methods.defaults(method))
    assert from_table(to_table(result.config), "here") == result.config


def table_file(folder: Path, name: str = "table.csv", seed: int = 1, n: int = 200) -> Path:
    dag = simulate.dag(5, n_edges=5, random_state=0)
    simulate.linear(dag, n=n, random_state=seed).to_csv(folder / name, index=False)
    return folder / name


def test_a_study_equals_the_learner(tmp_path: Path) -> None:
    file = table_file(tmp_path)
    result = pooled.run(Config(data=(str(file),), settings={"lambda": 0.05}, seed=3))
    model = Notears(lambda_=0.05, random_state=3).fit(pd.read_csv(file))
    assert result.graph == model.graph_
    assert result.measures["lambda_used"] == 0.05
    assert len(result.pruned) == len(model.pruned_)


def test_a_seed_is_drawn_and_recorded(tmp_path: Path) -> None:
    result = pooled.run(Config(data=(str(table_file(tmp_path)),), method="equal-variance"))
    assert result.config.seed is not None


def test_several_tables_are_put_together(tmp_path: Path) -> None:
    files = [table_file(tmp_path, f"{seed}.csv", seed) for seed in (1, 2)]
    both = pd.concat([pd.read_csv(file) for file in files])
    shuffled = pd.read_csv(files[1])[["x3", "x0", "x4", "x1", "x2"]]
    shuffled.to_csv(files[1], index=False)
    both.to_csv(tmp_path / "both.csv", index=False)
    parts = pooled.run(Config(data=tuple(map(str, files)), method="equal-variance", seed=1))
    whole = pooled.run(Config(data=(str(tmp_path / "both.csv"),), method="equal-variance", seed=1))
    assert parts.n == whole.n == 400
    assert parts.graph == whole.graph
    assert "2 tables were put together" in parts.notes[0]


def test_tables_with_other_columns_are_refused(tmp_path: Path) -> None:
    file = table_file(tmp_path)
    other = tmp_path / "other.csv"
    pd.read_csv(file).rename(columns={"x1": "y"}).to_csv(other, index=False)
    with pytest.raises(DataError, match=r"x1 only in .*table.csv; y only in .*other.csv"):
        pooled.run(Config(data=(str(file), str(other))))


def test_a_large_file_is_streamed_with_the_same_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Config(data=(str(table_file(tmp_path)),), method="equal-variance", seed=1)
    before = pooled.run(config)
    monkeypatch.setattr("polydag.studies.inputs.LARGE_BYTES", 100)
    streamed = pooled.run(config)
    assert "large" in streamed.notes[0]
    assert streamed.sha256 == before.sha256
    np.testing.assert_array_equal(streamed.graph.adjacency, before.graph.adjacency)
    np.testing.assert_allclose(streamed.graph.weights, before.graph.weights, rtol=1e-9)


def test_columns_missing_values_and_notes(tmp_path: Path) -> None:
    file = table_file(tmp_path)
    frame = pd.read_csv(file)
    frame.loc[3, "x2"] = np.nan
    frame.to_csv(file, index=False)
    config = Config(data=(str(file),), method="equal-variance", seed=1)
    with pytest.raises(DataError, match="x2"):
        pooled.run(config)
    assert pooled.run(dataclasses.replace(config, columns=("x0", "x1"))).graph.names == ("x0", "x1")
    dropped = pooled.run(dataclasses.replace(config, missing="drop"))
    assert dropped.n == 199
    assert "1 of 200 rows dropped" in dropped.notes[0]


def test_jobs_that_make_no_difference_are_said(tmp_path: Path) -> None:
    config = Config(data=(str(table_file(tmp_path)),), method="equal-variance", seed=1, jobs=3)
    assert any("jobs = 3" in note for note in pooled.run(config).notes)


def test_a_database_is_known_by_its_rows(tmp_path: Path) -> None:
    sqlite3 = pytest.importorskip("sqlite3")
    pytest.importorskip("sqlalchemy")
    frame = pd.read_csv(table_file(tmp_path))
    connection = sqlite3.connect(tmp_path / "rows.db")
    frame.to_sql("rows", connection, index=False)
    connection.close()
    address = f"sqlite:///{tmp_path / 'rows.db'}"
    config = Config(data=(address,), query="select * from rows", method="equal-variance", seed=1)
    first, again = pooled.run(config), pooled.run(config)
    assert first.sha256 == again.sha256
    fewer = pooled.load(dataclasses.replace(config, query="select * from rows limit 100"))
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

    outcome = demos.run("pooled", tmp_path / "a", 7)
    again = demos.run("pooled", tmp_path / "b", 7)
    assert outcome.result.graph == again.result.graph
    naive, ours = (metrics.shd(true=outcome.truth, estimate=answer.graph) for answer in outcome.answers)
    assert ours < naive
    assert (outcome.run / "graph.svg").is_file()
    with pytest.raises(UsageError, match=r"Known are .*pooled"):
        demos.run("nothing", tmp_path, 1)


def test_the_registry_of_shapes() -> None:
    for name in studies.SHAPES:
        module = studies.shape(name)
        assert issubclass(module.CONFIG, Config)
        assert callable(module.load)
        assert callable(module.run)


def test_connections_without_a_direction_are_told(tmp_path: Path) -> None:
    P = np.zeros((4, 4))
    P[0, 1], P[1, 0] = 0.5, 0.5
    P[0, 2], P[2, 0] = 0.7, 0.3
    P[1, 2], P[2, 1] = 0.3, 0.35
    said = "Connected, but the rows do not tell in which direction: a – b (1.00), b – c (0.65)."
    assert undirected("abcd", P, 0.5) == (said,)
    # Less sure than is asked for is not in the graph for another reason.
    assert undirected("abcd", P, 0.8, " in x")[0].endswith(": a – b (1.00), a – c (1.00).")
    assert undirected("abcd", np.zeros((4, 4)), 0.5) == ()
    assert listed((f"v{k}", "w", k / 10) for k in range(10)).endswith("v5 – w (0.50) and 5 more")
    asia().sample(300, random_state=0).to_csv(tmp_path / "d.csv", index=False)
    result = posterior.run(posterior.PosteriorConfig(data=(str(tmp_path / "d.csv"),), seed=0))
    told = undirected(result.graph.names, np.asarray(result.probabilities), 0.5)
    assert told
    assert told[0] in result.notes
    pairs = re.findall(r"(\w+) – (\w+) \(", told[0])
    assert not {frozenset((edge.source, edge.target)) for edge in result.edges} & set(map(frozenset, pairs))


def test_a_bootstrap_gives_every_edge_its_frequency(tmp_path: Path) -> None:
    from polydag import runs, simulate
    from polydag.studies.config import Config

    dag = simulate.dag(4, n_edges=3, random_state=0)
    simulate.linear(dag, n=200, random_state=0).to_csv(tmp_path / "d.csv", index=False)
    for method in ("ges", "equal-variance"):
        config = Config(data=(str(tmp_path / "d.csv"),), method=method, bootstrap=12, seed=1)
        result = runs.perform(config, tmp_path / method)
        assert all(edge.probability is not None and edge.probability > 0.3 for edge in result.edges)
        table = (tmp_path / method / "bootstrap.csv").read_text().splitlines()
        assert table[0] == "source,target,frequency,low,high,adjacent"
        again = runs.read_config(tmp_path / method / "config.toml")
        assert again.config.bootstrap == 12
