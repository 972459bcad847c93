"""Predicted memory and time beside what is measured, each fit in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from typing import Any

import pytest

from polydag.data.checking.cost_estimates import COSTS, Cost

# Columns and rows; smaller ones for the method whose time grows fastest.
SIZES = ((5, 100), (10, 1000), (20, 200), (40, 5000), (60, 1000),
         (100, 300), (100, 10000), (200, 1000), (300, 2000), (500, 1000))  # fmt: skip
SMALLER = {"posterior": ((5, 100), (6, 1000), (8, 200), (10, 5000), (12, 1000),
                         (14, 300), (16, 10000), (17, 1000), (18, 2000), (20, 1000)),
           "tasks": ((5, 100), (5, 1000), (6, 200), (6, 5000), (7, 1000),
                     (8, 300), (9, 10000), (10, 1000), (11, 2000), (12, 1000)),
           "linked rows": ((5, 100), (10, 200), (10, 1000), (20, 200), (20, 2000),
                           (40, 500), (40, 2000), (60, 1000), (80, 500), (100, 1000)),
           "notears": ((5, 100), (10, 1000), (20, 200), (30, 500), (40, 5000),
                       (60, 1000), (80, 300), (100, 300), (100, 10000), (120, 1000))}  # fmt: skip
SEEDS = (21, 22, 23)  # the estimates were fitted to tables of other seeds
REFERENCE = 0.0098  # CPU seconds of `reference` below on the machine to which the estimates were fitted

MEASURE = """
import resource, sys, time, warnings
import numpy as np
from polydag import BOSS, BayesianDiscovery, LinkedRows, MultitaskDiscovery, Parties, simulate
from polydag.learners.registry import LEARNERS
warnings.simplefilter("ignore")
name, d, n, seed = sys.argv[1], *map(int, sys.argv[2:])

def table(d, n):
    graph = simulate.dag(d, n_edges=2 * d, random_state=seed)
    return simulate.linear(graph, n=n, random_state=seed)

def reference():
    a = np.random.default_rng(0).normal(size=(300, 300))
    start = time.process_time()
    for _ in range(10):
        a = np.tanh(a @ a * 1e-2)
    return time.process_time() - start

# The learner and the data of each cost, from a table.
MODELS = {
    "posterior": lambda X: (BayesianDiscovery(criterion="bge"), X),
    "tasks": lambda X: (MultitaskDiscovery(criterion="bge"), [X[0::2], X[1::2]]),
    "parties": lambda X: (BOSS(), Parties({str(k): X[k::3] for k in range(3)})),
    "linked rows": lambda X: (BOSS(), in_groups(X)),
}

def in_groups(X):
    groups = np.arange(len(X)) // 10
    shared = np.random.default_rng(seed).normal(size=(groups[-1] + 1, X.shape[1]))
    return LinkedRows(X + shared[groups], groups=groups.tolist())

def prepared(X):
    return MODELS[name](X) if name in MODELS else (LEARNERS[name](), X)

model, data = prepared(table(5, 60))
model.fit(data)  # compiles, or loads what is compiled
model, data = prepared(table(d, n))
speed = min(reference() for _ in range(7))
start = time.process_time()
model.fit(data)
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, speed)
"""


def measured(name: str, d: int, n: int, seed: int) -> tuple[float, float]:
    """CPU seconds, as on the machine of the estimates, and peak bytes of a process that fits one table."""
    command: list[Any] = [sys.executable, "-c", MEASURE, name, d, n, seed]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    seconds, peak, speed = map(float, done.stdout.split())
    return seconds * REFERENCE / speed, peak


@pytest.mark.slow
@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.name)
def test_predictions_hold_at_ten_sizes(cost: Cost) -> None:
    for d, n in SMALLER.get(cost.name, SIZES):
        seconds, peak = map(median, zip(*(measured(cost.name, d, n, seed) for seed in SEEDS), strict=True))
        said = f"{cost.name}, {d} columns, {n} rows: {seconds:.4f} s, {peak / 1e6:.0f} MB"
        assert 1 / 3 < cost.seconds(d, n) / seconds < 3, said
        assert 1 / 1.3 < cost.memory(d, n) / peak < 1.3, said
