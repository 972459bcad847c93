"""Studies whose files NVIDIA FLARE carries: startup kits, real processes over TLS, and what goes wrong."""

from __future__ import annotations

import datetime
import doctest
import json
import os
import random
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from polydag.deployment.flare.certificates import announcement, expiry
from polydag.deployment.flare.relay import Relay, is_name_of
from polydag.errors import DataError
from test_exchange import PATIENCE, SITES, Processes, contents, polydag, tables

pytestmark = pytest.mark.xdist_group("flare")  # one server at a time on a machine of two cores
KILLS = 20  # of each kind of process
_PROCESSES = {
    "server": "nvflare.private.fed.app.server.server_train",
    "server's job": "nvflare.private.fed.app.server.runner_process",
    "site's client": "nvflare.private.fed.app.client.client_train",
    "site's job": "nvflare.private.fed.app.client.worker_process",
}


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class FlareProcesses(Processes):
    """Real processes of one study, with FLARE's own below them; all are ended by their ids."""

    prefix: tuple[str, ...] = ()  # of the commands

    def __init__(self, folder: Path, method: str = "boss", *options: str) -> None:
        self.folder, self.files = folder, tables(folder)
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.port = free_port()
        init = ("federation", "init", folder / "study", "--sites", ",".join(SITES), "--method", method)
        transport = ("--transport", "nvflare", "--server", "localhost", "--port", self.port)
        polydag(*init, *transport, "--seed", 3, *options)

    @classmethod
    def of_study(cls, folder: Path) -> FlareProcesses:
        """The processes of a study that was made by other means."""
        found = cls.__new__(cls)
        found.folder, found.running = folder, {}
        return found

    def start(self, who: str) -> None:
        words = ["coordinator", "run", "study"]
        if who != "coordinator":
            words = ["site", "start", f"kit-{who}", "--data", str(self.files[who]), "--home", f"home-{who}"]
            words += ["--approve", "always", "--solvable"]
        self.enter(who, words)

    def enter(self, who: str, words: list[str]) -> None:
        self.running[who] = subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "polydag", *words],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def start_all(self) -> None:
        for who in ("coordinator", *SITES):
            self.start(who)

    def __enter__(self) -> FlareProcesses:
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for process in self.of_flare():
            process.kill()

    def of_flare(self, kind: str = "") -> list[psutil.Process]:
        """FLARE's processes of this study."""
        found = []
        for process in psutil.process_iter():
            try:
                words = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if f"{self.folder}/" in words and _PROCESSES.get(kind, "nvflare.private.fed.app.") in words:
                found.append(process)
        return found

    def number(self) -> int:
        """The last question that the coordinator has placed."""
        placed = (self.folder / "study/private/flare/exchange").glob("*/question-*")
        return max((int(path.name.split("-")[1]) for path in placed), default=0)

    def wait_for_question(self, number: int) -> None:
        """Wait until the coordinator has placed this question, or a later one."""
        end = time.monotonic() + PATIENCE
        while self.number() < number:
            assert time.monotonic() < end, (number, self.number())
            if self.running["coordinator"].poll() is not None:
                raise AssertionError(self.finish("coordinator"))
            time.sleep(0.05)

    def kill(self, kind: str, rng: random.Random) -> None:
        """Kill one of FLARE's processes as soon as there is one, or a command, which starts again."""
        if kind in _PROCESSES:
            end = time.monotonic() + PATIENCE
            while not (found := self.of_flare(kind)):
                assert time.monotonic() < end, kind
                time.sleep(0.05)
            rng.choice(found).kill()
            return
        who = rng.choice(SITES) if kind == "site" else "coordinator"
        self.running[who].kill()
        self.running[who].communicate()
        self.start(who)

    def finish_all(self) -> dict[str, str]:
        return {who: self.finish(who) for who in ("coordinator", *SITES)}


def as_in_one_process(processes: FlareProcesses, method: str, *options: object) -> Path:
    folder = processes.folder / "one"
    fitted = ("fit", "--as", "parties", *processes.files.values(), "--method", method, "--seed", 3)
    code = 4 if "schedule=paper" in options else 0  # it does not converge
    polydag(*fitted, *options, "--out", folder, code=code)
    return folder


