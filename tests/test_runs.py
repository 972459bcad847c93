"""Run folders: complete, reproducible, never half-written, and resumed with the same result."""

from __future__ import annotations

import dataclasses
import errno
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from polydag import formats, runs, simulate
from polydag.computing import checkpoint
from polydag.confidence import Confidence
from polydag.errors import DataError, UsageError
from polydag.graph import Graph
from polydag.learners import LEARNERS, StructureLearner
from polydag.runs.claims import claimed
from polydag.runs.folders import unfinished_run
from polydag.studies import TableConfig

FILES = {
    ".files",
    "graph.json",
    "edges.csv",
    "history.csv",
    "config.toml",
    "run.log",
    "graph.svg",
    "report.html",
    "result.json",
    "summary.txt",
    "pruned.csv",
}


class Pieces(StructureLearner):
    """A toy learner that works in four random pieces and can be stopped after some of them."""

    stop_after: int | None = None
    computed: list[int] = []  # noqa: RUF012  # shared on purpose: counts over all instances

    def __init__(self, *, scale: float = 1.0, random_state: int | None = None) -> None:
        self.scale = scale
        self.random_state = random_state

    def _fit(self, source: Any) -> None:
        names = source.names
        total = np.zeros((len(names), len(names)))
        for k in range(4):
            if self.stop_after == k:
                raise KeyboardInterrupt
            total += checkpoint.piece(f"piece {k}", lambda k=k: self._draw(k, len(names)))["W"]
        self._keep(
            Graph.from_weights(np.triu(total, 1), names),
            raw_weights=total,
            history=[{"step": 1}],
            pruned=[],
            converged=True,
            n_iter=4,
        )

    def _draw(self, k: int, d: int) -> dict[str, np.ndarray]:
        Pieces.computed.append(k)
        rng = np.random.default_rng([self.random_state or 0, k])
        return {"W": self.scale * rng.normal(size=(d, d))}


class Undirected(StructureLearner):
    """A toy learner that returns a CPDAG."""

    def _fit(self, source: Any) -> None:
        graph = Graph.from_edges(source.names, [("x0", "x2"), ("x1", "x2")], [("x2", "x3")])
        self._keep(graph, raw_weights=graph.weights, history=[], pruned=[], converged=True, n_iter=1)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(LEARNERS, "pieces", Pieces)
    monkeypatch.setitem(LEARNERS, "undirected", Undirected)
    monkeypatch.setattr(Pieces, "stop_after", None)
    monkeypatch.setattr(Pieces, "computed", [])
    dag = simulate.dag(5, n_edges=6, random_state=0)
    simulate.linear(dag, n=200, random_state=1).to_csv("table.csv", index=False)
    return "table.csv"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_is_complete_and_repeats_bit_for_bit(data: str) -> None:
    result = runs.perform(TableConfig(data=(data,), method="notears"), "first")
    assert {path.name for path in Path("first").iterdir()} == FILES
    config, sha256 = runs.read_config("first/config.toml")
    assert config == result.config
    runs.perform(config, "second", expected=sha256)
    first, second = contents(Path("first")), contents(Path("second"))
    for name in FILES - {"run.log"}:
        assert first[name] == second[name], name
    assert formats.read("first/graph.json") == result.graph
    assert sorted(path.name for path in Path().iterdir()) == ["first", "second", "table.csv"]


def test_edges_are_those_of_the_graph(data: str) -> None:
    result = runs.perform(TableConfig(data=(data,), method="equal-variance", seed=1), "run")
    table = pd.read_csv("run/edges.csv")
    assert table.columns.tolist() == [
        "source",
        "target",
        "weight",
        "standardized",
        "standard_error",
        "strength",
    ]
    edges = result.graph.edges()
    assert list(zip(table.source, table.target, strict=True)) == [edge[:2] for edge in edges]
    assert table.weight.tolist() == pytest.approx([edge.weight for edge in edges])
    assert table[["standardized", "standard_error", "strength"]].notna().all(axis=None)
    versions = tomllib.loads(Path("run/config.toml").read_text())["versions"]
    assert {"polydag", "python", "numpy", "scipy", "numba"} <= versions.keys()


