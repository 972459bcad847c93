"""Federated learning beside pooling: errors, rounds and CPU time of one thread, on the same tables.

Erdős–Rényi graphs with d expected edges, weights ±[0.5, 2], rows divided evenly over K parties; three
regimes: equal error variances (the paper's), unequal ones, and standardised columns, where least squares
cannot know directions and errors are counted on CPDAGs. Targets at equal variances: being federated costs at
most 0.5 SHD beside the pooled learner on the same seeds (1 at d = 100), within 60 rounds at d = 20, n = 256,
K = 64 and 100 at n = 60, K = 10; the paper's schedule SHD ≤ 8.5, 9.5 and 25 in the first three settings, and
≤ 3 CPU-seconds in the first. The paper states for d = 20, K = 64: TPR 0.78 for ADMM, 0.05 voting, 0.325 best.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from keeping import keep, machine

from polydag import GES, EqualVariance, GaussianStats, Graph, Notears, metrics, simulate
from polydag.errors import ConvergenceWarning
from polydag.learners.federated import FederatedNotears
from polydag.reproduce.federated import METHODS as PAPER_METHODS
from polydag.reproduce.federated import Sample, divided, measured, simulated

SETTINGS = {
    "d20-K64": (20, 256, 64),
    "d20-K10": (20, 60, 10),
    "d50-K64": (50, 256, 64),
    "d100-K10": (100, 300, 10),
}
STATED = {"NOTEARS-ADMM": "0.78", "NOTEARS-Voting": "0.05", "NOTEARS-Best": "0.325"}
REGIMES: dict[str, dict[str, Any]] = {
    "equal": {},
    "unequal": {"noise_scale": (0.5, 2.0)},
    "standardised": {"standardize": True},
}
Fit = Callable[[pd.DataFrame, list[pd.DataFrame]], tuple[Graph, int]]


def federated(**settings: Any) -> Fit:
    def fit(rows: pd.DataFrame, parts: list[pd.DataFrame]) -> tuple[Graph, int]:
        model = FederatedNotears(**settings).fit(parts)
        return model.graph_, model.n_rounds_

    return fit


CONTENDERS: dict[str, Fit] = {
    "pooled": lambda rows, parts: (Notears().fit(rows).graph_, 0),
    "admm": federated(),
    "admm, paper": federated(schedule="paper"),
    "fedavg": federated(method="fedavg"),
    "moments": federated(method="moments"),
    "moments, equal variance": federated(method="moments", learner=EqualVariance()),
    "moments, GES": federated(method="moments", learner=GES()),
}


def table(seed: int, d: int, n: int, regime: str) -> tuple[Graph, pd.DataFrame]:
    rng = np.random.default_rng([seed, d, n])
    truth = simulate.dag(d, expected_edges=d, random_state=rng)
    return truth, simulate.linear(truth, n=n, random_state=rng, **REGIMES[regime])


def measure(setting: str, regime: str, contender: str, seed: int) -> dict[str, Any]:
    d, n, parties = SETTINGS[setting]
    truth, rows = table(seed, d, n, regime)
    parts = divided(rows, parties)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        graph, rounds = CONTENDERS[contender](rows, parts)
    seconds = time.process_time() - start
    as_class = graph if graph.has_undirected else graph.to_cpdag()
    directed = not graph.has_undirected
    return {
        "setting": setting,
        "regime": regime,
        "contender": contender,
        "seed": seed,
        "shd": metrics.shd(true=truth, estimate=graph) if directed else "",
        "shd_cpdag": metrics.shd(true=truth.to_cpdag(), estimate=as_class),
        "tpr": round(metrics.tpr(true=truth, estimate=graph), 4) if directed else "",
        "rounds": rounds,
        "cpu_s": round(seconds, 3),
        "load": round(os.getloadavg()[0], 1),
    }


def summarise(found: list[dict[str, Any]]) -> None:
    frame = pd.DataFrame(found)
    frame["shd"] = pd.to_numeric(frame["shd"], errors="coerce")
    for (setting, regime), group in frame.groupby(["setting", "regime"], sort=False):
        pooled = group[group["contender"] == "pooled"].set_index("seed")
        for contender, own in group.groupby("contender", sort=False):
            pair = own.set_index("seed")
            cost = (pair["shd"] - pooled["shd"]).dropna()
            more = f"{cost.mean():+5.2f} ± {cost.sem():.2f} beside pooled" if len(cost) > 1 else ""
            print(
                f"{setting:9s} {regime:13s} {contender:24s} SHD {own['shd'].mean():6.2f} "
                f"CPDAG {own['shd_cpdag'].mean():6.2f}  rounds {own['rounds'].mean():5.1f} "
                f"(most {own['rounds'].max()})  {own['cpu_s'].mean():6.2f} CPU-s  {more}"
            )


def stated(seeds: int) -> list[dict[str, Any]]:
    """What the paper says in words of d = 20, K = 64."""
    found = []
    values = []
    for seed in range(seeds):
        sample: Sample = simulated(20, 256, 64)(seed)
        values.append(measured(sample)[:, 1])
        found += [
            {"setting": "stated", "contender": method, "seed": seed, "tpr": round(float(tpr), 4)}
            for method, tpr in zip(PAPER_METHODS, values[-1], strict=True)
        ]
    mean, error = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / np.sqrt(seeds)
    for method, m, e in zip(PAPER_METHODS, mean, error, strict=True):
        print(f"stated  d=20, K=64  {method:16s} TPR {m:.3f} ± {e:.3f}  paper: {STATED.get(method, '-')}")
    return found


def growth() -> list[dict[str, Any]]:
    """CPU time a round, against the number of parties and the number of rows."""
    found = []
    _, rows = table(0, 20, 1_000_000, "equal")
    for parties, n in ((4, 4096), (16, 4096), (64, 4096), (256, 4096), (16, 65_536), (16, 1_000_000)):
        parts = divided(rows.iloc[:n], parties)
        stats = [GaussianStats.from_data(part) for part in parts]  # once; a round must not depend on rows
        start = time.process_time()
        rounds = FederatedNotears(lambda_=0.05, threshold=0.3).fit(stats).n_rounds_
        each = 1000 * (time.process_time() - start) / rounds
        found.append({"parties": parties, "n": n, "ms_a_round": round(each, 3), "rounds": rounds})
        print(f"growth  K={parties:4d} n={n:8d}  {each:7.2f} CPU-ms a round, {rounds} rounds")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Federated learning beside pooling")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--regimes", nargs="+", default=list(REGIMES), choices=list(REGIMES))
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS))
    parser.add_argument("--stated", type=int, default=30, help="seeds for what the paper states; 0 for none")
    parser.add_argument("--no-growth", action="store_true", help="leave out cost against parties and rows")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    CONTENDERS["admm"](*_warm())
    found = []
    for setting in chosen.settings:
        for regime in chosen.regimes:
            for seed in range(chosen.first, chosen.first + chosen.seeds):
                found += [measure(setting, regime, contender, seed) for contender in chosen.contenders]
            summarise([row for row in found if (row["setting"], row["regime"]) == (setting, regime)])
    said = stated(chosen.stated) if chosen.stated else []
    costs = [] if chosen.no_growth else growth()
    if not chosen.no_save:
        place = machine("polydag", "scipy", "numba")
        for name, rows in (("federated", found), ("federated_stated", said), ("federated_growth", costs)):
            if rows:
                keep(name, rows, place)


def _warm() -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Something small, so that compiling is not timed."""
    _, rows = table(0, 5, 60, "equal")
    return rows, divided(rows, 3)


if __name__ == "__main__":
    main()
