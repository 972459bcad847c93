"""This version beside an earlier checkout: CPU time and errors of the same fits, in turns, from one run.

    git worktree add ../earlier 6e8f9d0   # version 0.1
    python benchmarks/versions.py ../earlier [--repeats 5] [--only "linked rows"]

Each version runs in a process of its own, and the two take turns, so that both see the same machine. The
best of the repeats counts; the first of each, which compiles or loads compiled code, does not. Settings are
those that both versions have: penalties and scores are given, not left to defaults that have changed. Where
what is maximised is the same, the score of the result is kept beside its errors: a search that has become
better at maximising BIC with a penalty that is too small makes more errors, not fewer. `GES, one search` is
GES without the escapes from local optima that this version has.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from keeping import keep, machine

HERE = Path(__file__).parents[1]

# The fits of a worker: NAME -> a function without arguments; `ours` says whether shapes of data are sources.
WORKER = """
import inspect, json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
import polydag
from polydag import *
from polydag import simulate, metrics
from polydag.embedded import asia
ours = hasattr(polydag, "Parties")
def scaled(d, n, edges, seed):
    dag = simulate.dag(d, n_edges=edges, random_state=seed)
    X = simulate.linear(dag, n=n, random_state=seed)
    return dag, (X - X.mean()) / X.std()
large, X200 = scaled(200, 1000, 400, 1)
middle, X50 = scaled(50, 1000, 100, 2)
dag50 = simulate.dag(50, n_edges=100, random_state=3)
raw50 = simulate.linear(dag50, n=1000, random_state=3)
dag20 = simulate.dag(20, n_edges=40, random_state=4)
rows20 = simulate.linear(dag20, n=256, random_state=4)
labels = asia.sample(500, random_state=0) if hasattr(asia, "sample") else asia().sample(500, random_state=0)
wide = pd.concat([labels.add_prefix(f"{k}") for k in range(2)], axis=1).iloc[:, :16]
small = simulate.linear(simulate.dag(20, n_edges=30, random_state=5), n=200, random_state=5)
dag30 = simulate.dag(30, n_edges=30, random_state=6)
pupils = simulate.linked(dag30, row_covariance=simulate.clusters("equi", 300, 10, base=0.5), random_state=6)
school = np.repeat(np.arange(30), 10)
parts = [rows20[k::8] for k in range(8)]
open_ = {"privacy": Privacy(mode="none")} if ours else {"privacy": "none"}
def admm():
    learner = FederatedNotears(method="admm", lambda_=0.1, **({} if ours else open_))
    return learner.fit(Parties(parts, **open_, **flat) if ours else parts)
def moments():
    if ours:
        return GES(penalty=2.0).fit(Parties(parts, **open_, **flat))
    return FederatedNotears(method="moments", learner=GES(penalty=2.0), **open_).fit(parts)
def linked():
    if ours:
        rows = LinkedRows(pupils.assign(school=school), groups="school", structure="common", random_state=0)
        return GES(penalty=2.0).fit(rows)
    settings = {"links": school, "structure": "common", "max_rounds": 1, "random_state": 0}
    return LinkedRowsDAG(learner=GES(penalty=2.0), **settings).fit(pupils)
def known_order():
    A = np.asarray(dag30.adjacency, dtype=float)
    ancestors = (np.linalg.matrix_power(np.eye(30) + A, 30) > 0).sum(axis=0)
    named = {"order": [str(dag30.names[k]) for k in np.argsort(ancestors)], "lambda_": 0.05}
    if ours:
        rows = LinkedRows(pupils.assign(school=school), groups="school", structure="free", random_state=0)
        return LinkedRowsDAG(**named).fit(rows)
    return LinkedRowsDAG(links=school, structure="free", random_state=0, **named).fit(pupils)
flat = {}
if ours and "site_effects" in inspect.signature(Parties.__init__).parameters:
    flat = {"site_effects": "none"}
