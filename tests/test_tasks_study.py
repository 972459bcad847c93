"""Studies of tasks: files or a column, run folders, heat maps, the demonstration."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from polydag import MultitaskDiscovery, formats, simulate
from polydag.cli.main import app
from polydag.embedded import asia
from polydag.errors import DataError, UsageError
from polydag.plot.heatmaps import Map, heat_maps
from polydag.plot.svg_style import INK, POSITIVE
from polydag.studies import TableConfig, TasksConfig, load, run
from polydag.studies.findings.tasks import file_names


@pytest.fixture
def clinics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, pd.DataFrame]:
    """Two files and one with both, in the current folder."""
    monkeypatch.chdir(tmp_path)
    tables = {
        "controls": asia().sample(120, random_state=1),
        "patients": asia().related(0.3, 2).sample(80, random_state=2),
    }
    for name, table in tables.items():
        table.to_csv(f"{name}.csv", index=False)
    both = pd.concat([table.assign(group=name) for name, table in tables.items()])
    both.sample(frac=1.0, random_state=0).to_csv("both.csv", index=False)
    return tables


def invoke(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output


def test_files_and_a_column_give_the_same(clinics: dict[str, pd.DataFrame]) -> None:
    code, said = invoke("fit", "--as", "tasks", "controls.csv", "patients.csv", "--seed", "1", "--out", "a")
    assert code == 0, said
    model = MultitaskDiscovery().fit(clinics)
    sizes = [graph.n_edges for graph in model.graphs_]
    counted = [f"{n} edge{'' if n == 1 else 's'}" for n in (*sizes, model.graph_.n_edges)]
    assert f"Tasks: controls (120 rows, {counted[0]}), patients (80 rows, {counted[1]})." in said
    assert f"posterior: {counted[2]} in the mean over 2 tasks among 8 variables, 200 rows" in said
    summary = Path("a/summary.txt").read_text(encoding="utf-8")
    assert f"{counted[2]} in the mean over 2 tasks, seed 1" in summary
    code, said = invoke(
        "fit", "both.csv", "--as", "tasks", "--task-column", "group", "--seed", "1", "--out", "b"
    )
    assert code == 0, said
    for folder in (Path("a"), Path("b")):
        for k, task in enumerate(clinics):
            edges = pd.read_csv(folder / f"edges-{task}.csv").set_index(["source", "target"])
            expected = model.posteriors_[k].edges
            assert edges["probability"].is_monotonic_decreasing
            assert all(p == pytest.approx(expected.loc[pair]) for pair, p in edges["probability"].items())
            graph = formats.read(folder / f"graph-{task}.json")
            np.testing.assert_array_equal(graph.adjacency, model.graphs_[k].adjacency)
        table = pd.read_csv(folder / "differences.csv").set_index(["source", "target"])
        expected = model.differences_.set_index(["source", "target"]).loc[table.index]
        pd.testing.assert_frame_equal(table, expected, check_exact=False, check_dtype=False)
        table = pd.read_csv(folder / "connections.csv").set_index(["first", "second"])
        expected = model.connections_.set_index(["first", "second"]).loc[table.index]
        pd.testing.assert_frame_equal(table, expected, check_exact=False, check_dtype=False)
        for picture in ("heatmaps.svg", "graph-controls.svg"):
            ElementTree.parse(folder / picture)


def test_again_from_the_configuration(clinics: dict[str, pd.DataFrame]) -> None:
    words = ["--set", "transfer=theorem1", "--set", "max_parents=2", "--seed", "3"]
    code, said = invoke("fit", "--as", "tasks", "controls.csv", "patients.csv", *words, "--out", "a")
    assert code == 0, said
    assert "Probabilities of differences are joint" in said
    code, said = invoke("fit", "--config", "a/config.toml", "--out", "b", "--format", "json")
    assert code == 0, said
    assert json.loads(said)["settings"]["transfer"] == "theorem1"
    assert Path("a/differences.csv").read_text() == Path("b/differences.csv").read_text()


def test_one_task_is_single_task_learning(clinics: dict[str, pd.DataFrame]) -> None:
    result = run(TasksConfig(data=("controls.csv",), columns=("smoke", "lung", "bronc", "dysp"), seed=0))
    assert any("only one task" in note for note in result.notes)
    assert set(result.tables) == {"edges-controls"}  # there is nothing it could differ from
    assert result.mean_of == ""


def test_numbers_are_scored_by_bge_and_can_be_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dag = simulate.dag(5, n_edges=5, random_state=0)
    for k in range(3):
        simulate.linear(dag, n=40 + k, random_state=k).to_csv(f"clinic-{k}.csv", index=False)
    files = tuple(f"clinic-{k}.csv" for k in range(3))
    result = run(TasksConfig(data=files, seed=0, settings={"max_parents": 2}))
    assert result.config.settings["criterion"] == "bge"
    cut = run(TasksConfig(data=files, seed=0, settings={"max_parents": 2}, discretize="quantile:3"))
    assert cut.config.settings["criterion"] == "bdeu"
    assert not np.allclose(cut.probabilities, result.probabilities)


def test_kinds_are_those_of_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five rows with four levels would be numbers on their own."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    few = pd.DataFrame({"a": [0, 1, 2, 3, 1], "b": ["x", "y", "x", "x", "y"]})
    many = pd.DataFrame({"a": rng.integers(0, 5, 60), "b": rng.choice(["x", "z"], 60)})
    few.to_csv("few.csv", index=False)
    many.to_csv("many.csv", index=False)
    tables = load(TasksConfig(data=("few.csv", "many.csv"))).tables
    assert tables["few"].kinds == {"a": "discrete", "b": "discrete"}
    result = run(TasksConfig(data=("few.csv", "many.csv"), seed=0, settings={"max_parents": 1}))
    assert list(result.documents) == ["graph-few", "graph-many"]


def test_what_cannot_be_is_told(clinics: dict[str, pd.DataFrame]) -> None:
    clinics["patients"].drop(columns="smoke").to_csv("less.csv", index=False)
    code, said = invoke("fit", "--as", "tasks", "controls.csv", "less.csv", "--out", "a")
    assert code == 3
    assert "less lacks the column smoke, which controls has" in said
    code, said = invoke("fit", "both.csv", "--as", "tasks", "--task-column", "clinic", "--out", "a")
    assert code == 3
    assert "both.csv has no column clinic" in said
    clinics["patients"].iloc[:0].to_csv("none.csv", index=False)
    code, said = invoke("fit", "--as", "tasks", "controls.csv", "none.csv", "--out", "a")
    assert code == 3
    assert "none.csv has column names but no rows" in said
    code, said = invoke("fit", "controls.csv", "--task-column", "smoke", "--out", "a")
    assert code == 2
    assert "--task-column is only for --as tasks" in said
    with pytest.raises(UsageError, match="named twice"):
        TasksConfig(data=("controls.csv", "controls.csv"))
    with pytest.raises(UsageError, match="divides one table"):
        TasksConfig(data=("controls.csv", "patients.csv"), task_column="group")
    with pytest.raises(UsageError, match="--task-column and --groups both name group"):
        TasksConfig(data=("both.csv",), task_column="group", groups="group")
    clinics["controls"].assign(dose=np.linspace(0.1, 0.9, 120)).to_csv("dose.csv", index=False)
    with pytest.raises(DataError, match="column dose: tasks are identified by labels"):
        load(TasksConfig(data=("dose.csv",), task_column="dose"))


def test_rows_that_depend_on_those_before_them_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    independent = pd.DataFrame(rng.standard_normal((200, 3)), columns=["a", "b", "c"])
    walks = independent.cumsum()
    walks.to_csv("ann.csv", index=False)
    independent.to_csv("bob.csv", index=False)
    for tables, shown in ((["ann.csv", "bob.csv"], True), (["bob.csv"], False)):
        found = [note for note in load(TasksConfig(data=tuple(tables))).notes if "follow each other" in note]
        assert len(found) == shown
        assert all(
            " in ann are alike: a (0.9" in note and "--method notears-lagged" in note for note in found
        )
    assert any("each other are alike" in note for note in load(TableConfig(data=("ann.csv",))).notes)
    walks.assign(g=np.arange(200) // 20).to_csv("groups.csv", index=False)
    grouped = load(TableConfig(data=("groups.csv",), groups="g", method="ges"))
    assert not any("follow each other" in note for note in grouped.notes)


def test_names_of_tasks_in_files() -> None:
    assert file_names(("controls", "patients, old")) == ["controls", "patients-old"]
    assert file_names(("a/b", "a b")) == ["1-a-b", "2-a-b"]
    assert file_names(("Control", "control")) == ["1-Control", "2-control"]  # one file, on some systems


def with_holes(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "count": rng.integers(0, 4, n),
            "number": rng.normal(100 * seed, 1.0, n),
            "label": rng.choice(["u", "v"], n),
            "true": rng.random(n) < 0.5,
        }
    )
    holes = rng.random(frame.shape) < 0.1
    holes[1, 1] = True
    return frame.astype(object).mask(holes)


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_missing_values_are_settled_within_each_task(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether tasks are files or told apart by a column; by the kinds of all rows."""
    monkeypatch.chdir(tmp_path)
    parts = {"large": with_holes(40, 1), "small": with_holes(9, 2)}
    for task, frame in parts.items():
        frame.to_csv(f"{task}.csv", index=False)
    pd.concat([frame.assign(task=task) for task, frame in parts.items()]).to_csv("both.csv", index=False)
    files = load(TasksConfig(data=("large.csv", "small.csv"), missing=missing))
    column = load(TasksConfig(data=("both.csv",), task_column="task", missing=missing))
    assert files.notes == column.notes
    assert files.notes[0].startswith("large: ")
    for task, frame in parts.items():
        pd.testing.assert_frame_equal(files.tables[task].frame, column.tables[task].frame)
        assert files.tables[task].kinds["count"] == "discrete"  # nine rows alone might be of numbers
        holes = frame["number"].isna()
        if missing == "drop":
            assert files.tables[task].n == len(frame.dropna())
        else:
            filled = column.tables[task].frame["number"][holes]
            np.testing.assert_allclose(filled, frame["number"].astype(float).mean())