def assert_as_undisturbed(processes: FlareProcesses, said: dict[str, str], *options: object) -> None:
    """What was found in the open is that of one process, bit for bit."""
    assert all("The study is finished." in said[site] for site in SITES), said
    one = as_in_one_process(processes, "admm", *options)
    for name in ("graph.json", "edges.csv"):
        assert (processes.folder / "study/run" / name).read_text() == (one / name).read_text()


def weights(run: Path) -> np.ndarray:
    rows = np.genfromtxt(run / "edges.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    return np.atleast_1d(rows["weight"])


def written(page: Path) -> tuple[str, list[tuple[str, list[str]]]]:
    """The Python of a page, and its shell commands with the terminals in which they are entered."""
    text = page.read_text(encoding="utf-8")
    python = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    source = "".join(each.source for part in python for each in doctest.DocTestParser().get_examples(part))
    shell = re.findall(r'^```bash title="(\w+)"\n(.*?)\n```$', text, re.M | re.S)
    return source, [(terminal, shlex.split(line)) for terminal, line in shell]


def test_the_tutorial_finds_the_graph_of_one_process_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, entered = written(Path(__file__).parents[1] / "docs/tutorials/three-sites-with-flare.md")
    exec(source, {})
    (_, init), *started, (_, fit) = entered
    assert [terminal for terminal, _ in started] == ["coordinator", *SITES]
    polydag(*init[1:-1], free_port())
    shown = b""
    with FlareProcesses.of_study(tmp_path) as processes:
        for terminal, (command, *words) in started:
            assert command == "polydag"
            processes.enter(terminal, words)
        while any(process.poll() is None for process in processes.running.values()):
            for process in psutil.process_iter():
                try:
                    shown += " ".join(process.cmdline()).encode()
                except psutil.Error:
                    continue
            time.sleep(1.0)
        said = processes.finish_all()
        assert processes.of_flare() == []
    assert "boss: 5 edges among 5 variables, 600 rows" in said["coordinator"], said
    assert all("The study is finished." in said[site] for site in SITES), said
    polydag(*fit[1:])
    assert (tmp_path / "study/run/graph.json").read_text() == (tmp_path / "together/graph.json").read_text()
    np.testing.assert_allclose(weights(tmp_path / "study/run"), weights(tmp_path / "together"), rtol=1e-6)
    for site in SITES:
        for name in ("graph.json", "edges.csv"):
            given = tmp_path / f"kit-{site}/result" / name
            assert given.read_text() == (tmp_path / "study/run" / name).read_text()
    kits = [tmp_path / f"kit-{site}" for site in SITES]
    secrets = [json.loads((kit / "kit.json").read_text())["token"] for kit in kits]
    secrets += [(tmp_path / f"home-{site}/identity.key").read_text().strip() for site in SITES]
    shown += "".join(said.values()).encode() + contents(tmp_path / "study/run")
    for kit in (*kits, tmp_path / "study/private"):
        shown += b"".join(path.read_bytes() for path in (kit / "flare").glob("*.log"))
        shown += b"".join(path.read_bytes() for path in (kit / "flare").glob("*.txt"))
        shown += contents(kit / "flare/exchange")
    assert not [secret for secret in secrets if secret.encode() in shown or bytes.fromhex(secret) in shown]
    assert b"PRIVATE KEY" not in shown
    assert not list(Path(tmp_path / "study/private/flare/tmp").iterdir())


def test_a_coordinator_in_the_background_says_how_far_it_is_and_stops(tmp_path: Path) -> None:
    study = tmp_path / "study"
    with FlareProcesses(tmp_path) as processes:
        assert "runs in the background" in polydag("coordinator", "start", study)
        try:
            status = polydag("coordinator", "status", study)
            assert "A coordinator is running" in status
            assert "It waits for north, south, west" in status
            assert "Another coordinator is running" in polydag("coordinator", "start", study, code=2)
        finally:
            polydag("coordinator", "stop", study)
        end = time.monotonic() + PATIENCE
        while "No coordinator is running" not in polydag("coordinator", "status", study):
            assert time.monotonic() < end
            time.sleep(0.2)
        assert processes.of_flare() == []
    assert "Stopped; the study waits for north, south, west" in (study / "coordinator.log").read_text()
    (study / "run").mkdir()
    assert "It ended immediately" in polydag("coordinator", "start", study, code=2)


def test_kits_hold_their_own_keys_only_and_can_be_renewed(tmp_path: Path) -> None:
    with FlareProcesses(tmp_path):
        pass
    kits = {site: tmp_path / f"kit-{site}/flare" for site in SITES}
    server = tmp_path / "study/private/flare"
    for kit in (*kits.values(), server):
        assert {path.stat().st_mode & 0o077 for path in (kit, *kit.rglob("*"))} == {0}
        end, _ = expiry(kit)
        assert announcement(kit) is None
        assert "in 29 days" in str(announcement(kit, end - datetime.timedelta(days=29.5)))
        with pytest.raises(DataError, match="expired on"):
            announcement(kit, end + datetime.timedelta(seconds=1))
    keys = [path for path in tmp_path.rglob("*.key") if path.parent.name == "startup"]
    assert sorted(path.parent.parent for path in keys) == sorted((*kits.values(), server))
    assert set(json.loads((server / "authority/cert.json").read_text())) == {"root_cert", "root_pri_key"}
    before = {site: (kit / "startup/client.crt").read_bytes() for site, kit in kits.items()}
    polydag("federation", "renew", tmp_path / "study", "--kits", tmp_path / "renewed")
    for site, kit in kits.items():
        new = tmp_path / f"renewed/kit-{site}/flare/startup"
        assert (new / "client.crt").read_bytes() != before[site]
        assert (new / "rootCA.pem").read_bytes() == (kit / "startup/rootCA.pem").read_bytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--server", "not a host"), "--server must be a host name"),
        (("--server", "localhost", "--port", 70000), "--port must be from 1 to 65535"),
        ((), "needs --server"),
        (("--server", "localhost", "--sites", "a,b,ç"), "letters, digits, - and _ only"),
    ],
)
def test_names_that_flare_does_not_accept_leave_nothing_behind(
    tmp_path: Path, options: tuple[object, ...], said: str
) -> None:
    words = ("federation", "init", tmp_path / "study", "--sites", "a,b,c", "--transport", "nvflare")
    assert said in polydag(*words, *options, code=2)
    assert list(tmp_path.iterdir()) == []


