"""Ways to handle missing values beside complete data: skeleton F1 and SHD of BOSS, and the time of EM.

Standardised linear Gaussian data, 20 variables, average degree 2, weights ±[0.25, 1], 1000 rows; 10, 30 and
50 % of the values of three or of ten columns missing: completely at random, at random (by a neighbouring
column that is complete), and not at random (large values). The rule for the number of rows was chosen on
seeds 0 to 3; these are seeds from 100 on. Multiple imputation draws ten tables. `missing="drop"` is refused
where fewer than a tenth of the rows are complete; `complete rows` are fitted however few they are, where
there are more than two.

Labels: asia, sachs and child, 500 rows, 10 and 30 % of all values missing completely at random; BDeu of
expected counts (structural EM) beside the degenerate Gaussian of expected moments. The networks are read from
POLYDAG_DATA. That all rows count for BDeu, and the first network, were chosen on seeds 0 to 3.

    python benchmarks/missing.py [--seeds 10] [--labels]
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from keeping import keep, machine

from polydag import BOSS, metrics, simulate
from polydag.errors import DataError
from polydag.formats import read_network
from polydag.graph import Graph
from polydag.sources import InMemory
from polydag.stats.gaps.incomplete import incomplete_moments

D, N = 20, 1000
COMPLETE = "complete rows"
WAYS = ("drop", COMPLETE, "impute", "testwise", "em", "multiple")
IMPUTATIONS = 10


def table(seed: int, n: int = N, d: int = D) -> tuple[Any, pd.DataFrame]:
    """A graph and standardised rows."""
    rng = np.random.default_rng(seed)
    dag = simulate.dag(d, n_edges=d, random_state=seed)
    weights = np.where(dag.adjacency, rng.uniform(0.25, 1, (d, d)) * rng.choice([-1, 1], (d, d)), 0)
    X = rng.normal(size=(n, d)) @ np.linalg.inv(np.eye(d) - weights)
    return dag, pd.DataFrame((X - X.mean(axis=0)) / X.std(axis=0), columns=list(dag.names))


def with_gaps(X: pd.DataFrame, share: float, mechanism: str, seed: int, columns: int) -> pd.DataFrame:
    """Rows with gaps in some columns; between any two of these is a complete one."""
    rng = np.random.default_rng(seed)
    values, result = X.to_numpy(), X.copy()
    for j in range(0, 2 * columns, 2):
        if mechanism == "completely at random":
            gone = rng.random(len(X)) < share
        else:
            by = values[:, j + 1] if mechanism == "at random" else values[:, j]
            order = by + rng.normal(size=len(X))
            gone = order > np.quantile(order, 1 - share)
        result.iloc[gone, j] = np.nan
    return result


def complete_rows(holes: pd.DataFrame) -> pd.DataFrame:
    """The rows without gaps, without the floor that `missing="drop"` has."""
    left = holes.dropna()
    if len(left) < 3 or (left.std() == 0).any():
        raise DataError(f"{len(left)} rows are complete.")
    return left


def errors(dag: Any, source: Any, criterion: str = "auto") -> tuple[float, float]:
    """The SHD of CPDAGs and the F1 of skeletons."""
    graph = BOSS(criterion=criterion).fit(source).graph_
    true, found = (g.adjacency | g.adjacency.T for g in (dag, graph))
    hits = (true & found).sum()
    return metrics.shd_cpdag(true=dag, estimate=graph), 2 * hits / max(true.sum() + found.sum(), 1)


def _among(graph: Graph, names: list[str]) -> Graph:
    """The edges between some nodes."""
    where = [graph.index(name) for name in names]
    return Graph(graph.adjacency[np.ix_(where, where)], names)


def labels(seeds: range) -> None:
    """Networks of labels, for which there are counts as well as moments."""
    rows: list[dict[str, Any]] = []
    for name, share in product(("asia", "sachs", "child"), (0.1, 0.3)):
        network = read_network(Path(os.environ["POLYDAG_DATA"]) / "bn" / f"{name}.bif.gz")
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in seeds:
            X = network.sample(500, random_state=seed)
            holes = X.mask(np.random.default_rng(seed).random(X.shape) < share)
            varying = holes.columns[holes.nunique() > 1]
            X, holes = X[varying], holes[varying].astype(object)
            dag = _among(network.graph, list(varying))
            for way, source, criterion in (
                ("complete data, bdeu", X, "bdeu"),
                ("complete data, dg", X, "dg"),
                ("structural EM, bdeu", InMemory(holes, missing="em"), "bdeu"),
                ("EM, dg", InMemory(holes, missing="em"), "dg"),
                ("impute, bdeu", InMemory(holes, missing="impute"), "bdeu"),
            ):
                found.setdefault(way, []).append(errors(dag, source, criterion))
        for way, own in found.items():
            shd, f1 = np.mean(own, axis=0)
            rows.append({"network": name, "missing": share, "way": way, "fits": len(own),
                         "shd": round(float(shd), 1), "f1": round(float(f1), 2)})  # fmt: skip
            print(rows[-1])
    keep("missing_labels", rows, machine())


def numbers(seeds: range) -> None:
    """Linear Gaussian data, and the time of EM."""
    rows: list[dict[str, Any]] = []
    for mechanism in ("completely at random", "at random", "not at random"):
        for columns, share in product((3, 10), (0.1, 0.3, 0.5)):
            found: dict[str, list[tuple[float, float]]] = {}
            for seed in seeds:
                dag, X = table(seed)
                holes = with_gaps(X, share, mechanism, seed, columns)
                found.setdefault("complete data", []).append(errors(dag, X))
                for way in WAYS:
                    try:
                        source = (
                            InMemory(complete_rows(holes))
                            if way == COMPLETE
                            else InMemory(holes, missing=way, n_imputations=IMPUTATIONS, random_state=seed)
                        )
                        found.setdefault(way, []).append(errors(dag, source))
                    except DataError:  # too few complete rows
                        continue
            for way in ("complete data", *WAYS):
                own = found.get(way, [])
                rows.append({
                    "mechanism": mechanism, "columns": columns, "missing": share, "way": way,
                    "fits": len(own),
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
    rows.append({"mechanism": "CPU-s of EM, n = 10000, p = 50", "columns": 50, "missing": 0.3,
                 "way": "em", "fits": steps, "shd": "", "f1": round(spent, 1)})  # fmt: skip
    keep("missing", rows, machine())


def main() -> None:
    """Run all settings and keep their means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--labels", action="store_true")
    given = parser.parse_args()
    seeds = range(100, 100 + given.seeds)
    (labels if given.labels else numbers)(seeds)


if __name__ == "__main__":
    main()
