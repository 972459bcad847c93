"""What differential privacy costs: SHD of private studies against the same study without noise.

Five parties share an ER graph with d expected edges and equal variances; every row is protected by
(ε, 1e-5), bounds of the columns are estimated within the budget. Means over seeds, with standard errors.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
from typing import Any

import numpy as np
from keeping import keep, machine
from party_fits import over_parties

from polydag import metrics, simulate
from polydag.privacy.settings import Privacy

SITES = 5


def shd(method: str, epsilon: float | None, d: int, rows: int, seed: int) -> float:
    truth = simulate.dag(d, expected_edges=d, random_state=seed)
    tables = [simulate.linear(truth, n=rows // SITES, random_state=1000 * seed + k) for k in range(SITES)]
    model = over_parties(tables, Privacy(epsilon=epsilon), method=method)
    return float(metrics.shd(true=truth, estimate=model.graph_))


def measure(d: int, rows: int, epsilon: float | None, seeds: range) -> list[dict[str, Any]]:
    found = []
    for method in ("moments", "admm", "fedavg"):
        values = np.array([shd(method, epsilon, d, rows, seed) for seed in seeds])
        found.append(
            {
                "d": d,
                "rows": rows,
                "epsilon": "none" if epsilon is None else epsilon,
                "method": method,
                "seeds": len(seeds),
                "shd": round(float(values.mean()), 2),
                "se": round(float(values.std(ddof=1) / np.sqrt(len(values))), 2),
            }
        )
        print("  ".join(f"{name}={value}" for name, value in found[-1].items()), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What differential privacy costs")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", nargs="+", type=int, default=[2_000, 20_000, 200_000])
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    rows = [
        row
        for n in chosen.rows
        for epsilon in (None, 10.0, 3.0, 1.0)
        for row in measure(10, n, epsilon, range(chosen.seeds))
    ]
    if not chosen.no_save:
        keep("private", rows, machine("polydag", "opendp", "dp-accounting"))


if __name__ == "__main__":
    main()
