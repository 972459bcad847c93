"""Linked rows: CPU time and memory of the λ1 path (block coordinate descent), one thread.

Simulated as in the linked-rows paper; compilation is done before. Targets stand beside what was measured. At
(100, 200) a path of 10 to a hundredth of the largest λ1 stops where a variable has more parents than half the
rows, says so (`stopped`), and does not count as met; one to a tenth has all 10.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import resource
import time
from typing import Any, NamedTuple

import numpy as np
from keeping import keep, machine

from polydag import simulate
from polydag.rows import Links, Problem, lambda_path


class Work(NamedTuple):
    """Rows, columns, cluster size (0: one connected network), when to stop, how far down, targets."""

    n: int
    p: int
    size: int
    patience: int | None
    ratio: float
    seconds: float
    gigabytes: float | None = None


WORK = {
    "stopping (300, 100)": Work(300, 100, 20, 2, 100.0, 0.3),
    "whole (300, 100)": Work(300, 100, 20, None, 100.0, 0.7),
    "whole (100, 200)": Work(100, 200, 20, None, 100.0, 3.0),
    "to a tenth (100, 200)": Work(100, 200, 20, None, 10.0, 3.0),
    "clusters (10000, 100)": Work(10_000, 100, 30, None, 100.0, 300.0, 4.0),
    "network (2000, 100)": Work(2_000, 100, 0, None, 100.0, 600.0, 4.0),
}


def problem(n: int, p: int, size: int, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    dag = simulate.dag(p, n_edges=2 * p, weight_range=(0.1, 1.0), random_state=rng)
    if size:
        links = Links.from_groups(np.arange(n) // size)
        Sigma: Any = simulate.clusters("toeplitz", n, size, random_state=rng)
    else:
        A = np.triu(rng.random((n, n)) < 10 / n, 1)
        links = Links.from_matrix(A)
        Sigma = np.linalg.inv(simulate.network_precision(A, random_state=rng))
        Sigma = (Sigma + Sigma.T) / 2
    X = simulate.linked(dag, row_covariance=Sigma, noise_scale=(0.1, 1.0), random_state=rng).to_numpy()
    order = np.array([dag.index(name) for name in dag.topological_order()])
    return Problem.of(X / X.std(axis=0), links, structure="free").reordered(order)


def measure(name: str, seed: int) -> dict[str, Any]:
    work = WORK[name]
    own = problem(work.n, work.p, work.size, seed)
    start = time.process_time()
    path = lambda_path(own, patience=work.patience, ratio=work.ratio)
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    best = path.fits[path.best]
    return {
        "work": name,
        "seed": seed,
        "cpu_s": round(seconds, 3),
        "target_s": work.seconds,
        "peak_gb": round(memory, 2),
        "target_gb": work.gigabytes or "",
        "met": seconds <= work.seconds and memory <= (work.gigabytes or np.inf) and not path.crowded,
        "penalties": len(path.fits),
        "iterations": sum(len(fit.objectives) for fit in path.fits),
        "edges": int(np.count_nonzero(best.state.phi)),
        "stopped": path.crowded,
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="The λ1 path with linked rows")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--work", nargs="+", choices=list(WORK), default=list(WORK))
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    start = time.process_time()
    lambda_path(problem(40, 10, 4, 0))
    print(
        f"first path, compilation or loading of the cache included: {time.process_time() - start:.1f} CPU-s"
    )
    found = []
    for name in chosen.work:
        for seed in range(chosen.seeds if WORK[name].n < 1000 else 1):
            found.append(measure(name, seed))
            print(*(f"{key}={value}" for key, value in found[-1].items()), flush=True)
    if not chosen.no_save:
        keep("linked", found, machine("polydag", "scipy", "numba"))


if __name__ == "__main__":
    main()
