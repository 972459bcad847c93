"""Neural networks and time series over parties, beside pooling: errors, rounds and CPU time of one thread.

Erdős–Rényi graphs with d expected edges. Networks: the paper's nonlinear simulations (section 6.4), rows
divided evenly over four parties. Series: a structural vector autoregression with d expected instantaneous and
d lagged edges, |weights| in [0.3, 0.8], 50 steps, ten realisations for each of eight parties. Errors have
equal variances, as in the paper; or unequal ones; or columns are standardised, where least squares cannot
know directions within a time slice. F1 counts directed edges, for series those of all lags; "adjacent" counts
them without their directions. Standardised columns are compared as equivalence classes, too (of series given
what the order of time tells), with GES on summed statistics beside, which knows linear relations only.
Targets stand beside what was measured in nonlinear_targets.csv.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from keeping import RESULTS, keep, machine
from party_fits import over_parties

from polydag import GES, Graph, metrics, orientation, simulate
from polydag.errors import ConvergenceWarning
from polydag.learners.base import StructureLearner
from polydag.learners.notears.lagged import NotearsLagged
from polydag.learners.notears.nonlinear import NotearsMLP
from polydag.losses.lagged import slice_names
from polydag.privacy.settings import Privacy

Array = np.ndarray[Any, Any]
Data = tuple[Graph, list[pd.DataFrame]]
Fit = Callable[[list[pd.DataFrame]], StructureLearner]


UNEQUAL = (0.5, 2.0)  # standard deviations of the errors


def scaled(rows: pd.DataFrame, columns: Sequence[str], regime: str) -> pd.DataFrame:
    """Columns of one size, where that is asked for."""
    if regime != "standardised":
        return rows
    z = rows[list(columns)]
    return rows.assign(**((z - z.mean()) / z.std()))


def networks(d: int, n: int, parties: int, regime: str = "equal") -> Callable[[int], Data]:
    def draw(seed: int) -> Data:
        rng = np.random.default_rng([seed, d, n])
        truth = simulate.dag(d, expected_edges=d, random_state=rng)
        noise = UNEQUAL if regime == "unequal" else 1.0
        rows = scaled(simulate.mlp(truth, n=n, noise_scale=noise, random_state=rng), truth.names, regime)
        return truth, [rows.iloc[part] for part in np.array_split(np.arange(n), parties)]

    return draw


def series(d: int, lags: int, parties: int, regime: str = "equal") -> Callable[[int], Data]:
    def draw(seed: int) -> Data:
        rng = np.random.default_rng([seed, d, lags])
        noise = UNEQUAL if regime == "unequal" else 1.0
        sample = simulate.lagged(
            d, n_steps=50, n_lags=lags, n_realisations=10 * parties, noise_scale=noise, random_state=rng
        )
        data = scaled(sample.data, sample.instantaneous.names, regime)
        weights = np.zeros((d * (lags + 1), d * (lags + 1)))
        weights[:, :d] = np.concatenate([sample.instantaneous.weights, *sample.lags])
        truth = Graph(weights != 0, slice_names(sample.instantaneous.names, lags), weights)
        which = data["realisation"] // 10
        return truth, [data[which == k] for k in range(parties)]

    return draw


def federated(**settings: Any) -> Fit:
    if settings.get("method") != "moments":
        settings["random_state"] = 0
    return lambda parts: over_parties(parts, Privacy(mode="none"), **settings)


def pooled_networks(**settings: Any) -> Fit:
    return lambda parts: NotearsMLP(random_state=0, **settings).fit(pd.concat(parts))


class Setting(NamedTuple):
    draw: Callable[[int], Data]
    seeds: int
    contenders: dict[str, Fit]


MLP: dict[str, Fit] = {"pooled": pooled_networks(), "admm": federated(model="mlp")}
MASKED: dict[str, Fit] = {"pooled": pooled_networks(mask="gumbel"), "admm": federated(model="masked")}
CLASSES: dict[str, Fit] = {**MLP, "moments, GES": federated(method="moments", learner=GES())}
LAGS = 2
LAGGED: dict[str, Fit] = {
    "pooled": lambda parts: NotearsLagged(LAGS).fit(pd.concat(parts)),
    "admm": federated(model="lagged", lags=LAGS),
    "moments": federated(model="lagged", lags=LAGS, method="moments"),
}
LAGGED_CLASSES: dict[str, Fit] = {
    **LAGGED,
    "moments, GES": federated(model="lagged", lags=LAGS, method="moments", learner=GES()),
}
SETTINGS = {
    "mlp, d=10": Setting(networks(10, 512, 4), 20, MLP),
    "mlp, d=50": Setting(networks(50, 512, 4), 20, MLP),
    "masked, d=10": Setting(networks(10, 512, 4), 20, MASKED),
    "lagged, d=20": Setting(series(20, LAGS, 8), 20, LAGGED),
}
SETTINGS |= {
    f"{name}, {regime}": setting
    for regime in ("unequal", "standardised")
    for name, setting in {
        "mlp, d=10": Setting(networks(10, 512, 4, regime), 20, MLP if regime == "unequal" else CLASSES),
        "mlp, d=50": Setting(networks(50, 512, 4, regime), 20, MLP if regime == "unequal" else CLASSES),
        "lagged, d=20": Setting(
            series(20, LAGS, 8, regime), 20, LAGGED if regime == "unequal" else LAGGED_CLASSES
        ),
    }.items()
}
# What, of which contender, and at most or at least how much; "cost" is the measure beside pooling.
TARGETS = (
    ("mlp, d=10", "admm", "shd cost", "<=", 1.0),
    ("mlp, d=10", "admm", "f1", ">=", 0.7),
    ("mlp, d=10", "admm", "cpu_s", "<=", 10.0),
    ("mlp, d=50", "admm", "shd cost", "<=", 5.0),
    ("mlp, d=50", "admm", "cpu_s", "<=", 600.0),
    ("lagged, d=20", "admm", "f1 cost", ">=", -0.02),
    ("lagged, d=20", "admm", "f1", ">=", 0.9),
    ("lagged, d=20", "moments", "f1 cost", ">=", -0.02),
    ("lagged, d=20", "moments", "f1", ">=", 0.9),
)


def measure(name: str, contender: str, seed: int) -> dict[str, Any]:
    setting = SETTINGS[name]
    truth, parts = setting.draw(seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = setting.contenders[contender](parts)
    seconds = time.process_time() - start
    graph = model.graph_
    directed = not graph.has_undirected
    joined, known = (g.adjacency | g.adjacency.T for g in (graph, truth))
    return {
        "setting": name,
        "contender": contender,
        "seed": seed,
        "shd": metrics.shd(true=truth, estimate=graph) if directed else "",
        "shd_cpdag": metrics.shd(true=as_class(truth, name), estimate=as_class(graph, name)),
        "f1": f1(graph.adjacency, truth.adjacency) if directed else "",
        "adjacent": f1(joined, known),
        "rounds": getattr(model, "n_rounds_", 0),
        "converged": model.converged_,
        "cpu_s": round(seconds, 3),
        "load": round(os.getloadavg()[0], 1),
    }


def as_class(graph: Graph, setting: str) -> Graph:
    """All that rows tell of a graph's directions; of series that is, first of all, the order of time.

    Slices of the past depend on each other in ways that are not modelled, so they count as joined; parents in
    the past that are not joined in the graph say nothing about directions.
    """
    dag = graph if graph.is_dag else graph.to_dag()
    if not setting.startswith("lagged"):
        return dag.to_cpdag()
    present = graph.n_nodes // (LAGS + 1)
    A = dag.adjacency.copy()
    A[present:, present:] = np.triu(np.ones((graph.n_nodes - present,) * 2, dtype=bool), 1)
    found = orientation.cpdag(A)
    found[:present, present:] = False
    found = orientation.meek(found)
    found[present:, present:] = False
    return Graph(found, graph.names)


def f1(found: Array, true: Array) -> float:
    return round(2 * float((found & true).sum()) / float(found.sum() + true.sum()), 4)


def summarise(rows: list[dict[str, Any]]) -> None:
    counted = ["shd", "shd_cpdag", "f1"]
    table = pd.DataFrame(rows)
    table[counted] = table[counted].apply(pd.to_numeric, errors="coerce")
    for contender, own in table.groupby("contender", sort=False):
        print(
            f"{own['setting'].iloc[0]:26s} {contender:12s} {len(own):3d} seeds  SHD {own['shd'].mean():6.2f} "
            f"(classes {own['shd_cpdag'].mean():6.2f})  "
            f"F1 {own['f1'].mean():.3f} ({own['adjacent'].mean():.3f})  "
            f"rounds {own['rounds'].mean():5.1f}  {own['cpu_s'].mean():7.2f} CPU-s"
            f" (most {own['cpu_s'].max():.2f})  settled {int(own['converged'].sum())}",
            flush=True,
        )


def beside_targets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    frame = pd.DataFrame(rows).astype({"cpu_s": float, "seed": int})
    frame[["shd", "f1"]] = frame[["shd", "f1"]].apply(pd.to_numeric, errors="coerce")
    found = []
    for setting, contender, what, sense, target in TARGETS:
        mine = frame[(frame["setting"] == setting) & (frame["contender"] == contender)].set_index("seed")
        pooled = frame[(frame["setting"] == setting) & (frame["contender"] == "pooled")].set_index("seed")
        column, _, cost = what.partition(" ")
        each = (mine[column] - pooled[column] if cost else mine[column]).dropna()
        value, error = (float(each.mean()), float(each.sem())) if len(each) > 1 else (np.nan, np.nan)
        met = value <= target if sense == "<=" else value >= target
        said = "not measured" if np.isnan(value) else "yes" if met else "missed"
        found.append(
            {"setting": setting, "contender": contender, "measure": what, "target": f"{sense} {target:g}",
             "measured": round(value, 4), "error": round(error, 4), "seeds": len(each),
             "met": said}
        )  # fmt: skip
        print(
            f"{setting:13s} {contender:8s} {what:9s} {sense} {target:<6g} measured {value:.3f} ± {error:.3f}"
        )
    return found


def earlier(settings: list[str]) -> list[dict[str, Any]]:
    """Rows of an earlier session about other settings."""
    path = RESULTS / "nonlinear.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["setting"] not in settings]


def main() -> None:
    parser = argparse.ArgumentParser(description="Networks and series over parties, beside pooling")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", type=int, help="for each setting; its own number by default")
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    place = machine("polydag", "scipy", "numba")
    for fit in LAGGED_CLASSES.values():  # something small, so that compiling is not timed
        fit(series(3, 2, 3)(0)[1])
    CLASSES["moments, GES"](networks(3, 60, 3)(0)[1])
    for name in chosen.settings:
        rows: list[dict[str, Any]] = []
        for seed in range(chosen.first, chosen.first + (chosen.seeds or SETTINGS[name].seeds)):
            rows += [measure(name, contender, seed) for contender in SETTINGS[name].contenders]
            if not chosen.no_save:  # kept after every seed: some take minutes
                whole = earlier([name]) + rows
                keep("nonlinear", whole, place)
        summarise(rows)
    if not chosen.no_save:
        keep("nonlinear_targets", beside_targets(earlier([])), place)


if __name__ == "__main__":
    main()