def test_undirected_edges_stay_undirected(data: str) -> None:
    result = runs.perform(TableConfig(data=(data,), method="undirected"), "run")
    read = formats.read("run/edges.csv")
    assert {str(edge) for edge in read.edges()} == {str(edge) for edge in result.graph.edges()}


def test_probabilities_are_written(data: str) -> None:
    result = runs.perform(TableConfig(data=(data,), method="equal-variance", seed=1), "run")
    chance = np.full(result.graph.adjacency.shape, 0.25)
    for kind in ("probability", "frequency", "votes"):
        confidence = Confidence(result.graph.names, chance, kind)
        runs.write(dataclasses.replace(result, confidence=confidence), kind)
        table = pd.read_csv(f"{kind}/edges.csv")
        assert (table[kind] == 0.25).all()
        assert (table["adjacent"] == 0.5).all()
        assert f"{kind} 0.25 (connected 0.50)" in Path(kind, "summary.txt").read_text()
        pairs = pd.read_csv(f"{kind}/pairs.csv")
        pd.testing.assert_frame_equal(pairs, confidence.pairs(), check_dtype=False)


def test_changed_data_is_noticed(data: str) -> None:
    runs.perform(TableConfig(data=(data,), method="equal-variance"), "first")
    config, sha256 = runs.read_config("first")
    Path(data).write_text(Path(data).read_text().replace("1", "2", 1))
    with pytest.raises(DataError, match=r"table.csv has changed"):
        runs.perform(config, "second", expected=sha256)
    assert not Path("second").exists()
    assert not Path("second.partial").exists()


def test_an_existing_folder_is_kept(data: str) -> None:
    config = TableConfig(data=(data,), method="equal-variance", seed=1)
    runs.perform(config, "run")
    before = contents(Path("run"))
    with pytest.raises(UsageError, match="run already exists"):
        runs.perform(config, "run")
    assert contents(Path("run")) == before
    runs.perform(dataclasses.replace(config, columns=("x0", "x1")), "run", force=True)
    assert formats.read("run/graph.json").n_nodes == 2
    assert sorted(path.name for path in Path().iterdir()) == ["run", "table.csv"]


def test_force_deletes_nothing_of_others(data: str) -> None:
    config = TableConfig(data=(data,), method="equal-variance")
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match=r"contains thesis.tex"):
        runs.perform(config, "mine", force=True)
    Path("file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        runs.perform(config, "file", force=True)
    assert Path("mine/thesis.tex").read_text() == "years of work"
    Path("empty").mkdir()
    runs.perform(config, "empty")
    Path("empty/notes.txt").write_text("seen by the board")
    with pytest.raises(UsageError, match=r"contains notes.txt"):
        runs.perform(config, "empty", force=True)
    Path("empty/notes.txt").unlink()
    runs.perform(config, "empty", force=True)
    assert {path.name for path in Path("empty").iterdir()} == FILES


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("after", [0, 3])
def test_a_full_disk_leaves_what_was_there(
    data: str, monkeypatch: pytest.MonkeyPatch, after: int, existing: bool
) -> None:
    config = TableConfig(data=(data,), method="equal-variance", seed=1)
    before = {}
    if existing:
        runs.perform(config, "run")
        before = contents(Path("run"))
    written = []
    real = Path.write_text

    def full(path: Path, text: str, **options: Any) -> int:
        written.append(path)
        if len(written) > after:
            path.write_bytes(text.encode()[:5])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, text, **options)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(DataError, match=r"run cannot be written: No space left on device"):
        runs.perform(config, "run", force=existing)
    assert (contents(Path("run")) if existing else {}) == before
    assert sorted(path.name for path in Path().iterdir()) == (["run"] if existing else []) + ["table.csv"]