def test_what_comes_through_flare_is_a_file_of_that_site_or_nothing(tmp_path: Path) -> None:
    assert is_name_of("answer-12-north.polydag", "answer", "north")
    assert is_name_of("join-north.polydag", "join", "north")
    for name in (
        "answer-12-south.polydag",
        "question-12-north.polydag",
        "../answer-1-north.polydag",
        "answer-1-../north.polydag",
        "answer--1-north.polydag",
        "join-south.polydag",
        "done",
        None,
        7,
    ):
        assert not is_name_of(name, "answer", "north")
        assert not is_name_of(name, "join", "north")
    relay = Relay(tmp_path / "files", SITES)
    for name in ("question-1-north", "question-2-north", "answer-1-north", "question-9-west"):
        relay.put(f"{name}.polydag", b"")
    assert {site: name for site, (name, _) in relay.questions().items()} == {
        "north": "question-2-north.polydag",
        "west": "question-9-west.polydag",
    }
    relay.forget_before("question-2-north.polydag")
    assert not (relay.files / "question-1-north.polydag").exists()
    assert (relay.files / "answer-1-north.polydag").exists()
    assert not relay.is_done
    relay.set_done()
    assert relay.is_done


@pytest.mark.slow
def test_sums_in_the_open_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    options = ("--set", "mode=none")
    with FlareProcesses(tmp_path, "admm", *options) as processes:
        processes.start_all()
        said = processes.finish_all()
    assert "admm" in said["coordinator"], said
    one = as_in_one_process(processes, "admm", *options)
    for name in ("graph.json", "edges.csv"):
        assert (tmp_path / "study/run" / name).read_text() == (one / name).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*_PROCESSES, "coordinator", "site"])
def test_no_run_is_lost_when_processes_are_killed_twenty_times(tmp_path: Path, kind: str) -> None:
    """Most kills come up to two seconds after a new question, every fourth while the last one is mended."""
    rng, options = random.Random(kind), ("--set", "mode=none", "--set", "schedule=paper")
    with FlareProcesses(tmp_path, "admm", *options) as processes:
        processes.start_all()
        for kill in range(KILLS):
            if kill % 4 == 3:
                time.sleep(rng.uniform(0.0, 10.0))
            else:
                processes.wait_for_question(processes.number() + 1)
                time.sleep(rng.uniform(0.0, 2.0))
            processes.kill(kind, rng)
        said = processes.finish_all()
        assert processes.of_flare() == []
    assert_as_undisturbed(processes, said, *options)


