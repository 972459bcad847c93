"""Full disks, read-only folders, no home, killed workers, Ctrl-C: a clear error, and nothing corrupt."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import polydag
from polydag import GES, Bootstrap, formats, simulate
from polydag.computing.interruption import INTERRUPTED
from polydag.errors import PolydagError

COMMAND = f"{sys.executable} -m polydag"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    simulate.linear(simulate.dag(5, n_edges=5, random_state=0), n=200, random_state=1).to_csv(
        path, index=False
    )
    return path


def in_own_mounts(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script that may mount file systems of its own."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"]).returncode:
        pytest.skip("unshare -rm does not work here: no file systems of our own")
    return subprocess.run(
        ["unshare", "-rm", "sh", "-ec", script], capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(("room", "word"), [(0, "run.log"), (12, "o cannot be written")])
def test_a_full_disk(table: Path, tmp_path: Path, room: int, word: str) -> None:
    room += -(-table.stat().st_size // 4096) * 4
    done = in_own_mounts(
        f"mkdir {tmp_path}/disk; mount -t tmpfs -o size={room}k tmpfs {tmp_path}/disk; cd {tmp_path}/disk\n"
        f"cp {table} .; {COMMAND} fit t.csv -m equal-variance --out o && code=0 || code=$?\n"
        "echo code $code; ls -A"
    )
    assert done.stdout.split() == ["code", "3", "t.csv"]
    assert word in done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_read_only_folder(table: Path, tmp_path: Path) -> None:
    done = in_own_mounts(
        f"mkdir {tmp_path}/disk; mount -t tmpfs tmpfs {tmp_path}/disk; cd {tmp_path}/disk; cp {table} .\n"
        f"mount -o remount,ro {tmp_path}/disk\n"
        f"for c in 'fit t.csv -m equal-variance --out o' 'simulate linear --out o'; do\n"
        f"{COMMAND} $c && echo 0 || echo $?; done"
    )
    assert done.stdout.split() == ["3", "3"]
    assert done.stderr.count("o cannot be written: Read-only file system") == 2
    assert "Traceback" not in done.stderr


def test_neither_home_nor_package_can_be_written_to(table: Path, tmp_path: Path) -> None:
    source = Path(polydag.__file__).parents[1]
    done = in_own_mounts(
        f"mount --bind {source} {source}; mount -o remount,ro,bind {source}\n"
        f"mkdir {tmp_path}/h; mount -t tmpfs tmpfs {tmp_path}/h; mount -o remount,ro {tmp_path}/h\n"
        f"cd {tmp_path}; unset XDG_CACHE_HOME NUMBA_CACHE_DIR; HOME={tmp_path}/h TMPDIR={tmp_path}\n"
        f"export HOME TMPDIR; {COMMAND} fit t.csv -m equal-variance --out o --quiet; ls -A"
    )
    assert "Traceback" not in done.stderr
    assert "Run folder: o" in done.stdout
    assert done.stdout.split()[-3:] == ["h", "o", "t.csv"]


class Deadly(GES):
    """A learner that ends its process."""

    def _fit(self, source: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_reported() -> None:
    X = simulate.linear(simulate.dag(4, n_edges=3, random_state=0), n=60, random_state=1)
    with pytest.raises(PolydagError, match=r"worker process.*killed.*memory"):
        Bootstrap(Deadly(), n_resamples=4, n_jobs=2, random_state=0).fit(X)


@pytest.mark.parametrize("seconds", [0.3, 4.0])
def test_ctrl_c_ends_with_130_and_no_traceback(table: Path, seconds: float) -> None:
    """Ctrl-C goes to the whole group of processes: while the command is imported, and while workers start."""
    arguments = [
        "fit",
        "t.csv",
        "-m",
        "boss",
        "--bootstrap",
        "2000",
        "--jobs",
        "2",
        "--seed",
        "1",
        "--out",
        "o",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "polydag", *arguments],
        cwd=table.parent,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.startswith("Interrupted.") or "\nInterrupted." in told
    assert "Traceback" not in told
    assert {path.name for path in table.parent.iterdir()} <= {"t.csv", "o.partial"}


@pytest.mark.parametrize(
    "options",
    [
        ["-m", "boss", "--bootstrap", "60"],
        [
            "-m",
            "posterior",
            "--set",
            "method=mcmc",
            "--set",
            "bucket_size=2",
            "--set",
            "n_steps=10000",
        ],
    ],
    ids=["bootstrap", "chains"],
)
def test_a_killed_run_goes_on_and_ends_as_if_nothing_had_been(table: Path, options: list[str]) -> None:
    """SIGKILL once the first piece is stored; the files of the resumed run are those of a run left alone."""
    command = [sys.executable, "-m", "polydag", "fit", "t.csv", *options, "--seed", "1", "--quiet"]
    with subprocess.Popen([*command, "--out", "o"], cwd=table.parent, stdout=subprocess.DEVNULL) as run:
        for _ in range(600):
            if any(table.parent.glob("o.partial/**/*.piece")) or run.poll() is not None:
                break
            time.sleep(0.05)
        run.kill()
    assert not (table.parent / "o").exists()
    for arguments in ([*command, "--out", "o", "--resume"], [*command, "--out", "whole"]):
        done = subprocess.run(arguments, cwd=table.parent, capture_output=True, text=True, timeout=300)
        assert done.returncode in (0, 4), done.stderr
    for name in ("graph.json", "edges.csv", "pairs.csv", "history.csv"):
        again, whole = (table.parent / folder / name for folder in ("o", "whole"))
        assert again.read_bytes() == whole.read_bytes()


def test_ctrl_c_during_a_search_writes_the_best_graph_until_then(tmp_path: Path) -> None:
    """A search that takes much longer than the rest, stopped as soon as it reports its progress."""
    dag = simulate.weights(simulate.dag(250, expected_edges=2500, random_state=0), 0.1, 1.0, random_state=0)
    simulate.linear(dag, n=1000, random_state=0).to_csv(tmp_path / "t.csv", index=False)
    with subprocess.Popen(
        [sys.executable, "-m", "polydag", "fit", "t.csv", "--out", "o"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stderr is not None
        log = tmp_path / "o.partial" / "run.log"
        while process.poll() is None and not (log.exists() and "BOSS" in log.read_text()):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        told = process.stderr.read()
    assert process.returncode == 130
    assert "the search ends with the best graph found so far" in told
    assert "Traceback" not in told
    assert INTERRUPTED in (tmp_path / "o" / "result.json").read_text()
    assert len(formats.read(tmp_path / "o" / "graph.json").edges()) > 100