def test_a_folder_that_may_not_be_made(data: str) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        runs.perform(TableConfig(data=(data,), method="equal-variance"), f"{data}/run")


@pytest.mark.parametrize(("error", "kept"), [(DataError("wrong"), False), (KeyboardInterrupt(), True)])
def test_invalid_data_leave_nothing_to_resume(data: str, error: BaseException, kept: bool) -> None:
    def stopped() -> None:
        with unfinished_run(Path("run"), resume=False, force=False) as folder:
            (folder / "a.piece").touch()
            raise error

    with pytest.raises(type(error)):
        stopped()
    assert Path("run.partial").exists() == kept


@pytest.mark.parametrize("seed", [5, None])
def test_an_interrupted_run_is_resumed_with_the_same_result(
    data: str, monkeypatch: pytest.MonkeyPatch, seed: int | None
) -> None:
    config = TableConfig(data=(data,), method="pieces", seed=seed)
    monkeypatch.setattr(Pieces, "stop_after", 2)
    with pytest.raises(KeyboardInterrupt) as stopped:
        runs.perform(config, "run")
    assert "--out run --resume" in stopped.value.__notes__[0]
    assert not Path("run").exists()
    with pytest.raises(UsageError, match="belongs to an interrupted run"):
        runs.perform(config, "run")
    monkeypatch.setattr(Pieces, "stop_after", None)
    result = runs.perform(config, "run", resume=True)
    assert Pieces.computed == [0, 1, 2, 3]
    assert not Path("run.partial").exists()
    runs.perform(result.config, "straight")
    for name in FILES - {"run.log"}:
        assert Path("run", name).read_bytes() == Path("straight", name).read_bytes(), name


