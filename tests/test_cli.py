"""The command line: what people type, what they get, and which errors they see."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numba import njit
from typer.testing import CliRunner

from polydag import formats, simulate
from polydag.cli.main import app
from polydag.cli.terminal import progress as cli_progress
from polydag.cli.terminal.compiling import COMPILING, compilation_reported
from polydag.computing.progress import Step, listening, report
from polydag.errors import ConvergenceWarning
from polydag.graph import Graph
from polydag.learners import LEARNERS, StructureLearner
from printed import without_compilation

FAST = ["--method", "equal-variance", "--seed", "1"]


class Outcome:
    """What a command said and how it ended."""

    def __init__(self, *arguments: object) -> None:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        self.code, self.out, self.err, self.exception = (
            result.exit_code,
            result.stdout,
            result.stderr,
            result.exception,
        )

    def refused(self, code: int, *words: str) -> None:
        """The error is told in words, on stderr only, without a traceback."""
        assert self.code == code, (self.out, self.err, self.exception)
        for word in words:
            assert word in self.err, self.err
        assert "Traceback" not in self.err
        assert "Unexpected" not in self.err
        assert not Path("runs").exists() or not any(Path("runs").iterdir())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def frame() -> pd.DataFrame:
    names = ["age", "income", "salt", "pressure [mmHg]", "risk"]
    dag = simulate.dag(5, n_edges=6, names=names, random_state=0)
    formats.write(dag, "truth.json")
    return simulate.linear(dag, n=200, random_state=1)


@pytest.fixture
def data(frame: pd.DataFrame) -> str:
    frame.to_csv("people.csv", index=False)
    return "people.csv"


# What works


def test_fit_shows_edges_by_name_and_writes_a_folder(data: str) -> None:
    done = Outcome("fit", data, *FAST, "--truth", "truth.json")
    assert done.code == 0, done.err
    assert "pressure [mmHg]" in done.out
    assert "SHD" in done.out
    assert "runs/people-equal-variance-1" in done.out
    assert formats.read("runs/people-equal-variance-1/graph.json").names[3] == "pressure [mmHg]"
    assert Outcome("fit", data, *FAST).code == 0
    assert Path("runs/people-equal-variance-2").is_dir()


def test_fit_with_json_is_one_document(data: str) -> None:
    done = Outcome("fit", data, *FAST, "--format", "json", "--out", "run", "--truth", "truth.json")
    found = json.loads(done.out)
    graph = formats.read("run/graph.json")
    assert [(e["source"], e["target"]) for e in found["edges"]] == [e[:2] for e in graph.edges()]
    assert found["comparison"]["true_edges"] == 6
    assert found["seed"] == 1
    assert without_compilation(done.err) == ""


def test_fit_repeats_a_configuration_bit_for_bit(data: str) -> None:
    assert Outcome("fit", data, "--method", "notears", "--set", "lambda=0.05", "--out", "first").code == 0
    assert Outcome("fit", "--config", "first/config.toml", "--out", "second").code == 0
    for name in ("graph.json", "edges.csv", "history.csv", "config.toml", "graph.svg"):
        assert Path("first", name).read_bytes() == Path("second", name).read_bytes()
    assert "lambda_ = 0.05" in Path("first/config.toml").read_text()


def test_options_take_precedence_over_the_configuration(data: str) -> None:
    assert (
        Outcome(
            "fit", data, "--method", "notears", "--set", "lambda=0.05", "--seed", 1, "--out", "first"
        ).code
        == 0
    )
    done = Outcome("fit", "--config", "first/config.toml", *FAST, "--columns", "age,risk", "--format", "json")
    found = json.loads(done.out)
    assert (found["method"], found["nodes"]) == ("equal-variance", ["age", "risk"])
    done = Outcome("fit", "--config", "first/config.toml", "--set", "threshold=0.3", "--format", "json")
    settings = json.loads(done.out)["settings"]
    assert (settings["lambda_"], settings["threshold"]) == (0.05, 0.3)


def test_changed_data_stops_a_repetition_unless_named(data: str, frame: pd.DataFrame) -> None:
    assert Outcome("fit", data, *FAST, "--out", "first").code == 0
    frame.iloc[:150].to_csv(data, index=False)
    Outcome("fit", "--config", "first/config.toml").refused(3, data, "has changed")
    assert Outcome("fit", data, "--config", "first/config.toml", "--out", "second").code == 0


def test_knowledge_is_honoured(data: str) -> None:
    Path("known.toml").write_text('forbidden = [["age", "risk"]]\nrequired = [["risk", "age"]]\n')
    done = Outcome("fit", data, *FAST, "--knowledge", "known.toml", "--out", "run")
    assert done.code == 0, done.err
    assert "risk" in formats.read("run/graph.json").parents("age")
    assert "known.toml" in Path("run/config.toml").read_text()


def test_a_database_is_read_by_query(frame: pd.DataFrame) -> None:
    sqlite3 = pytest.importorskip("sqlite3")
    pytest.importorskip("sqlalchemy")
    connection = sqlite3.connect("people.db")
    frame.to_sql("people", connection, index=False)
    connection.close()
    address = "sqlite:///people.db"
    assert Outcome("fit", address, "--query", "select * from people", *FAST, "--out", "run").code == 0
    assert Outcome("fit", "--config", "run/config.toml", "--out", "again").code == 0
    assert Path("run/graph.json").read_bytes() == Path("again/graph.json").read_bytes()
    Outcome("fit", address, *FAST).refused(2, "query")


def test_check_reports_and_tells_bad_data_by_its_code(data: str, frame: pd.DataFrame) -> None:
    done = Outcome("check", data)
    assert done.code == 0, done.out
    assert "pressure [mmHg]" in done.out
    assert "notears" in done.out
    frame.loc[3, "salt"] = np.nan
    frame["again"] = frame["age"]
    frame["one"] = 1.5
    frame.to_csv(data, index=False)
    done = Outcome("check", data)
    assert done.code == 3
    for words in ("values are missing: salt 1", "age = again", "column one", "--missing drop"):
        assert words in done.out
    found = json.loads(Outcome("check", data, data, "--format", "json").out)
    assert len(found["tables"]) == 2


@pytest.mark.parametrize("kind", ["linear", "mlp", "lagged", "discrete", "linked"])
def test_simulate_writes_data_with_its_truth(kind: str) -> None:
    options = ["--rows", 60, "--variables", 6, "--seed", 3]
    for name in ("a", "b"):
        done = Outcome("simulate", kind, *options, "--out", name)
        assert done.code == 0, done.err
        assert done.out == ""
    assert Path("a/data.csv").read_bytes() == Path("b/data.csv").read_bytes()
    truth = formats.read("a/truth.json")
    columns = pd.read_csv("a/data.csv").columns
    assert set(truth.names) <= set(columns)
    extra = {"lagged": {"lags.csv"}, "linked": {"clusters.csv"}}.get(kind, set())
    written = {path.name for path in Path("a").iterdir()}
    assert written == {"data.csv", "truth.json", "config.toml", ".files"} | extra
    Outcome("simulate", kind, *options, "--out", "a").refused(2, "a already exists", "--force")
    assert Outcome("simulate", kind, *options, "--out", "a", "--force").code == 0


def test_simulate_from_a_network_file() -> None:
    Path("net.csv").write_text("source,target,weight\nrain,wet,0.9\nsprinkler,wet,0.4\n")
    assert Outcome("simulate", "linear", "--network", "net.csv", "--rows", 50, "--out", "sim").code == 0
    assert pd.read_csv("sim/data.csv").columns.tolist() == ["rain", "wet", "sprinkler"]
    assert formats.read("sim/truth.json") == formats.read("net.csv")


def test_compare_reads_any_format_and_run_folders(data: str) -> None:
    assert Outcome("fit", data, *FAST, "--out", "run").code == 0
    Outcome("export", "truth.json", "truth.dot")
    found = json.loads(Outcome("compare", "truth.dot", "run", "--format", "json").out)
    assert found["true_edges"] == 6
    assert "SHD" in Outcome("compare", "truth.dot", "run").out
    perfect = json.loads(Outcome("compare", "truth.json", "truth.dot", "--format", "json").out)
    assert perfect["shd"] == 0
    both = json.loads(Outcome("compare", "truth.json", "run", "truth.dot", "--format", "json").out)
    assert both == {"run": found, "truth.dot": perfect}
    table = Outcome("compare", "truth.json", "run", "truth.dot").out
    assert "truth.dot" in table
    assert "arrowhead recall" in table


def test_report_and_plot_write_files_and_replace_none(data: str) -> None:
    assert Outcome("fit", data, *FAST, "--out", "run").code == 0
    assert "Written: run/report.html" in Outcome("report", "run", "--truth", "truth.json").err
    assert '"truth":[[' in Path("run/report.html").read_text()
    assert Outcome("report", "run", "run", "--out", "both.html").code == 0
    assert "--force" in Outcome("report", "run", "run", "--out", "both.html").err
    drawn = Outcome("plot", "run", "--top", "2", "--out", "figure.svg")
    assert drawn.code == 0
    assert Path("figure.svg").read_text().count("<polygon") == 2
    assert "--force" in Outcome("plot", "run", "--out", "figure.svg").err
    small = Outcome("plot", "run", "--width", 12, "--out", "small.svg")
    assert "choose fewer edges" in small.err
    refused = Outcome("report", ".")
    assert (refused.code, "not a run folder" in refused.err) == (3, True)


@pytest.mark.parametrize("ending", [".dot", ".graphml", ".csv", ".json", ".dagitty", ".pcalg.csv", ".svg"])
def test_export_to_every_format(data: str, ending: str) -> None:
    assert Outcome("fit", data, *FAST, "--out", "run").code == 0
    done = Outcome("export", "run", f"graph{ending}")
    assert done.code == 0, done.err
    if ending == ".svg":
        assert Path("graph.svg").read_bytes() == Path("run/graph.svg").read_bytes()
    else:
        skeleton = formats.read(f"graph{ending}").adjacency
        np.testing.assert_array_equal(skeleton, formats.read("run/graph.json").adjacency)
    again = Outcome("export", "run", f"graph{ending}")
    assert again.code == 2
    assert "--force" in again.err
    assert Outcome("export", "run", f"graph{ending}", "--force", "--quiet").err == ""


def test_demo_compares_with_truth_and_naive_answer() -> None:
    done = Outcome("demo")
    assert done.code == 0, done.err
    for words in ("the truth", "correlations", "boss", "runs/demo-1/table"):
        assert words in done.out
    assert Outcome("fit", "--config", "runs/demo-1/table/config.toml", "--out", "again").code == 0
    assert Path("again/graph.json").read_bytes() == Path("runs/demo-1/table/graph.json").read_bytes()
    found = json.loads(Outcome("demo", "table", "--format", "json").out)
    assert found["table"]["answers"]["boss"]["shd"] < found["table"]["answers"]["correlations"]["shd"]


@pytest.mark.parametrize("command", ["demo", "check", "fit", "simulate", "compare", "export"])
def test_help_has_an_example(command: str) -> None:
    done = Outcome(command, "--help")
    assert done.code == 0
    assert f"polydag {command}" in done.out


# What is refused, each with its exit code and in words


@pytest.mark.parametrize("command", [["fit"], ["check"]])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ["no such file"]),
        ("", ["is empty"]),
        ("a,b\n1.5,2.5\n1.5,2.5,3.5\n1.1,1.2\n", ["line 3"]),
        ("a,a\n1.5,2.5\n2.5,3.5\n", ["several columns have the name a"]),
        ("a,b\n1.5,2.5\n", ["only one row"]),
        ("a,b\n", ["no rows"]),
    ],
)
def test_a_bad_file(command: list[str], text: str | None, words: list[str]) -> None:
    if text is not None:
        Path("bad.csv").write_text(text)
    Outcome(*command, "bad.csv").refused(3, "bad.csv", *words)


def test_text_among_numbers_is_refused_and_listed_among_the_findings() -> None:
    Path("bad.csv").write_text("a,b\n" + "1.5,2.5\n2.5,1.25\n" * 5 + "oops,1.5\n")
    words = ("bad.csv", "column a", "line 12", "oops")
    Outcome("fit", "bad.csv").refused(3, *words)
    checked = Outcome("check", "bad.csv")
    assert checked.code == 3
    assert all(word in checked.out for word in words)
    assert "8 rows (73%) repeat an earlier row" in checked.out  # and what else there is to say


@pytest.mark.parametrize("method", ["notears", "equal-variance"])
@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([0.5, np.nan] * 100, ["extra", "line 3", "--missing drop|impute"]),
        ([0.5, np.inf] * 100, ["extra", "line 3", "inf"]),
        ([2.5] * 200, ["extra", "constant"]),
        (None, ["age = extra", "same values"]),
        (["yes", "no"] * 100, ["extra", "holds labels"]),
    ],
)
def test_a_bad_column(frame: pd.DataFrame, method: str, column: list[Any] | None, words: list[str]) -> None:
    frame["extra"] = frame["age"] if column is None else column
    frame.to_csv("people.csv", index=False)
    Outcome("fit", "people.csv", "-m", method).refused(3, "people.csv", *words)


def test_more_columns_than_rows_where_a_method_cannot() -> None:
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(size=(6, 8))).add_prefix("v").to_csv("wide.csv", index=False)
    Outcome("fit", "wide.csv", *FAST).refused(3, "wide.csv", "6 rows for 8 columns")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('required = [["age", "height"]]', ["height", "not among the variables"]),
        ('required = [["age", "risk"], ["risk", "age"]]', ["cycle", "age -> risk"]),
        ('required = [["age", "risk"]]\nforbidden = [["age", "risk"]]', ["age -> risk", "forbidden"]),
        ("required = [", ["TOML"]),
    ],
)
def test_bad_knowledge(data: str, text: str, words: list[str]) -> None:
    Path("known.toml").write_text(text)
    Outcome("fit", data, *FAST, "--knowledge", "known.toml").refused(3, "known.toml", *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit"], ["Name the data"]),
        (["fit", "people.csv", "--method", "magic"], ["magic", "Known are auto, notears", "voting"]),
        (
            ["fit", "people.csv", "--as", "heap"],
            ["heap", "table, parties, tasks", "--groups", "--method posterior"],
        ),
        (
            ["fit", "people.csv", "--as", "linked"],
            ["linked", "declare them with --groups, --links or --coords"],
        ),
        (["fit", "people.csv", "--as", "posterior"], ["posterior", "use --method posterior"]),
        (["fit", "people.csv", "--task-column", "age"], ["--task-column is only for --as tasks"]),
        (["fit", "people.csv", "--method", "admm"], ["admm works with --as parties"]),
        (["fit", "people.csv", "--method", "notears", "--set", "lamda=1"], ["lamda", "lambda_"]),
        (["fit", "people.csv", "--set", "lambda"], ["NAME=VALUE"]),
        (["fit", "people.csv", "--method", "notears", "--set", "lambda=-1"], ["lambda_", "-1"]),
        (["fit", "people.csv", "--missing", "guess"], ["guess"]),
        (["fit", "people.csv", "--columns", "age,,risk"], ["--columns"]),
        (["fit", "people.csv", "--kind", "age=round"], ["--kind", "age=round"]),
        (["fit", "people.csv", "--seed", "-1"], ["--seed"]),
        (["fit", "people.csv", "--jobs", "0"], ["--jobs"]),
        (["fit", "people.csv", "--query", "select 1"], ["people.csv", "query"]),
        (["fit", "people.csv", "--nonsense"], ["--nonsense"]),
        (["fit", "--config", "none.toml"], ["none.toml"]),
        (["export", "truth.json", "graph.xyz"], ["graph.xyz", ".dot"]),
        (["export", "truth.json", "."], ["is a folder"]),
        (["simulate", "magic"], ["magic"]),
        (["simulate", "linear", "--variables", "3", "--edges", "9"], ["3 nodes", "9"]),
        (["demo", "magic"], ["magic", "table"]),
        (["magic"], ["magic"]),
    ],
)
def test_wrong_usage(data: str, arguments: list[str], words: list[str]) -> None:
    Outcome(*arguments).refused(2, *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "people.csv", "--columns", "age,height"], ["people.csv", "height"]),
        (["fit", "people.csv", "--truth", "none.json"], ["none.json"]),
        (["fit", "people.txt"], ["people.txt", ".csv"]),
        (["compare", "truth.json", "none.dot"], ["none.dot"]),
        (["compare", "truth.json", "nothing"], ["not a run folder"]),
        (["export", "none.json", "graph.dot"], ["none.json"]),
        (["check", "people.csv", "none.csv"], ["none.csv"]),
    ],
)
def test_wrong_files(data: str, arguments: list[str], words: list[str]) -> None:
    Path("nothing").mkdir()
    Outcome(*arguments).refused(3, *words)


def test_a_run_folder_is_never_overwritten(data: str) -> None:
    assert Outcome("fit", data, *FAST, "--out", "run").code == 0
    before = Path("run/graph.json").stat().st_mtime_ns
    Outcome("fit", data, *FAST, "--out", "run").refused(2, "run already exists", "--force")
    assert Path("run/graph.json").stat().st_mtime_ns == before
    assert Outcome("fit", data, *FAST, "--out", "run", "--force").code == 0


class Restless(StructureLearner):
    """A toy that never converges."""

    def _fit(self, source: Any) -> None:
        import warnings

        warnings.warn("restless stopped early", ConvergenceWarning, stacklevel=2)
        report("restless", 1, 2, "hm")
        graph = Graph(np.zeros((len(source.names),) * 2), source.names)
        self._keep(graph, raw_weights=graph.weights, history=[], pruned=[], converged=False, n_iter=1)


class Broken(StructureLearner):
    """A toy with a fault."""

    def _fit(self, source: Any) -> None:
        raise ZeroDivisionError("fault inside")


def test_not_converged_is_code_4_with_a_folder(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS, "restless", Restless)
    done = Outcome("fit", data, "-m", "restless", "--out", "run", "--quiet")
    assert done.code == 4
    assert "did not converge" in done.err
    assert "restless stopped early" in done.out
    assert "NOT CONVERGED" in Path("run/summary.txt").read_text()
    assert "restless" in Path("run/run.log").read_text()


def test_a_fault_shows_its_place_only_when_asked(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS, "broken", Broken)
    done = Outcome("fit", data, "-m", "broken")
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "--debug" in done.err
    assert isinstance(Outcome("fit", data, "-m", "broken", "--debug").exception, ZeroDivisionError)
    shown = Outcome("fit", "none.csv", "--debug")
    assert shown.code == 3
    assert "Traceback" in shown.err


def test_resuming_what_never_began_begins(data: str) -> None:
    for where in ("--out", "run"), ():
        done = Outcome("fit", data, *FAST, *where, "--resume")
        assert done.code == 0
        assert "starting from the beginning" in done.err


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def work(quiet: bool) -> str:
        with cli_progress.displayed_progress(quiet=quiet):
            report("sweeping", 1, 3, "floor")
            report("sweeping", 3, 3, "floor")
        return str(capsys.readouterr().err)

    assert work(False) == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "sweeping" in work(False)
    assert work(True) == ""


def test_progress_of_long_work_is_a_line_now_and_then_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    clock = iter((0, 29, 31, 32, 60, 61, 62, 63, 64, 92))
    monkeypatch.setattr(cli_progress.time, "monotonic", lambda: next(clock))
    with cli_progress.displayed_progress(quiet=False):
        for step in ((0, 2, "hall"), (1, 2, "room")):
            report("house", *step)
        report("sweeping", 1, 3, "floor")
        report("sweeping", 3, 3, "floor")
        report("dusting", 1)
        report("house", 2, 2)
        report("garden", 0, 2)
        report("dusting", 1)  # again: nothing that has a known end is over by that
        report("mowing", 1, 9)
    first, second, third = capsys.readouterr().err.splitlines()
    assert first.endswith(" house 1/2 room")
    assert second.endswith(" house 1/2 room; dusting")
    assert third.endswith(" garden 0/2; mowing 1/9")


def steps_of_compilation() -> list[Step]:
    """What is reported while one function is compiled for another, in a thread, and when it runs again."""
    inner = njit(lambda x: x + 1)
    outer = njit(lambda x: inner(x) + 1)
    steps: list[Step] = []
    with listening(steps.append), compilation_reported():
        for _ in range(2):
            thread = threading.Thread(target=outer, args=(1,))
            thread.start()
            thread.join()
            report("ran", 1)
    njit(lambda x: x + 2)(1)  # nobody listens any more
    return steps


def test_compilation_is_reported_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polydag.cli.terminal.compiling._SECONDS", 60.0)
    assert [step.task for step in steps_of_compilation()] == ["ran", "ran"]
    monkeypatch.setattr("polydag.cli.terminal.compiling._SECONDS", 0.0)
    *compiling, first, second = steps_of_compilation()
    assert first.task == second.task == "ran"  # the second time nothing is compiled
    assert len(compiling) > 1
    assert {step.task for step in compiling} == {COMPILING}
    assert [step.total for step in compiling] == [None] * (len(compiling) - 1) + [0]


def test_compilation_is_announced_once_and_at_once(capsys: Any) -> None:
    for quiet, said in ((False, "Compiling, once, a while …\n"), (True, "")):
        with cli_progress.displayed_progress(quiet=quiet):
            for total in (None, None, 0, None, 0):
                report(COMPILING, 0, total, "once, a while")
        assert capsys.readouterr().err == said


# Real processes


def polydag(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polydag", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_real_process(data: str) -> None:
    done = polydag("fit", data, *FAST, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"] == "runs/people-equal-variance-1"
    assert without_compilation(done.stderr) == ""
    lost = polydag("fit", "none.csv")
    assert (lost.returncode, lost.stdout) == (3, "")
    assert lost.stderr.startswith("Error: none.csv")


def test_help_lists_every_method_shape_and_option() -> None:
    from polydag.studies.config.shapes import SHAPES, options
    from polydag.studies.methods import METHODS

    said = CliRunner().invoke(app, ["fit", "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"}).output
    words = said.split()
    for name, method in METHODS.items():
        assert f"{name} {method.summary}" in " ".join(words)
    for shape in SHAPES:
        assert shape in words
    for described in options().values():
        assert described.flags[0] in words or described.form == "data"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from polydag.cli.main import app; from typer.testing import CliRunner;"
        "assert CliRunner().invoke(app, ['fit', '--help']).exit_code == 0;"
        "print([m for m in ('numpy', 'pandas', 'scipy', 'sklearn', 'numba', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_the_version_and_completion() -> None:
    from polydag import __version__

    assert Outcome("--version").out == f"polydag {__version__}\n"
    assert "install-completion" in Outcome("--help").out
