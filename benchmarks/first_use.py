"""CPU time of the first fit of each method, with no compiled kernel on disk and with all of them.

Each fit runs in a process of its own; importing polydag is not counted. A table of 200 rows and 10 columns,
seed 0.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from keeping import keep, machine

from polydag import BOSS, GES, PC, BayesianDiscovery

METHODS = {
    "ges": lambda: GES(),
    "boss": lambda: BOSS(),
    "pc": lambda: PC(),
    "posterior, exact": lambda: BayesianDiscovery(criterion="bge", method="exact"),
    "posterior, mcmc": lambda: BayesianDiscovery(criterion="bge", method="mcmc", random_state=0),
}


def table() -> pd.DataFrame:
    """Ten dependent columns: edges are added, removed and turned."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    for j in range(1, 10):
        X[:, j] += 0.7 * X[:, :j] @ (rng.random(j) < 0.5)
    return pd.DataFrame(X, columns=list("abcdefghij"))


def first_fit(method: str) -> float:
    """CPU seconds of one fit in this process."""
    frame, learner = table(), METHODS[method]()
    begun = time.process_time()
    learner.fit(frame)
    return time.process_time() - begun


def in_new_process(method: str, cache: Path) -> float:
    done = subprocess.run(
        [sys.executable, __file__, "--method", method],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)}, capture_output=True, check=True, text=True,
    )  # fmt: skip
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=METHODS, help="only print the time of one fit in this process")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    if chosen.method:
        print(first_fit(chosen.method))
        return
    rows = []
    for method in METHODS:
        with tempfile.TemporaryDirectory() as cache:
            empty, filled = (round(in_new_process(method, Path(cache)), 2) for _ in range(2))
        rows.append({"method": method, "empty_cache_cpu_s": empty, "filled_cache_cpu_s": filled})
        print(f"{method}: {empty} CPU-s, then {filled}", flush=True)
    if not chosen.no_save:
        keep("first_use", rows, machine("polydag", "numba"))


if __name__ == "__main__":
    main()