def test_another_study_cannot_resume(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = TableConfig(data=(data,), method="pieces", seed=5)
    monkeypatch.setattr(Pieces, "stop_after", 2)
    with pytest.raises(KeyboardInterrupt):
        runs.perform(config, "run")
    monkeypatch.setattr(Pieces, "stop_after", None)
    with pytest.raises(UsageError, match=r"settings was .*now .*2\.0"):
        runs.perform(dataclasses.replace(config, settings={"scale": 2.0}), "run", resume=True)
    with pytest.raises(UsageError, match="seed was 5, now 6"):
        runs.perform(dataclasses.replace(config, seed=6), "run", resume=True)
    runs.perform(dataclasses.replace(config, jobs=2), "run", resume=True)
    runs.perform(config, "other", resume=True)  # nothing to resume: it starts
    assert Path("other/graph.json").read_text() == Path("run/graph.json").read_text()


def test_names_of_new_runs_are_free(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runs.next_free("runs", "a") == Path("runs/a-1")
    Path("runs/a-1").mkdir(parents=True)
    Path("runs/a-2.partial").mkdir()
    assert runs.next_free("runs", "a") == Path("runs/a-3")
    assert runs.last_partial("runs", "a") == Path("runs/a-2")
    assert runs.last_partial("runs", "b") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [("x = ", "not valid TOML"), ("x = 1", "no table"), ("[study]\ndata = 3", "list of texts")],
)
def test_a_bad_configuration_file(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=f"c.toml.*{words}"):
        runs.read_config(file)
    with pytest.raises(UsageError, match="cannot be read"):
        runs.read_config(tmp_path / "none.toml")


SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
from polydag.computing import checkpoint
from polydag.learners import LEARNERS, StructureLearner
class Slow(StructureLearner):
    def _fit(self, source):
        if {pieces}:
            import numpy as np
            checkpoint.piece("a", lambda: {{"x": np.ones(1)}})
        print("working", file=sys.stderr, flush=True)
        time.sleep(60)
LEARNERS["slow"] = Slow
from polydag.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("number", "code", "pieces"),
    [(signal.SIGINT, 130, False), (signal.SIGINT, 130, True), (signal.SIGTERM, 143, False)],
)
def test_stopping_a_real_process_leaves_nothing_half_written(
    data: str, number: signal.Signals, code: int, pieces: bool
) -> None:
    arguments = [sys.executable, "-c", SLOW.format(pieces=pieces), "fit", data, "-m", "slow", "-o", "runs/x"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "working\n"
        process.send_signal(number)
        out, told = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in told
    assert out == ""
    left = sorted(path.name for path in Path("runs").iterdir())
    assert left == (["x.partial"] if pieces else [])
    if number == signal.SIGINT:
        assert told.startswith("Interrupted.")
        assert ("--out runs/x --resume" in told) == pieces


def killed_before_its_first_piece(folder: Path) -> None:
    """What SIGKILL leaves of a run that has hardly begun."""
    folder.mkdir()
    (folder / ".lock").touch()
    (folder / "run.log").write_text("half a li")


@pytest.mark.parametrize("resume", [True, False])
def test_a_run_killed_before_its_first_piece_starts_again_either_way(data: str, resume: bool) -> None:
    config = TableConfig(data=(data,), method="pieces", seed=5)
    killed_before_its_first_piece(Path("run.partial"))
    runs.perform(config, "run", resume=resume)
    assert not Path("run.partial").exists()
    runs.perform(config, "straight")
    assert Path("run/graph.json").read_bytes() == Path("straight/graph.json").read_bytes()


def test_what_a_killed_run_left_is_cleaned_by_the_next(data: str) -> None:
    config = TableConfig(data=(data,), method="pieces", seed=5)
    left = Path(".run.writing")
    (left / "new").mkdir(parents=True)
    (left / "new" / "graph.json").write_text("half")
    runs.perform(config, "run")
    assert sorted(path.name for path in Path().iterdir()) == ["run", "table.csv"]
    left.mkdir()  # killed between the two renames of --force: the old folder is found again
    Path("run").rename(left / "old")
    with pytest.raises(UsageError, match="already exists"), runs.new_folder("run"):
        pass
    assert contents(Path("run"))
    assert not left.exists()


def test_two_runs_do_not_write_into_one_folder(data: str) -> None:
    config = TableConfig(data=(data,), method="pieces", seed=5)
    with claimed(Path("run.partial"), Path("run")):
        for options in ({}, {"force": True}, {"resume": True}):
            with pytest.raises(UsageError, match="Another run is writing run now"):
                runs.perform(config, "run", **options)
    with (
        runs.new_folder("simulated"),
        pytest.raises(UsageError, match="Another run is writing simulated"),
        runs.new_folder("simulated"),
    ):
        pass
    runs.perform(config, "run")
    assert not Path("run.partial").exists()


def test_a_damaged_fingerprint_is_named_and_a_damaged_piece_is_computed_again(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TableConfig(data=(data,), method="pieces", seed=5)
    monkeypatch.setattr(Pieces, "stop_after", 2)
    with pytest.raises(KeyboardInterrupt):
        runs.perform(config, "run")
    monkeypatch.setattr(Pieces, "stop_after", None)
    fingerprint = Path("run.partial/fingerprint")
    whole = fingerprint.read_bytes()
    fingerprint.write_bytes(whole[:-3])
    with pytest.raises(DataError, match=r"run\.partial/fingerprint is damaged.*--force"):
        runs.perform(config, "run", resume=True)
    fingerprint.write_bytes(whole)
    damaged = sorted(Path("run.partial").glob("*.piece"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    runs.perform(config, "run", resume=True)
    assert sorted(Pieces.computed) in ([0, 0, 1, 2, 3], [0, 1, 1, 2, 3])
    runs.perform(config, "straight")
    assert Path("run/graph.json").read_bytes() == Path("straight/graph.json").read_bytes()