@pytest.mark.slow
def test_a_site_that_does_not_answer_for_a_minute_is_waited_for(tmp_path: Path) -> None:
    with FlareProcesses(tmp_path, "admm") as processes:
        processes.start_all()
        end = time.monotonic() + PATIENCE
        while processes.number() < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        frozen = [
            each for each in processes.of_flare() if f"{tmp_path}/kit-west/" in " ".join(each.cmdline())
        ]
        for process in frozen:
            process.suspend()
        time.sleep(60)
        for process in frozen:
            process.resume()
        said = processes.finish_all()
    assert all("The study is finished." in said[site] for site in SITES), said
    one = as_in_one_process(processes, "admm")
    assert (tmp_path / "study/run/graph.json").read_text() == (one / "graph.json").read_text()


@pytest.mark.slow
def test_the_network_is_gone_for_a_minute(tmp_path: Path) -> None:
    holder = subprocess.Popen(["unshare", "--net", "sleep", "3600"], stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(1.0)
        if holder.poll() is not None:
            pytest.skip(f"no network namespace can be made here: {holder.communicate()[1]}")
        inside = ("nsenter", "--target", str(holder.pid), "--net")
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        with FlareProcesses(tmp_path, "admm") as processes:
            processes.prefix = inside
            processes.start_all()
            end = time.monotonic() + PATIENCE
            while processes.number() < 3:
                assert time.monotonic() < end
                time.sleep(0.05)
            subprocess.run([*inside, "ip", "link", "set", "lo", "down"], check=True)
            time.sleep(60)
            subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
            said = processes.finish_all()
    finally:
        holder.kill()
        holder.communicate()
    assert all("The study is finished." in said[site] for site in SITES), said
    one = as_in_one_process(processes, "admm")
    assert (tmp_path / "study/run/graph.json").read_text() == (one / "graph.json").read_text()


@pytest.mark.slow
def test_a_kit_of_another_authority_is_refused_and_disturbs_nobody(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with FlareProcesses(tmp_path) as processes:
        other = tmp_path / "other"
        words = ("--sites", ",".join(SITES), "--method", "boss", "--transport", "nvflare")
        polydag(
            "federation", "init", other / "study", *words, "--server", "localhost", "--port", processes.port
        )
        strange = ("site", "start", other / "kit-north", "--data", processes.files["north"])
        stranger = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "polydag",
                *map(str, strange),
                "--home",
                other / "home",
                "--approve",
                "always",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            processes.start_all()
            said = processes.finish_all()
            assert stranger.poll() is None
        finally:
            stranger.terminate()
            stranger.wait(timeout=30)
    assert "boss: 5 edges among 5 variables, 150 rows" in said["coordinator"], said
    assert (tmp_path / "study/run/graph.json").exists()


@pytest.mark.slow
def test_filters_of_a_site_are_enforced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "refusing.py").write_text(
        "from nvflare.apis.filter import Filter\n"
        "class Refusing(Filter):\n"
        "    def process(self, shareable, fl_ctx):\n"
        "        raise RuntimeError('nothing leaves')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with FlareProcesses(tmp_path) as processes:
        scope = {"name": "public", "task_result_filters": [{"path": "refusing.Refusing"}]}
        privacy = {"scopes": [scope], "default_scope": "public"}
        (tmp_path / "kit-west/flare/local/privacy.json").write_text(json.dumps(privacy))
        processes.start_all()
        end = time.monotonic() + PATIENCE
        joined = tmp_path / "study/joined"
        while len(list(joined.iterdir())) < 2:
            assert time.monotonic() < end
            time.sleep(0.1)
        time.sleep(15)
        assert sorted(path.stem for path in joined.iterdir()) == ["north", "south"]
        assert "It waits for west" in polydag("coordinator", "status", tmp_path / "study")
        logs = [path.read_text() for path in (tmp_path / "kit-west/flare").glob("*/log.txt")]
    assert any("nothing leaves" in log for log in logs)
