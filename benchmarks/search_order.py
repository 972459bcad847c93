"""BOSS beside GES: CPDAG SHD, precision and recall of the skeleton, score, and CPU time of one thread.

The settings of search.py: random DAGs with 2p edges, weights ±[0.1, 1], error sd in [0.1, 1], scaled columns,
seeds 0, 1, …; BIC with penalty discount 2. Both engines see the same statistics in the same process, and take
turns at going first. The columns' order says nothing of the causal order.
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
from keeping import keep, machine

from polydag import Graph, metrics, simulate
from polydag.search.boss.search import boss
from polydag.search.ges.search import ges
from polydag.stats import GaussianStats

Row = dict[str, Any]
SIZES = [(50, 300), (50, 1000), (100, 300), (100, 1000), (200, 300), (200, 1000), (200, 100)]
ENGINES: dict[str, Callable[..., Any]] = {"ges": ges, "boss": boss}


def table(p: int, n: int, seed: int) -> tuple[Graph, Any]:
    """A DAG and scaled rows of it."""
    truth = simulate.dag(p, n_edges=2 * p, weight_range=(0.1, 1.0), random_state=seed)
    X = simulate.linear(truth, n=n, noise_scale=(0.1, 1.0), random_state=seed + 1000)
    return truth, (X - X.mean()) / X.std()


def arrows(found: Graph, truth: Graph) -> tuple[float, float]:
    """Precision and recall of directed edges between two CPDAGs."""
    own, true = (g.adjacency & ~g.adjacency.T for g in (found, truth))
    both = int((own & true).sum())
    return both / max(int(own.sum()), 1), both / max(int(true.sum()), 1)


def skeleton(found: Graph, truth: Graph) -> tuple[float, float]:
    """Precision and recall of adjacencies."""
    own, true = (np.triu(g.adjacency | g.adjacency.T) for g in (found, truth))
    both = int((own & true).sum())
    return both / max(int(own.sum()), 1), both / max(int(true.sum()), 1)


def measure(p: int, n: int, seed: int) -> list[Row]:
    dag, X = table(p, n, seed)
    truth = dag.to_cpdag()
    stats = GaussianStats.from_data(X)
    rows = []
    for engine in sorted(ENGINES, reverse=bool(seed % 2)):
        start = time.process_time()
        result = ENGINES[engine](stats, penalty=2.0)
        seconds = time.process_time() - start
        found = Graph(result.adjacency, truth.names)
        near, far = skeleton(found, truth), arrows(found, truth)
        rows.append({
            "engine": engine, "p": p, "n": n, "seed": seed, "cpu_s": round(seconds, 4),
            "shd_cpdag": metrics.shd(true=truth, estimate=found), "edges": found.n_edges,
            "precision": round(near[0], 4), "recall": round(near[1], 4),
            "arrow_precision": round(far[0], 4), "arrow_recall": round(far[1], 4),
            "score": round(result.score, 3), "load": round(os.getloadavg()[0], 1),
        })  # fmt: skip
    return rows


def summarise(p: int, n: int, rows: list[Row]) -> None:
    own = {e: [row for row in rows if row["engine"] == e] for e in ENGINES}
    keys = ("cpu_s", "shd_cpdag", "precision", "recall", "arrow_precision", "arrow_recall")
    for engine, these in own.items():
        mean = [float(np.mean([row[key] for row in these])) for key in keys]
        print(f"p={p:4d} n={n:5d} {engine:5s} {mean[0]:7.3f} CPU-s  SHD {mean[1]:6.1f}  "
              f"skeleton {mean[2]:.3f}/{mean[3]:.3f}  arrows {mean[4]:.3f}/{mean[5]:.3f}")  # fmt: skip
    ours, theirs = (sorted(own[e], key=lambda row: row["seed"]) for e in ("boss", "ges"))
    gap = np.array([b["shd_cpdag"] - g["shd_cpdag"] for b, g in zip(ours, theirs, strict=True)])
    higher = sum(b["score"] > g["score"] for b, g in zip(ours, theirs, strict=True))
    error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else float("nan")
    print(f"    BOSS - GES: SHD {gap.mean():+.1f} ± {error:.1f} (standard error, {len(gap)} pairs), lower in "
          f"{(gap < 0).sum()}, higher in {(gap > 0).sum()}; score higher in {higher}",
          flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="BOSS beside GES")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--large", action="store_true", help="p=1000 n=300 too")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    for engine in ENGINES.values():  # what is compiled or loaded from the cache is not timed below
        engine(GaussianStats.from_data(table(10, 200, 0)[1]))
        engine(GaussianStats.from_data(table(60, 40, 0)[1]))
    found = []
    for p, n in [*SIZES, *([(1000, 300)] if chosen.large else [])]:
        rows = [
            row for seed in range(chosen.first, chosen.first + chosen.seeds) for row in measure(p, n, seed)
        ]
        summarise(p, n, rows)
        found += rows
    if not chosen.no_save:
        keep("search_order", found, machine("polydag", "numba", "scipy"))


if __name__ == "__main__":
    main()