def test_what_is_missing_in_the_column_of_tasks(clinics: dict[str, pd.DataFrame]) -> None:
    both = pd.read_csv("both.csv")
    both.loc[[3, 5], "group"] = None
    both.to_csv("both.csv", index=False)
    config = TasksConfig(data=("both.csv",), task_column="group")
    with pytest.raises(DataError, match=r"both\.csv has missing values in 2 of 200 rows: group 2"):
        load(config)
    with pytest.raises(DataError, match="column group: 2 of 200 rows do not say to which task they belong"):
        load(dataclasses.replace(config, missing="impute"))
    dropped = load(dataclasses.replace(config, missing="drop"))
    assert sum(table.n for table in dropped.tables.values()) == 198
    assert "2 of 200 rows dropped: their task (group) is missing." in dropped.notes
    both["group"] = both["group"].map({"controls": 1, "patients": 2})
    both.to_csv("both.csv", index=False)
    assert list(load(dataclasses.replace(config, missing="drop")).tables) == ["1", "2"]
    # A task without any complete row does not go away silently.
    both.loc[both["group"] == 2, "smoke"] = None
    both.to_csv("both.csv", index=False)
    with pytest.raises(DataError, match="2: only 0 of 79 rows are complete"):
        load(dataclasses.replace(config, missing="drop"))


