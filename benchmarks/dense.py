"""The time of BOSS on dense graphs, beside GES without its escape from local optima, and what it costs.

    python benchmarks/dense.py [--seeds 3] [--only 200]

1000 rows of scaled columns, weights ±[0.1, 1], errors of variance 1, the automatic penalty; kernels are
compiled before. CPU seconds of one thread, means over seeds; recall and precision are those of the skeleton.
`target` is the time that BOSS may take. Times on a busy machine are too long, and rows say of which day they
are.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from keeping import RESULTS, keep, machine

from polydag import metrics, simulate
from polydag.graph import Graph
from polydag.search.boss.search import boss
from polydag.search.ges.search import ges
from polydag.stats import GaussianStats

SETTINGS = {(200, 10): 2.0, (200, 20): 10.0, (1000, 20): 120.0}  # variables, average degree; CPU seconds
FIRST_SEED = 96_000


def table(p: int, degree: int, seed: int) -> tuple[Graph, GaussianStats]:
    """A DAG, and statistics of its rows."""
    dag = simulate.dag(p, n_edges=p * degree // 2, weight_range=(0.1, 1.0), random_state=seed)
    X = simulate.linear(dag, n=1000, standardize=True, random_state=seed + 10_000)
    return dag, GaussianStats.from_data(X)


def chickering(stats: GaussianStats) -> Any:
    """GES as published, from the empty graph to where no operator gains."""
    return ges(stats, escape=False)


def measure(p: int, degree: int, target: float, seeds: range) -> list[dict[str, Any]]:
    """A row for each search."""
    searches: dict[str, Callable[[GaussianStats], Any]] = {"BOSS": boss, "GES, no escape": chickering}
    rows = []
    for name, search in searches.items():
        found = []
        for seed in seeds:
            truth, stats = table(p, degree, seed)
            start = time.process_time()
            result = search(stats)
            seconds = time.process_time() - start
            errors = metrics.confusion(true=truth.to_cpdag(), estimate=Graph(result.adjacency, truth.names))
            joined = np.triu(result.adjacency | result.adjacency.T)
            true = np.triu(truth.adjacency | truth.adjacency.T)
            both = float((joined & true).sum())
            found.append((seconds, both / true.sum(), both / max(joined.sum(), 1), errors.shd))
        cpu, recall, precision, shd = (float(value) for value in np.mean(found, axis=0))
        aim = target if name == "BOSS" else None
        rows.append({
            "p": p, "degree": degree, "search": name, "cpu_s": round(cpu, 2), "target_s": aim or "",
            "met": "" if aim is None else cpu <= aim, "recall": round(recall, 3),
            "precision": round(precision, 3), "cpdag_shd": round(shd, 1), "seeds": len(seeds),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", type=int, help="this number of variables")
    chosen = parser.parse_args()
    for search in (boss, chickering):
        search(table(10, 4, 0)[1])
    place, path = machine("polydag", "numba", "scipy"), RESULTS / "dense.csv"
    for (p, degree), target in SETTINGS.items():
        if chosen.only in (None, p):
            new = measure(p, degree, target, range(FIRST_SEED, FIRST_SEED + chosen.seeds))
            old = pd.read_csv(path, dtype=str).fillna("").to_dict("records") if path.exists() else []
            kept = [row for row in old if (int(row["p"]), int(row["degree"])) != (p, degree)]
            keep("dense", [*kept, *new], place)


if __name__ == "__main__":
    main()
