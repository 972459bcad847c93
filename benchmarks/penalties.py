"""Penalties that are chosen by a rule, beside the best fixed one: CPDAG SHD of BOSS, GES and PC.

Random DAGs of d variables with d·degree/2 edges, weights ±[0.25, 1], errors of variance 1, standardised
columns. The fixed penalties are 1, 2, 3 and 4 for BOSS and GES, and the levels 0.001, 0.01, 0.05 and 0.1 for
PC. "auto" may have up to 1.2 times the errors of the best of them in every setting, means over seeds being
compared. Half an error is added to both, since some settings have none; `excess` is the ratio, `missed` says
where it is above 1.2, and `surely` where it is by more than two of its standard errors (`excess_se`). The
best of four on the same seeds is better than it will be on others, so a little above 1 means nothing. With
1000 variables a penalty of 1 takes minutes and is never the best, so it is left out there, and PC too.

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
import pandas as pd
from keeping import RESULTS, keep, machine

from polydag import Graph, metrics, simulate
from polydag.search.boss.search import boss
from polydag.search.ges.search import ges
from polydag.search.pc import pc
from polydag.stats import GaussianStats

Row = dict[str, Any]
FIXED = {"boss": (1.0, 2.0, 3.0, 4.0), "ges": (1.0, 2.0, 3.0, 4.0), "pc": (0.001, 0.01, 0.05, 0.1)}
MANY = 1000  # variables, from where on a penalty of 1 is left out
SIZES = (10, 30, 100)
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
    fixed = {f"{value:g}": value for value in FIXED[engine] if d < MANY or value > 1}
    rules: dict[str, Any] = fixed | (candidates(engine, d, n) if choose else {"auto": "auto"})
    errors: dict[str, list[float]] = {rule: [] for rule in rules}
    seconds = dict.fromkeys(rules, 0.0)
    for seed in seeds:
        truth, stats = table(d, n, degree, seed)
        for rule, setting in rules.items():
            start = time.process_time()
            found = fit(engine, stats, setting)
            seconds[rule] += time.process_time() - start
            errors[rule].append(metrics.shd(true=truth, estimate=Graph(found.adjacency, truth.names)))
    shd = {rule: float(np.mean(values)) for rule, values in errors.items()}
    best = min(fixed, key=shd.__getitem__)
    rows = []
    for rule in rules:
        excess = (shd[rule] + 0.5) / (shd[best] + 0.5)
        spread = ratio_error(np.array(errors[rule]) + 0.5, np.array(errors[best]) + 0.5)
        rows.append({
            "engine": engine, "d": d, "n": n, "degree": degree, "rule": rule, "shd": round(shd[rule], 2),
            "best_fixed": round(shd[best], 2), "excess": round(excess, 3), "excess_se": round(spread, 3),
            "missed": excess > LIMIT, "surely": excess - 2 * spread > LIMIT,
            "seeds": len(seeds), "cpu_s": round(seconds[rule] / len(seeds), 4),
        })  # fmt: skip
    return rows


def ratio_error(above: Any, below: Any) -> float:
    """The standard error of a ratio of means, by the delta method; 0 for a single data set."""
    if len(above) < 2:
        return 0.0
    left = above - above.mean() / below.mean() * below
    return float(left.std(ddof=1) / math.sqrt(len(left)) / below.mean())


def summarise(rows: list[Row]) -> None:
    for engine, rule in dict.fromkeys((row["engine"], row["rule"]) for row in rows):
        own = [row for row in rows if (row["engine"], row["rule"]) == (engine, rule)]
        excess = np.array([row["excess"] for row in own])
        worst = own[int(excess.argmax())]
        print(f"{engine:5s} {rule:10s} {len(own):3d} settings, {(excess > LIMIT).sum():3d} above {LIMIT} "
              f"({sum(row['surely'] for row in own)} by two standard errors), largest {excess.max():6.2f} ± "
              f"{worst['excess_se']:.2f} (d={worst['d']}, n={worst['n']}, degree {worst['degree']}), "
              f"geometric mean {np.exp(np.log(excess).mean()):.3f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="penalties by rule beside fixed ones")
    parser.add_argument("--choose", action="store_true", help="compare rules, on seeds of their own")
    parser.add_argument("--seeds", type=int, default=4, help="data sets per setting")
    parser.add_argument("--engines", default="boss,ges,pc")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--degrees", default=",".join(map(str, DEGREES)))
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    first = CHOOSING if chosen.choose else REPORTING
    seeds = range(first, first + chosen.seeds)
    settings = (map(int, given.split(",")) for given in (chosen.sizes, chosen.rows, chosen.degrees))
    found: list[Row] = []
    for d, n, degree in product(*settings):
        for engine in chosen.engines.split(","):
            if engine == "pc" and (d >= MANY or (degree > 4 and d > 30)):
                continue  # the number of tests grows exponentially with the degree
            rows = measure(engine, d, n, degree, seeds, chosen.choose)
            found += rows
            print(
                engine, d, n, degree, " ".join(f"{row['rule']}: {row['shd']:g}" for row in rows), flush=True
            )
            if not chosen.no_save:
                keep_with_others("penalties_choice" if chosen.choose else "penalties", rows)
    summarise(found)


def keep_with_others(name: str, rows: list[Row]) -> None:
    """Replace the rows of a setting; those of others stay as they are."""
    path, about = RESULTS / f"{name}.csv", ("engine", "d", "n", "degree")
    earlier = pd.read_csv(path, dtype=str).fillna("").to_dict("records") if path.exists() else []
    place = machine("polydag", "numba", "scipy")
    kept = [row for row in earlier if any(row[key] != str(rows[0][key]) for key in about)]
    columns = [*rows[0], *place]
    full = [*kept, *({**row, **place} for row in rows)]
    full.sort(key=lambda row: (row["engine"], *(int(row[key]) for key in about[1:])))
    keep(name, [{key: row.get(key, "") for key in columns} for row in full], place)


if __name__ == "__main__":
    main()