def test_stray_labels_of_tasks_are_told(clinics: dict[str, pd.DataFrame]) -> None:
    both = pd.read_csv("both.csv")
    controls = both.index[both["group"] == "controls"]
    both.loc[controls[:5], "group"] = "Controls"
    both.loc[controls[5:7], "group"] = "controls "
    both.to_csv("both.csv", index=False)
    config = TasksConfig(data=("both.csv",), task_column="group", seed=0)
    said = "'Controls' (5 rows), 'controls' (113 rows), 'controls ' (2 rows) differ only in case or blanks"
    result = run(config)
    assert any(said in note for note in result.notes)
    assert {"edges-1-Controls", "edges-2-controls", "edges-3-controls"} < set(result.tables)
    assert not any("patients" in note for note in load(config).notes if "differ only" in note)
    both.loc[controls[5], "group"] = "controls"
    both.to_csv("both.csv", index=False)
    with pytest.raises(DataError, match=r"the task 'controls ' has only one row\. .*'controls ' \(1 row\)"):
        load(config)


def test_age_in_years_among_labels(clinics: dict[str, pd.DataFrame]) -> None:
    rng = np.random.default_rng(0)
    for task, table in clinics.items():
        table[["smoke", "lung"]].assign(age=rng.integers(20, 60, len(table))).to_csv(
            f"{task}.csv", index=False
        )
    words = ("fit", "--as", "tasks", "controls.csv", "patients.csv", "--out", "a")
    code, said = invoke(*words)
    assert code == 0
    assert "There are numbers and labels: the score is dg" in " ".join(said.split())
    code, said = invoke(*words[:-1], "k2", "--set", "criterion=k2")
    assert code == 3
    assert "Column age holds numbers by its kind" in " ".join(said.split())
    for more in (("--discretize", "quantile:3"), ("--kind", "age=discrete")):
        code, said = invoke(*words[:-1], more[0], *more)
        assert code == 0, said


