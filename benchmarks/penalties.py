"""Penalties that are chosen by a rule, beside the best fixed one: CPDAG SHD of BOSS, GES and PC.

Random DAGs of d variables with d·degree/2 edges, weights ±[0.25, 1], errors of variance 1, standardised
columns. The fixed penalties are 1, 2, 3 and 4 for BOSS and GES, and the levels 0.001, 0.01, 0.05 and 0.1 for
PC. "auto" may have up to 1.2 times the errors of the best of them in every setting, means over seeds being
compared. Half an error is added to both, since some settings have none; `excess` is the ratio, `missed` says
where it is above 1.2.

`--choose` runs other values of γ and of the level's factor on seeds of their own.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import math
import time
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from keeping import keep, machine

from polydag import Graph, metrics, simulate
from polydag.search.boss.search import boss
from polydag.search.ges.search import ges
from polydag.search.pc import pc
from polydag.stats import GaussianStats

Row = dict[str, Any]
FIXED = {"boss": (1.0, 2.0, 3.0, 4.0), "ges": (1.0, 2.0, 3.0, 4.0), "pc": (0.001, 0.01, 0.05, 0.1)}
SIZES = (10, 30, 100, 300)
ROWS = (50, 200, 1000, 10_000)
DEGREES = (1, 2, 4, 8)
GAMMAS = (0.5, 0.75, 1.0, 1.25, 1.5)
FACTORS = (1.0, 2.0, 3.0, 6.0)
CHOOSING, REPORTING = 50_000, 90_000  # first seeds
LIMIT = 1.2


def table(d: int, n: int, degree: int, seed: int) -> tuple[Graph, GaussianStats]:
    """A CPDAG and statistics of rows of one of its DAGs."""
    truth = simulate.dag(d, n_edges=d * degree // 2, weight_range=(0.25, 1.0), random_state=seed)
    X = simulate.linear(truth, n=n, standardize=True, random_state=seed + 10_000)
    return truth.to_cpdag(), GaussianStats.from_data(X)


def fit(engine: str, stats: GaussianStats, setting: Any) -> Any:
    if engine == "pc":
        return pc(stats, alpha=setting)
    search: Callable[..., Any] = {"boss": boss, "ges": ges}[engine]
    return search(stats, penalty=setting)


def candidates(engine: str, d: int, n: int) -> dict[str, float]:
    """Other rules, as settings for these numbers of variables and rows."""
    if engine == "pc":
        return {f"{c:g}/(d√n)": min(0.05, c / (d * math.sqrt(n))) for c in FACTORS}
    return {f"gamma {g:g}": 1 + 2 * g * math.log(d) / math.log(n) for g in GAMMAS}


def measure(engine: str, d: int, n: int, degree: int, seeds: range, choose: bool) -> list[Row]:
    """The mean SHD of each rule, and that of the best fixed setting."""
    rules: dict[str, Any] = {f"{value:g}": value for value in FIXED[engine]}
    rules |= candidates(engine, d, n) if choose else {"auto": "auto"}
    shd = dict.fromkeys(rules, 0.0)
    seconds = dict.fromkeys(rules, 0.0)
    for seed in seeds:
        truth, stats = table(d, n, degree, seed)
        for rule, setting in rules.items():
            start = time.process_time()
            found = fit(engine, stats, setting)
            seconds[rule] += time.process_time() - start
            shd[rule] += metrics.shd(true=truth, estimate=Graph(found.adjacency, truth.names)) / len(seeds)
    best = min(shd[f"{value:g}"] for value in FIXED[engine])
    rows = []
    for rule in rules:
        excess = (shd[rule] + 0.5) / (best + 0.5)
        rows.append({
            "engine": engine, "d": d, "n": n, "degree": degree, "rule": rule, "shd": round(shd[rule], 2),
            "best_fixed": round(best, 2), "excess": round(excess, 3), "missed": excess > LIMIT,
            "seeds": len(seeds), "cpu_s": round(seconds[rule] / len(seeds), 4),
        })  # fmt: skip
    return rows


def summarise(rows: list[Row]) -> None:
    for engine, rule in dict.fromkeys((row["engine"], row["rule"]) for row in rows):
        own = [row for row in rows if (row["engine"], row["rule"]) == (engine, rule)]
        excess = np.array([row["excess"] for row in own])
        print(f"{engine:5s} {rule:10s} {len(own):3d} settings, {(excess > LIMIT).sum():3d} above {LIMIT}, "
              f"largest {excess.max():6.2f}, geometric mean {np.exp(np.log(excess).mean()):.3f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="penalties by rule beside fixed ones")
    parser.add_argument("--choose", action="store_true", help="compare rules, on seeds of their own")
    parser.add_argument(
        "--seeds", type=int, default=4, help="data sets per setting; half as many at 300 variables"
    )
    parser.add_argument("--engines", default="boss,ges,pc")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    first = CHOOSING if chosen.choose else REPORTING
    found = []
    for d, n, degree in product(map(int, chosen.sizes.split(",")), ROWS, DEGREES):
        number = chosen.seeds if d < 300 else max(1, chosen.seeds // 2)
        for engine in chosen.engines.split(","):
            if engine == "pc" and degree > 4 and d > 30:
                continue  # the number of tests grows exponentially with the degree
            rows = measure(engine, d, n, degree, range(first, first + number), chosen.choose)
            found += rows
            print(
                engine, d, n, degree, " ".join(f"{row['rule']}: {row['shd']:g}" for row in rows), flush=True
            )
    summarise(found)
    if not chosen.no_save:
        keep(
            "penalties_choice" if chosen.choose else "penalties", found, machine("polydag", "numba", "scipy")
        )


if __name__ == "__main__":
    main()
