"""Linked rows with an unknown order of the columns: how well Σ is found, and what further rounds are worth.

Simulated as in the linked-rows paper, all rows of a cluster linked. `error` is the mean absolute error of the
row correlations within clusters over that of ignoring them (1 is as bad as ignoring).

- orders: the estimate depends on the order of the columns (only Σ itself does not): a single random order,
  the average Θ of 2 and of 5 of them, the true order, and the true DAG.
- rounds: decorrelation and structure learning in turn, until Σ and the graph agree or 8 rounds are done, with
  GES and with a search over orders (BOSS), beside a single round and beside ignoring the network.
- structures: one entry of Θ for each link, one strength for all, independent rows; and what "auto" takes.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keeping import keep, machine
from sklearn.base import clone

from polydag import BOSS, GES, FreeStructure, Graph, LinkedRows, LinkedRowsDAG, metrics, simulate
from polydag.rows import Links, Problem, RowPrecision, lambda_path
from polydag.rows.estimate import given_dag, over_permutations

Row = dict[str, Any]
# rows, columns, cluster, kind of Σ within a cluster
PLACES = [
    (300, 100, 30, "toeplitz"),
    (300, 100, 30, "equi"),
    (300, 100, 30, "star"),
    (300, 100, 30, "ar"),
    (100, 200, 30, "toeplitz"),
    (100, 200, 30, "star"),
    (200, 40, 10, "equi"),
    (1000, 20, 5, "equi"),
]
LEARNERS = {"GES": GES(penalty=4.0, screen=False), "BOSS": BOSS(penalty=4.0)}
ONE_ORDER = FreeStructure(n_orders=1)
MOST_ROUNDS = 8


class Data(NamedTuple):
    truth: Graph
    rows: Any
    blocks: list[Any]
    labels: Any


def draw(n: int, p: int, size: int, kind: str, seed: int) -> Data:
    rng = np.random.default_rng(seed)
    truth = simulate.dag(p, n_edges=2 * p, weight_range=(0.1, 1.0), random_state=rng)
    blocks = simulate.clusters(kind, n, size, base=0.7 if kind == "toeplitz" else None, random_state=rng)
    rows = simulate.linked(truth, row_covariance=blocks, noise_scale=(0.1, 1.0), random_state=rng)
    return Data(truth, rows, blocks, np.arange(n) // size)


def error(found: RowPrecision, blocks: list[Any]) -> float:
    """Rows lie in the order of their clusters, so that blocks correspond."""
    pairs = list(zip(found.correlations, blocks, strict=True))
    ours = sum(np.abs(a - b).sum() for a, b in pairs)
    return float(ours / sum(np.abs(b).sum() - len(b) for b in blocks))


def _sd(several: list[RowPrecision]) -> float:
    """The standard deviation of a row correlation over orders, averaged over pairs in a cluster."""
    blocks = [
        np.std(each, axis=0, ddof=1) for each in zip(*(one.correlations for one in several), strict=True)
    ]
    return float(sum(block.sum() for block in blocks) / sum(block.size - len(block) for block in blocks))


def orders(place: tuple[int, int, int, str], seed: int) -> list[Row]:
    data = draw(*place, seed)
    X = data.rows.to_numpy()
    problem = Problem.of(X / X.std(axis=0), Links.from_groups(data.labels), structure="free")
    causal = [data.truth.index(name) for name in data.truth.topological_order()]
    several = [over_permutations(problem, 1, k) for k in range(5)]
    path = lambda_path(problem.reordered(np.array(causal)))
    averaged = {k: error(RowPrecision.mean(several[:k]), data.blocks) for k in (2, 5)}
    row = {
        "seed": seed,
        "sd_between_orders": _sd(several),
        "error_one_order": float(np.mean([error(each, data.blocks) for each in several])),
        **{f"error_mean_of_{k}": value for k, value in averaged.items()},
        "error_true_order": error(path.fits[path.best].precision, data.blocks),
        "error_true_dag": error(given_dag(problem, data.truth.adjacency, causal)[0].precision, data.blocks),
    }
    return [row]


def rounds(place: tuple[int, int, int, str], seed: int) -> list[Row]:
    data = draw(*place, seed)
    truth = data.truth.to_cpdag()
    found = []
    for name, learner in LEARNERS.items():
        plain = metrics.shd(true=truth, estimate=learner.fit(data.rows).graph_)
        ignoring = {"seed": seed, "learner": name, "most_rounds": 0, "error": 1.0, "shd": plain}
        found.append({**ignoring, "rounds": 0, "agreed": "", "cpu_s": ""})
        for most in (1, MOST_ROUNDS):
            start = time.process_time()
            rows = LinkedRows(
                data.rows, groups=data.labels, structure="free", free=ONE_ORDER, random_state=seed
            )
            model = clone(learner) if most == 1 else LinkedRowsDAG(learner=learner, max_rounds=most)
            model.fit(rows)
            found_rows = rows if most == 1 else model
            found.append(
                {
                    "seed": seed,
                    "learner": name,
                    "most_rounds": most,
                    "error": error(found_rows.decorrelation_.precision, data.blocks),
                    "shd": metrics.shd(true=truth, estimate=model.graph_),
                    "rounds": 1 if most == 1 else len(model.history_),
                    "agreed": bool(model.converged_),
                    "cpu_s": time.process_time() - start,
                }
            )
    return found


def structures(place: tuple[int, int, int, str], seed: int) -> list[Row]:
    data = draw(*place, seed)
    truth = data.truth.to_cpdag()
    found = []
    for structure in ("free", "common", "independent", "auto"):
        start = time.process_time()
        rows = LinkedRows(
            data.rows, groups=data.labels, structure=structure, free=ONE_ORDER, random_state=seed
        )
        model = clone(LEARNERS["GES"]).fit(rows)
        row = {"seed": seed, "structure": structure, "taken": rows.decorrelation_.structure}
        row["error"] = error(rows.decorrelation_.precision, data.blocks)
        row["shd"] = metrics.shd(true=truth, estimate=model.graph_)
        found.append({**row, "cpu_s": time.process_time() - start})
    return found


TABLES: dict[str, Callable[..., list[Row]]] = {"orders": orders, "rounds": rounds, "structures": structures}


def main() -> None:
    parser = argparse.ArgumentParser(description="Row correlations with an unknown order")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # rounds that did not agree are a column of the table
    for name in chosen.only:
        kept: list[Row] = []
        for place in PLACES:
            labels = dict(zip(("n", "p", "cluster", "kind"), place, strict=True))
            for seed in range(chosen.seeds):
                for row in TABLES[name](place, seed):
                    kept.append({**labels, **_short(row)})
                    print(*(f"{key}={value}" for key, value in kept[-1].items()), flush=True)
        if not chosen.no_save:
            keep(f"linked_{name}", kept, machine("polydag", "scipy", "numba"))


def _short(row: Row) -> Row:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}


if __name__ == "__main__":
    main()