@pytest.mark.parametrize("transfer", ["family", "theorem1", "pool"])
def test_what_is_shared_and_what_has_no_direction_is_told(
    transfer: str, clinics: dict[str, pd.DataFrame]
) -> None:
    config = TasksConfig(data=("controls.csv", "patients.csv"), seed=0, settings={"transfer": transfer})
    result = run(config)
    table = result.tables["connections"].sort_values("shared", ascending=False, kind="stable")
    likely = table[table["shared"] > 0.5]
    top = likely.iloc[0]
    start = f"Most probably connected in all tasks: {top['first']} – {top['second']} ({top['shared']:.2f})"
    (said,) = [note for note in result.notes if note.startswith("Most probably connected in all")]
    assert said.startswith(start)
    assert said.count(" – ") == min(len(likely), 5)
    order = [note.split(":")[0] for note in result.notes if note.startswith("Most probably")]
    assert order[0].endswith("in all tasks")
    places = ["the mean over the tasks"] if transfer == "pool" else list(clinics)
    for place, task in zip(places, clinics, strict=False):
        edges = result.tables[f"edges-{task}"].set_index(["source", "target"])["probability"]
        bare = [
            (a, b)
            for a, b in zip(table["first"], table["second"], strict=True)
            if edges[a, b] + edges[b, a] > 0.5 and max(edges[a, b], edges[b, a]) <= 0.5
        ]
        told = [note for note in result.notes if note.startswith(f"Connected in {place}, but the rows do")]
        assert len(told) == bool(bare)
        assert not told or told[0].count(" – ") == min(len(bare), 5)


def test_heat_maps_of_connections(clinics: dict[str, pd.DataFrame]) -> None:
    result = run(TasksConfig(data=("controls.csv", "patients.csv"), seed=0))
    model = MultitaskDiscovery().fit(clinics)
    P = [posterior.probabilities for posterior in model.posteriors_]
    maps = [Map(task, np.minimum(p + p.T, 1.0)) for task, p in zip(clinics, P, strict=True)]
    assert result.pictures["heatmaps-connections"] == heat_maps(model.posteriors_[0].names, maps)
    assert {"heatmaps", "heatmaps-connections"} < set(result.pictures)


def test_one_column_is_enough(clinics: dict[str, pd.DataFrame]) -> None:
    result = run(TasksConfig(data=("controls.csv", "patients.csv"), columns=("smoke",), seed=0))
    assert result.graph.n_edges == 0


def test_files_of_the_same_name_are_told_apart(clinics: dict[str, pd.DataFrame]) -> None:
    for folder, table in zip(("2001", "2002"), clinics.values(), strict=True):
        Path(folder).mkdir()
        table.to_csv(f"{folder}/clinic.csv", index=False)
    result = run(TasksConfig(data=("2001/clinic.csv", "2002/clinic.csv"), seed=0))
    compared = {"differences", "connections", "mechanisms", "relatedness"}
    assert set(result.tables) == {"edges-2001-clinic", "edges-2002-clinic"} | compared
    clinics["patients"].to_csv("2001/clinic.tsv", index=False, sep="\t")
    result = run(TasksConfig(data=("2001/clinic.csv", "2001/clinic.tsv"), seed=0))
    assert set(result.tables) == {"edges-2001-clinic-csv", "edges-2001-clinic-tsv"} | compared


