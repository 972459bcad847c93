"""Linear NOTEARS beside DAGMA: CPU time of one thread and SHD on the same tables.

Erdős–Rényi graphs with 2d expected edges, weights ±[0.5, 2], standard Gaussian noise, n = 1000, seeds 0, 1, …
Both learners run with their defaults (for DAGMA: least squares, λ = 0.03, threshold 0.3). Targets: at d = 50
and 100 no slower than DAGMA (5 times faster is the aim), with equal or lower mean SHD over ten seeds; mean
SHD ≤ 3 at d = 50; d = 200 below 180 CPU-seconds. The first fit, which compiles, is timed apart.
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

from polydag import EqualVariance, Graph, Notears, metrics, simulate


def dagma(X: Any) -> Graph:
    from dagma.linear import DagmaLinear

    weights = DagmaLinear(loss_type="l2").fit(X.to_numpy().copy(), lambda1=0.03)  # it centres in place
    return Graph.from_weights(weights, X.columns)


CONTENDERS: dict[str, Callable[[Any], Graph]] = {
    "polydag Notears": lambda X: Notears().fit(X).graph_,
    "polydag EqualVariance": lambda X: EqualVariance().fit(X).graph_,
    "dagma": dagma,
}


def measure(d: int, seed: int, n: int, contender: str) -> dict[str, Any]:
    truth = simulate.dag(d, expected_edges=2 * d, random_state=seed)
    X = simulate.linear(truth, n=n, random_state=seed + 1000)
    start = time.process_time()
    graph = CONTENDERS[contender](X)
    seconds = time.process_time() - start
    return {
        "d": d,
        "n": n,
        "seed": seed,
        "contender": contender,
        "cpu_s": round(seconds, 3),
        "shd": metrics.shd(true=truth, estimate=graph),
        "true_edges": truth.n_edges,
        "load": round(os.getloadavg()[0], 1),
    }


def summarise(found: list[dict[str, Any]]) -> None:
    for d in sorted({row["d"] for row in found}):
        mean = {}
        for contender in CONTENDERS:
            own = [row for row in found if row["d"] == d and row["contender"] == contender]
            if not own:
                continue
            mean[contender] = float(np.mean([row["cpu_s"] for row in own]))
            errors = [row["shd"] for row in own]
            print(
                f"d={d:3d}  {contender:22s} {mean[contender]:7.2f} CPU-s  SHD {np.mean(errors):5.2f} "
                f"(largest {max(errors)}) over {len(own)} seeds"
            )
        if "dagma" in mean:
            print(
                f"       DAGMA takes {mean['dagma'] / mean['polydag Notears']:.1f} times as long as Notears"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="Linear NOTEARS beside DAGMA")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--no-peer", action="store_true", help="leave DAGMA out")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    start = time.process_time()
    measure(5, 0, 100, "polydag Notears")
    print(f"first fit, compilation or loading of the cache included: {time.process_time() - start:.1f} CPU-s")
    found = []
    for d in chosen.sizes:
        for seed in range(chosen.seeds if d < 200 else min(chosen.seeds, 3)):
            for contender in CONTENDERS:
                if contender == "dagma" and (chosen.no_peer or d >= 200):
                    continue
                found.append(measure(d, seed, 1000, contender))
                print(*(f"{key}={value}" for key, value in found[-1].items()), flush=True)
    summarise(found)
    if not chosen.no_save:
        packages = ("polydag", "scipy", "numba") + (() if chosen.no_peer else ("dagma", "torch"))
        keep("pooled", found, machine(*packages))


if __name__ == "__main__":
    main()
