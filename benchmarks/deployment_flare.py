"""NVIDIA FLARE as the transport: three sites and a server on one machine, over TLS, beside the targets.

    python benchmarks/deployment_flare.py [--seeds 1] [--d 50]

For each seed a new study of ADMM over three tables with d columns runs to its end, by the same commands as
anybody's: `coordinator run` and three times `site start`, all begun at the same moment. Times are those of
the coordinator's log, memory is the largest resident set of each process. Everything is on the same cores, so
other programs count: the load average of the machine is printed with the figures.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from keeping import keep, machine

from polydag import simulate

SITES = ("north", "south", "west")
TARGETS = {  # largest values aimed at
    "first round after the command, s": 15.0,
    "median round, s": 0.5,
    "100 rounds, s": 60.0,
    "idle process, MB": 150.0,
    "working process, MB": 250.0,
}
KINDS = {  # by what is in the command line
    "server_train": "server",
    "runner_process": "server's job",
    "client_train": "site's client",
    "worker_process": "site's job",
    "coordinator": "coordinator run",
    "site": "site start",
}
WORKING = ("coordinator run", "site start")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def polydag(folder: Path, *words: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "polydag", *map(str, words)]
    log = (folder / "output.txt").open("ab")
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def memory(folder: Path, largest: dict[str, float]) -> None:
    """Note the largest resident set of each kind of process, in MB."""
    for process in psutil.process_iter():
        try:
            words, size = process.cmdline(), process.memory_info().rss / 1e6
            own = str(folder) in " ".join(words) or process.cwd() == str(folder)
        except psutil.Error:
            continue
        kind = next((name for word, name in KINDS.items() if any(word in each for each in words[1:5])), None)
        if own and kind is not None:
            largest[kind] = max(largest.get(kind, 0.0), size)


def one(folder: Path, d: int, seed: int) -> dict[str, float]:
    dag = simulate.dag(d, n_edges=d, random_state=seed)
    rows = simulate.linear(dag, n=3000, random_state=seed)
    for k, site in enumerate(SITES):
        rows[1000 * k : 1000 * (k + 1)].to_csv(folder / f"{site}.csv", index=False)
    init = ("federation", "init", "study", "--sites", ",".join(SITES), "--method", "admm", "--seed", seed)
    made = polydag(folder, *init, "--transport", "nvflare", "--server", "localhost", "--port", free_port())
    assert made.wait() == 0, (folder / "output.txt").read_text()
    began, largest = datetime.datetime.now(), dict[str, float]()
    running = [polydag(folder, "coordinator", "run", "study", "--quiet")]
    for site in SITES:
        options = ("--data", f"{site}.csv", "--home", f"home-{site}", "--approve", "always", "--solvable")
        running.append(polydag(folder, "site", "start", f"kit-{site}", *options, "--quiet"))
    try:
        while any(process.poll() is None for process in running):
            memory(folder, largest)
            time.sleep(0.5)
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
                process.wait()
    # The method may stop before it has converged: what is measured is the way there.
    assert {process.returncode for process in running} <= {0, 4}, (folder / "output.txt").read_text()
    placed = [
        datetime.datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S,%f")
        for line in (folder / "study/run.log").read_text().splitlines()
        if re.search("placed question-", line)
    ]
    rounds = [(after - before).total_seconds() for before, after in itertools.pairwise(placed)]
    found = {
        "first round after the command, s": (placed[1] - began).total_seconds(),
        "median round, s": statistics.median(rounds),
        "100 rounds, s": sum(rounds[:100]) * 100 / min(100, len(rounds)),
        "idle process, MB": max(size for kind, size in largest.items() if kind not in WORKING),
        "working process, MB": max(size for kind, size in largest.items() if kind in WORKING),
        "rounds": len(rounds),
    }
    return found | {f"{kind}, MB": largest[kind] for kind in KINDS.values()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--d", type=int, default=50)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    lines = []
    for seed in range(given.seeds):
        with tempfile.TemporaryDirectory() as folder:
            found = one(Path(folder).resolve(), given.d, seed)
        load = os.getloadavg()[0]
        print(f"d = {given.d}, seed {seed}; load average {load:.1f} on {os.cpu_count()} cores")
        for what, value in found.items():
            aim = f"   target ≤ {TARGETS[what]:g}" if what in TARGETS else ""
            missed = "   MISSED" if what in TARGETS and value > TARGETS[what] else ""
            print(f"  {what:34s} {value:8.2f}{aim}{missed}")
            row = {"d": given.d, "seed": seed, "measure": what, "value": f"{value:.3f}"}
            lines.append({**row, "target": TARGETS.get(what, ""), "load_average": f"{load:.1f}"})
    keep("deployment_flare", lines, machine("nvflare"))


if __name__ == "__main__":
    main()