@pytest.mark.parametrize("labels", [[1, 2, 10], ["visit 1", "visit 2", "visit 10"]])
def test_tasks_of_a_column_come_in_natural_order(
    labels: list[object], clinics: dict[str, pd.DataFrame]
) -> None:
    rows = [clinics["controls"].iloc[40 * k : 40 * k + 40].assign(visit=v) for k, v in enumerate(labels)]
    pd.concat(rows[::-1]).to_csv("visits.csv", index=False)
    assert list(load(TasksConfig(data=("visits.csv",), task_column="visit")).tables) == [
        str(v) for v in labels
    ]


@pytest.mark.parametrize("sizes", [(20, 80), (80, 20)])
def test_labels_in_one_task_are_labels_in_all(
    sizes: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the sizes; and levels that only one task has are told."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    a, b = (pd.DataFrame({"x": rng.integers(0, 2, n), "y": rng.choice(["u", "v"], n)}) for n in sizes)
    a.to_csv("coded.csv", index=False)
    b.assign(x=b["x"].map({0: "no", 1: "yes"})).to_csv("worded.csv", index=False)
    files = ("coded.csv", "worded.csv")
    inputs = load(TasksConfig(data=files))
    assert {task: sorted(table.frame["x"].unique()) for task, table in inputs.tables.items()} == {
        "coded": ["0", "1"],
        "worded": ["no", "yes"],
    }
    (note,) = inputs.notes
    assert note.startswith("Column x: only some have the levels ")
    assert "'yes' (worded)" in note
    a.assign(x=rng.standard_normal(len(a))).to_csv("coded.csv", index=False)
    with pytest.raises(DataError, match="Column x holds numbers in coded and labels in worded"):
        load(TasksConfig(data=files))
    a.assign(x=["?", *a["x"][1:]]).to_csv("coded.csv", index=False)
    with pytest.raises(DataError, match=r"coded.csv, column x, line 2: '\?' is not a number"):
        load(TasksConfig(data=files))


def test_heat_maps() -> None:
    a, b = np.array([[0.0, 0.9], [0.0, 0.0]]), np.array([[0.0, 0.2], [0.5, 0.0]])
    text = heat_maps(["<x>", "y"], [Map("controls", a), Map("patients", b)])
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    titles = [element.text for element in root.iter(f"{space}text")]
    assert {"controls", "patients", "controls − patients", "<x>"} <= set(titles)
    cells = [element for element in root.iter(f"{space}rect") if element.get("fill-opacity")]
    key = 3 * 9  # nine squares below each map
    values = sorted(float(str(cell.get("fill-opacity"))) for cell in cells if cell.get("width") != "10")
    assert values == [0.2, 0.5, 0.5, 0.7, 0.9]
    assert len(cells) == len(values) + key
    assert titles.count("−1") == 1
    more = ElementTree.fromstring(heat_maps(["x", "y"], [Map("a", a), Map("b", 0 * a)])).iter(f"{space}rect")
    fills = [cell.get("fill") for cell in more if cell.get("fill-opacity") == "0.90"]
    assert fills == [INK, POSITIVE]  # a difference has its colours where nothing in it is negative, too
    many = heat_maps([f"v{k}" for k in range(50)], [Map(f"t{k}", np.zeros((50, 50))) for k in range(9)])
    assert "v7" not in many
    assert "t8" in many
    assert "largest − smallest" in many
    three = ElementTree.fromstring(heat_maps(["x", "y"], [Map("a", a), Map("b", b), Map("c", 0 * a)]))
    cells = [e for e in three.iter(f"{space}rect") if e.get("fill-opacity") and e.get("width") != "10"]
    assert sorted(str(cell.get("fill-opacity")) for cell in cells)[-2:] == ["0.90", "0.90"]
    with pytest.raises(UsageError, match="a: a heat map of 2 variables needs an 2 x 2 array"):
        heat_maps(["x", "y"], [Map("a", -a)])
    with pytest.raises(UsageError, match="2 x 2 array"):
        heat_maps(["x", "y"], [Map("a", np.full((2, 2), 3.0))])


def test_demonstration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = invoke("demo", "tasks", "--out", "demo", "--format", "json")
    assert code == 0, said
    answers = json.loads(said)["tasks"]["answers"]
    assert answers["with transfer"]["shd"] < min(answers["alone"]["shd"], answers["all rows pooled"]["shd"])
    assert Path("demo/tasks/heatmaps.svg").is_file()