tasks = {"a": labels[:200], "b": labels[200:400]}
named = "criterion" if "criterion" in inspect.signature(BayesianDiscovery.__init__).parameters else "score"
both = MultitaskDiscovery(max_parents=3, transfer="family", **{named: "bdeu"})
once = {"escape": False} if "escape" in inspect.signature(GES.__init__).parameters else {}
def exact(score):
    return BayesianDiscovery(max_parents=3, method="exact", **{named: score})
FITS = {
    "GES, p=200": (lambda: GES(penalty=2.0).fit(X200), large.to_cpdag()),
    "GES, p=200, one search": (lambda: GES(penalty=2.0, **once).fit(X200), large.to_cpdag()),
    "BOSS, p=200": (lambda: BOSS(penalty=2.0).fit(X200), large.to_cpdag()),
    "PC, p=200": (lambda: PC(alpha=0.001).fit(X200), large.to_cpdag()),
    "Notears, d=50": (lambda: Notears(lambda_=0.1).fit(raw50), dag50),
    "exact posterior, 16 labels": (lambda: exact("bdeu").fit(wide), None),
    "exact posterior, 20 numbers": (lambda: exact("bge").fit(small), None),
    "two tasks, asia": (lambda: both.fit(Tasks(tasks) if ours else tasks), None),
    "ADMM, 8 parties, d=20": (admm, dag20),
    "summed moments, GES": (moments, dag20.to_cpdag()),
    "linked rows, 30 groups": (linked, dag30.to_cpdag()),
    "linked rows, known order": (known_order, dag30),
}
for line in sys.stdin:
    name = line.strip()
    fit, truth = FITS[name]
    begin = time.process_time()
    model = fit()
    spent = time.process_time() - begin
    errors = None if truth is None else metrics.shd(true=truth, estimate=model.graph_)
    print(json.dumps([spent, errors, getattr(model, "score_", None)]), flush=True)
"""
FITS = (
    "GES, p=200", "GES, p=200, one search", "BOSS, p=200", "PC, p=200", "Notears, d=50",
    "exact posterior, 16 labels", "exact posterior, 20 numbers", "two tasks, asia",
    "ADMM, 8 parties, d=20", "summed moments, GES", "linked rows, 30 groups", "linked rows, known order",
)  # fmt: skip


class Worker:
    """A version in a process of its own, which fits on request."""

    def __init__(self, checkout: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def fit(self, name: str) -> tuple[float, int | None, float | None]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{name} failed; see above.")
        spent, errors, score = json.loads(line)
        return spent, errors, score


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("earlier", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="fits whose name contains this; nothing is kept")
    given = parser.parse_args()
    before, now = Worker(given.earlier.resolve()), Worker(HERE)
    rows: list[dict[str, Any]] = []
    print(f"{'fit':<30}{'before':>9}{'now':>9}{'ratio':>8}   errors before, now")
    for name in (each for each in FITS if given.only in each):
        worker: dict[str, list[tuple[float, int | None, float | None]]] = {"before": [], "now": []}
        for _ in range(given.repeats + 1):
            worker["before"].append(before.fit(name))
            worker["now"].append(now.fit(name))
        best = {key: min(spent for spent, *_ in found[1:]) for key, found in worker.items()}
        errors = {key: found[-1][1] for key, found in worker.items()}
        ratio = best["now"] / best["before"]
        told = f"{errors['before']}, {errors['now']}"
        earlier, later = (found[-1][2] for found in worker.values())
        gained = None if earlier is None or later is None else round(later - earlier, 2)
        told += "" if gained is None else f"; score {gained:+.2f}"
        print(f"{name:<30}{best['before']:9.3f}{best['now']:9.3f}{ratio:8.2f}   {told}")
        rows.append({
            "fit": name, "before_cpu_s": round(best["before"], 4), "now_cpu_s": round(best["now"], 4),
            "ratio": round(ratio, 2), "before_shd": errors["before"], "now_shd": errors["now"],
            "score_gained": gained, "repeats": given.repeats,
        })  # fmt: skip
    if not given.only:
        keep("versions", rows, machine("numba"))


if __name__ == "__main__":
    main()
