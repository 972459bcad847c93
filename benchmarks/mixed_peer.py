"""The networks of `mixed.py` beside a peer with a score for mixed columns: pgmpy's hill climbing with BIC-CG.

The peer runs in an environment of its own, so that its dependencies do not matter here:

    python -m venv peer && peer/bin/pip install pgmpy
    python benchmarks/mixed_peer.py --peer peer/bin/python [--seeds 3] [--first 100] [--seconds 60]

Skeletons are compared, as in `mixed.py`. A fit that takes more than `--seconds`, or a peer that cannot be
imported, is reported with its reason and left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from keeping import keep, machine
from mixed import Levels, table

from polydag import BOSS
from polydag.sources import InMemory

PROGRAM = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import pandas as pd
from pgmpy.estimators import HillClimbSearch
labels = json.loads(sys.argv[2])
frame = pd.read_csv(sys.argv[1], dtype={name: str for name in labels})
frame = frame.astype({name: "category" for name in labels})
start = time.process_time()
found = HillClimbSearch(frame).estimate(scoring_method="bic-cg", show_progress=False)
print(json.dumps({"edges": list(found.edges()), "seconds": time.process_time() - start}))
"""


def from_peer(python: str, frame: pd.DataFrame, levels: Levels, seconds: float) -> tuple[Any, float] | str:
    """The skeleton that the peer finds and its CPU time; or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        frame.to_csv(path, index=False)
        command = [python, "-c", PROGRAM, str(path), json.dumps(list(levels))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return f"more than {seconds:g} s"
        except OSError as error:
            return f"no such interpreter: {error.strerror}"
    if done.returncode:
        return done.stderr.strip().rpartition("\n")[2][:100]
    answer = json.loads(done.stdout.strip().rpartition("\n")[2])
    place = {str(name): k for k, name in enumerate(frame.columns)}
    joined = np.zeros((len(place), len(place)), dtype=bool)
    for a, b in answer["edges"]:
        joined[place[a], place[b]] = joined[place[b], place[a]] = True
    return joined, answer["seconds"]


def ours(frame: pd.DataFrame, levels: Levels, criterion: str) -> tuple[Any, float]:
    """The skeleton that BOSS finds, and its CPU time."""
    kinds: Any = {name: "discrete" if name in levels else "continuous" for name in frame}
    start = time.process_time()
    A = BOSS(criterion=criterion).fit(InMemory(frame, kinds=kinds)).graph_.adjacency
    return A | A.T, time.process_time() - start


def main() -> None:
    """Run all settings and keep their means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", default=sys.executable, help="an interpreter that can import pgmpy")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    parser.add_argument("--seconds", type=float, default=60, help="for each fit of the peer")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    ours(*table(0, 200, 5)[1:], "dg")  # compiles
    ours(*table(0, 200, 5)[1:], "cg")
    for design, d, n in product(("means", "spreads"), (20, 50), (200, 1000)):
        found: dict[str, list[tuple[float, float]]] = {}
        refused = ""
        for seed in range(given.first, given.first + given.seeds):
            dag, frame, levels = table(seed, n, d, spreads=design == "spreads")
            true = dag.adjacency | dag.adjacency.T
            answers: dict[str, Any] = {way: ours(frame, levels, way) for way in ("dg", "cg")}
            if not refused:  # the other seeds would take as long
                answers["pgmpy"] = from_peer(given.peer, frame, levels, given.seconds)
            for way, answer in answers.items():
                if isinstance(answer, str):
                    refused = answer
                    continue
                skeleton, spent = answer
                found.setdefault(way, []).append(((true ^ skeleton).sum() / 2, spent))
        for way in ("dg", "cg", "pgmpy"):
            own = found.get(way, [])
            wrong, spent = np.mean(own, axis=0) if own else (np.nan, np.nan)
            rows.append({"design": design, "d": d, "n": n, "way": way, "seeds": len(own),
                         "wrong_edges": round(float(wrong), 1), "seconds": round(float(spent), 2),
                         "skipped": refused if way == "pgmpy" else ""})  # fmt: skip
            print(rows[-1], flush=True)
    keep("mixed_peer", rows, machine())


if __name__ == "__main__":
    main()
