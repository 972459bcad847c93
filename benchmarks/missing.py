"""Ways to handle missing values beside complete data: skeleton F1 and SHD of BOSS, and the time of EM.

Standardised linear Gaussian data, 20 variables, average degree 2, weights ±[0.25, 1], 1000 rows; 10, 30 and
50 % of the values of every second column missing: completely at random, at random (by a neighbouring column
that is complete), and not at random (large values). The rule for the number of rows was chosen on seeds 0 to
3; these are seeds from 100 on.

    python benchmarks/missing.py [--seeds 5]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from keeping import keep, machine

from polydag import BOSS, metrics, simulate
from polydag.errors import DataError
from polydag.sources import InMemory
from polydag.stats.incomplete import incomplete_moments

D, N = 20, 1000
WAYS = ("drop", "impute", "testwise", "em")


def table(seed: int, n: int = N, d: int = D) -> tuple[Any, pd.DataFrame]:
    """A graph and standardised rows."""
    rng = np.random.default_rng(seed)
    dag = simulate.dag(d, n_edges=d, random_state=seed)
    weights = np.where(dag.adjacency, rng.uniform(0.25, 1, (d, d)) * rng.choice([-1, 1], (d, d)), 0)
    X = rng.normal(size=(n, d)) @ np.linalg.inv(np.eye(d) - weights)
    return dag, pd.DataFrame((X - X.mean(axis=0)) / X.std(axis=0), columns=list(dag.names))


def with_gaps(X: pd.DataFrame, share: float, mechanism: str, seed: int) -> pd.DataFrame:
    """Rows with gaps in every second column."""
    rng = np.random.default_rng(seed)
    values, result = X.to_numpy(), X.copy()
    for j in range(0, X.shape[1], 2):
        if mechanism == "completely at random":
            gone = rng.random(len(X)) < share
        else:
            by = values[:, j + 1] if mechanism == "at random" else values[:, j]
            order = by + rng.normal(size=len(X))
            gone = order > np.quantile(order, 1 - share)
        result.iloc[gone, j] = np.nan
    return result


def errors(dag: Any, source: Any) -> tuple[float, float]:
    """The SHD of CPDAGs and the F1 of skeletons."""
    graph = BOSS().fit(source).graph_
    true, found = (g.adjacency | g.adjacency.T for g in (dag, graph))
    hits = (true & found).sum()
    return metrics.shd_cpdag(true=dag, estimate=graph), 2 * hits / max(true.sum() + found.sum(), 1)


def main() -> None:
    """Run all settings and keep their means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(100, 100 + parser.parse_args().seeds)
    rows: list[dict[str, Any]] = []
    for mechanism in ("completely at random", "at random", "not at random"):
        for share in (0.1, 0.3, 0.5):
            found: dict[str, list[tuple[float, float]]] = {}
            for seed in seeds:
                dag, X = table(seed)
                holes = with_gaps(X, share, mechanism, seed)
                found.setdefault("complete data", []).append(errors(dag, X))
                for way in WAYS:
                    try:
                        found.setdefault(way, []).append(errors(dag, InMemory(holes, missing=way)))
                    except DataError:  # too few complete rows: refused
                        continue
            for way in ("complete data", *WAYS):
                own = found.get(way, [])
                rows.append({
                    "mechanism": mechanism, "missing": share, "way": way, "fits": len(own),
                    "shd": round(float(np.mean([s for s, _ in own])), 1) if own else "refused",
                    "f1": round(float(np.mean([f for _, f in own])), 2) if own else "refused",
                })  # fmt: skip
                print(rows[-1])
    _, X = table(0, 10_000, 50)
    holes = X.mask(np.random.default_rng(0).random(X.shape) < 0.3).to_numpy()
    names = tuple(X.columns)
    incomplete_moments(lambda change: change(holes[:100]), names, "em", max_steps=2)  # compiles
    start = time.process_time()
    steps = incomplete_moments(lambda change: change(holes), names, "em").steps
    spent = time.process_time() - start
    print(f"EM, n = 10,000, p = 50, 30 % missing: {spent:.1f} CPU-s, {steps} passes")
    rows.append({"mechanism": "CPU-s of EM, n = 10000, p = 50", "missing": 0.3, "way": "em", "fits": steps,
                 "shd": "", "f1": round(spent, 1)})  # fmt: skip
    keep("missing", rows, machine())


if __name__ == "__main__":
    main()
