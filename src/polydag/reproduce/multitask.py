"""Tables I and II and figures 1 to 7 of the tasks paper (Oyen and Lane 2013).

A trial derives two networks from a benchmark network, deleting every edge with a probability from 0.1 to 0.5,
and draws rows from each. MTL is the family form with λ averaged, with the paper's normaliser or the truncated
one. STL learns each task alone, POOL from all rows. The true edges are those with a single-task posterior
above 0.5 from many rows. Every trial and sample size is one piece of work, so an interrupted reproduction
continues where it stopped. For posteriors from Markov chains, the tables report convergence. The brain study
of section VI (figures 6 and 7) is in `brain`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polydag import formats
from polydag.arrays import Array
from polydag.computing.progress import report
from polydag.discrete_network import DiscreteNetwork
from polydag.embedded import asia
from polydag.errors import DataError, UsageError
from polydag.learners.posterior.multitask import MultitaskDiscovery
from polydag.plot.line_and_box_charts import Bundle, Curve, CurvePanel, Panel, curve_charts, line_charts
from polydag.posterior.mcmc.chains import Chains
from polydag.posterior.transfer import Similarity
from polydag.reproduce import brain
from polydag.reproduce.fits import CHAINS, Fits, agreement, chains, convergence_notes, fitted, kept, stacked
from polydag.reproduce.ranking import Areas, areas, paired, roc_points, up_to_one

FIGURES = {number: 10 + number for number in range(1, 8)}  # distinct from the numbers of tables
TABLES = (1, 2, *FIGURES.values())
TRIALS = 30
MORE = 10  # trials for the ROC curves
SETS = 20  # sample sets for the learning curves
METHODS = ("MTL", "MTL, truncated", "STL", "POOL")
P_DEL = (0.1, 0.2, 0.3, 0.4, 0.5)
LARGE = (500, 1000, 2000, 5000)
EXAMPLE_P_DEL = 0.3  # deletion probability of the networks whose learning curves are drawn
PRESETS = ("ours", "published")
FORMS = ("standard", "paper")
KINDS = ("no edge", "reverse", "true", "shared", "unique")  # in drawing order: rare kinds on top
_PANELS = 4  # number of sample sizes with ROC curves


class Benchmark(NamedTuple):
    """A benchmark network: sample sizes, and how posteriors are computed."""

    name: str
    sizes: tuple[int, ...]
    truth_rows: int
    settings: dict[str, Any]


def benchmark(name: str, preset: str) -> Benchmark:
    """A benchmark network; with "published", alarm is sampled with the paper's chain length and bucket size.

    Both presets use this library's Gibbs moves of single variables, not the paper's swaps.
    """
    if name == "asia":
        return Benchmark(name, (5, 10, 20, 30, 40, 50, 100, 200, 400, 500), 5000, {"method": "exact"})
    settings: dict[str, Any] = {"method": "mcmc", "max_candidates": None}
    if preset == "published":
        settings["chains"] = Chains(bucket_size=10, burn_in=1000, n_steps=2000, n_chains=1)
    return Benchmark(name, (25, 50, 75, 100, 200, 300, 400, 500), 10_000, settings)


@cache
def network(name: str) -> DiscreteNetwork:
    """A network by name: asia is built in, alarm is read from the reference data."""
    if name == "asia":
        return asia()
    if "POLYDAG_DATA" not in os.environ:
        raise DataError(f"{name} is in the reference data: set POLYDAG_DATA to the folder of the data.")
    return formats.read_network(Path(os.environ["POLYDAG_DATA"]) / "bn" / f"{name}.bif.gz")


class Trial(NamedTuple):
    """Two related networks with rows of each; smaller samples are the first rows of larger ones."""

    networks: tuple[DiscreteNetwork, DiscreteNetwork]
    rows: tuple[pd.DataFrame, pd.DataFrame]


def draw(bench: Benchmark, number: int, p_del: float, sample: int = 0) -> Trial:
    """Draw one trial; another `sample` has other rows from the same networks."""
    rng = np.random.default_rng([number, round(100 * p_del)])
    networks = (network(bench.name).related(p_del, rng), network(bench.name).related(p_del, rng))
    rows = np.random.default_rng([number, round(100 * p_del), sample])
    return Trial(
        networks, (networks[0].sample(max(bench.sizes), rows), networks[1].sample(max(bench.sizes), rows))
    )


def learned(bench: Benchmark, tables: Sequence[pd.DataFrame], method: str) -> Fits:
    """The posterior probability of every edge in each task."""
    transfer = {"STL": "none", "POOL": "pool"}.get(method, "family")
    normaliser: Any = "truncated" if method == "MTL, truncated" else "all"
    model = MultitaskDiscovery(
        transfer=transfer,
        similarity=Similarity(normaliser=normaliser),
        criterion="k2",
        max_parents=3,
        random_state=0,
        **bench.settings,
    )
    return fitted(model, list(tables))


def by_method(bench: Benchmark, trial: Trial, size: int) -> Fits:
    """The posteriors of every method from the first rows of a trial."""
    tables = [rows.iloc[:size] for rows in trial.rows]
    return stacked([learned(bench, tables, method) for method in METHODS])


def truth(bench: Benchmark, trial: Trial) -> Fits:
    """Single-task posteriors from many rows."""
    rows = [
        net.sample(bench.truth_rows, np.random.default_rng([7, k])) for k, net in enumerate(trial.networks)
    ]
    return learned(bench, rows, "STL")


def posteriors(bench: Benchmark, trials: int, preset: str) -> tuple[Fits, Fits]:
    """The posteriors of every method `[trial, size, method, task, i, j]`, and those that define the truth."""
    found: list[Fits] = []
    true: list[Fits] = []
    steps = trials * (len(bench.sizes) + 1)
    for number in range(trials):
        trial = draw(bench, number, P_DEL[number % len(P_DEL)])
        own: list[Fits] = []
        for k, size in enumerate((bench.truth_rows, *bench.sizes)):
            report(bench.name, number * (len(bench.sizes) + 1) + k, steps, f"trial {number + 1}, {size} rows")

            def compute(trial: Trial = trial, size: int = size) -> Fits:
                return truth(bench, trial) if size == bench.truth_rows else by_method(bench, trial, size)

            (true if size == bench.truth_rows else own).append(
                kept(f"{bench.name} {preset} {number} {size}", compute)
            )
        found.append(stacked(own))
    report(bench.name, steps, steps)
    return stacked(found), stacked(true)


def chains_of(bench: Benchmark, found: Fits, true: Fits) -> pd.DataFrame:
    """The convergence of each fit of `posteriors`, one row per fit."""
    trials = range(len(true.converged))
    parts = [
        chains(true, {"trial": trials, "samples": [bench.truth_rows], "method": ["truth"]}),
        chains(found, {"trial": trials, "samples": bench.sizes, "method": METHODS}),
    ]
    return pd.concat(parts, ignore_index=True)


def gains(found: Fits, true: Fits, sizes: Sequence[int]) -> pd.DataFrame:
    """By how many per cent the areas of MTL are larger, and the winner of the paired t-test over trials."""
    rows = []
    for k, size in enumerate(sizes):
        each: list[list[Areas]] = [
            [areas(true.P[t] > 0.5, found.P[t, k, m]) for t in range(len(true.P))]
            for m in range(len(METHODS))
        ]
        for measure in Areas._fields:
            values = np.array([[getattr(a, measure) for a in own] for own in each])
            for mtl in (0, 1):
                row: dict[str, Any] = {"samples": size, "measure": measure, "method": METHODS[mtl]}
                row |= {
                    name: float(np.nanmean(values[m])) for m, name in ((mtl, "MTL"), (2, "STL"), (3, "POOL"))
                }
                for other in (2, 3):
                    name = METHODS[other]
                    test = paired(values[mtl], values[other], "MTL", name)
                    row |= {f"vs {name} %": test.increase, f"p {name}": test.p, f"winner {name}": test.winner}
                rows.append(row | agreement(found.at(slice(None), k, [mtl, 2, 3])))
    return pd.DataFrame(rows)


def table1(trials: int, preset: str) -> dict[str, pd.DataFrame]:
    """asia: `trials` trials for each deletion probability; over all probabilities, and for each."""
    bench = benchmark("asia", preset)
    found, true = posteriors(bench, trials * len(P_DEL), preset)
    by_p_del = [
        gains(found.at(own), true.at(own), bench.sizes).assign(p_del=p_del)
        for p_del, own in ((p, slice(k, None, len(P_DEL))) for k, p in enumerate(P_DEL))
    ]
    return {
        "table1": gains(found, true, bench.sizes),
        "by_p_del_table1": pd.concat(by_p_del, ignore_index=True),
    }


def table2(trials: int, preset: str) -> dict[str, pd.DataFrame]:
    """alarm: trials cycle through the deletion probabilities."""
    bench = benchmark("alarm", preset)
    found, true = posteriors(bench, trials, preset)
    return {"table2": gains(found, true, bench.sizes), f"{CHAINS}table2": chains_of(bench, found, true)}


def roc(name: str, bench: Benchmark, trials: int, preset: str) -> dict[str, pd.DataFrame]:
    """Figures 3 and 5: ROC curves over both tasks and all trials, in the standard and in the paper's form."""
    found, true = posteriors(bench, trials, preset)
    parts = []
    for k, size in enumerate(bench.sizes):
        for m, method in enumerate(METHODS):
            how = agreement(found.at(slice(None), k, m))
            for form in FORMS:
                fpr, tpr = roc_points(true.P > 0.5, found.P[:, k, m], form, corners=True)
                columns: dict[str, Any] = {"samples": size, "method": method, "form": form}
                parts.append(pd.DataFrame({**columns, "fpr": fpr, "tpr": tpr, **how}))
    table = pd.concat(parts, ignore_index=True)
    return _with_chains(name, bench, table, chains_of(bench, found, true))


def _with_chains(
    name: str, bench: Benchmark, table: pd.DataFrame, each: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    """The table of a figure and, if posteriors are sampled, the convergence of each fit."""
    return {name: table} if bench.settings["method"] == "exact" else {name: table, f"{CHAINS}{name}": each}


def kinds_of_edges(own: DiscreteNetwork, other: DiscreteNetwork | None = None) -> NDArray[np.object_]:
    """The kind of each ordered pair: shared, unique (to this task), reverse of a true edge, or no edge."""
    A = own.graph.adjacency
    kinds = np.full(A.shape, "no edge", dtype=object)
    kinds[A.T] = "reverse"
    kinds[A] = "true" if other is None else "unique"
    if other is not None:
        kinds[A & other.graph.adjacency] = "shared"
    np.fill_diagonal(kinds, "")
    return kinds


def large_samples(bench: Benchmark, sets: int) -> pd.DataFrame:
    """Figure 1: posteriors of every edge of the benchmark network from many rows, means over sample sets."""
    net = network(bench.name)
    kinds = kinds_of_edges(net)
    rows: list[dict[str, Any]] = []
    for k, size in enumerate(LARGE):
        report("figure 1", k, len(LARGE), f"{size} rows")

        def compute(size: int = size) -> Fits:
            samples = [net.sample(size, np.random.default_rng([11, s])) for s in range(sets)]
            return stacked([learned(bench, [sample, sample], "STL") for sample in samples])

        fits = kept(f"large {bench.name} {size} {sets}", compute)
        rows += _curve_rows(fits.P[:, 0], kinds, net.names, {"samples": size, "method": "STL"})
    report("figure 1", len(LARGE), len(LARGE))
    return pd.DataFrame(rows)


def example(bench: Benchmark) -> int:
    """The first trial whose first task has both shared and unique edges."""
    return next(
        number
        for number in itertools.count()
        if {"shared", "unique"} <= set(kinds_of_edges(*draw(bench, number, EXAMPLE_P_DEL).networks).ravel())
    )


def learning_curves(name: str, bench: Benchmark, sets: int, preset: str) -> dict[str, pd.DataFrame]:
    """Figures 2 and 4: posteriors of the edges of the first task from few rows, means over sample sets."""
    number = example(bench)
    rows: list[dict[str, Any]] = []
    steps = sets * len(bench.sizes)
    parts: list[Fits] = []
    for s in range(sets):
        trial = draw(bench, number, EXAMPLE_P_DEL, sample=s)
        own: list[Fits] = []
        for k, size in enumerate(bench.sizes):
            report(
                f"curves of {bench.name}", s * len(bench.sizes) + k, steps, f"sample set {s + 1}, {size} rows"
            )

            def compute(trial: Trial = trial, size: int = size) -> Fits:
                return by_method(bench, trial, size)

            own.append(kept(f"curves {bench.name} {preset} {number} {s} {size}", compute))
        parts.append(stacked(own))
    report(f"curves of {bench.name}", steps, steps)
    found = stacked(parts)
    kinds = kinds_of_edges(*trial.networks)
    for k, size in enumerate(bench.sizes):
        for m, method in enumerate(METHODS):
            labels = {"samples": size, "method": method, **agreement(found.at(slice(None), k, m))}
            rows += _curve_rows(found.P[:, k, m, 0], kinds, network(bench.name).names, labels)
    axes = {"sample_set": range(sets), "samples": bench.sizes, "method": METHODS}
    return _with_chains(name, bench, pd.DataFrame(rows), chains(found, axes))


def _curve_rows(
    P: Array, kinds: NDArray[np.object_], names: Sequence[str], labels: dict[str, Any]
) -> list[dict[str, Any]]:
    mean, spread = P.mean(axis=0), P.std(axis=0)
    return [
        {
            **labels,
            "source": names[i],
            "target": names[j],
            "kind": kinds[i, j],
            "mean": mean[i, j],
            "sd": spread[i, j],
        }
        for i, j in np.argwhere(~np.eye(len(names), dtype=bool))
    ]


def run(tables: Iterable[int], seeds: int, preset: str = "ours") -> dict[str, pd.DataFrame]:
    """The requested tables (1, 2) and figures (10 plus their number), by file name."""
    wanted = list(tables)
    if unknown := [number for number in wanted if number not in TABLES]:
        raise UsageError(f"The tasks paper has the tables 1 and 2; got {unknown[0]}.")
    if preset not in PRESETS:
        raise UsageError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}.")
    small, large = benchmark("asia", preset), benchmark("alarm", preset)
    work: dict[int, Callable[[], dict[str, pd.DataFrame]]] = {
        1: lambda: table1(seeds, preset),
        2: lambda: table2(seeds, preset),
        11: lambda: {"figure1": large_samples(small, min(seeds, SETS))},
        12: lambda: learning_curves("figure2", small, min(seeds, SETS), preset),
        13: lambda: roc("figure3", small, min(seeds, MORE), preset),
        14: lambda: learning_curves("figure4", large, min(seeds, SETS), preset),
        15: lambda: roc("figure5", large, min(seeds, MORE), preset),
        16: lambda: brain.small_samples(min(seeds, MORE), preset),
        17: lambda: brain.networks(seeds, preset),
    }
    return {name: table for number in wanted for name, table in work[number]().items()}


def pictures(found: dict[str, pd.DataFrame]) -> dict[str, str]:
    """The figures as in the paper; those of the brain study are in `brain`."""
    drawn = {}
    for name, table in found.items():
        if name in ("figure1", "figure2", "figure4"):
            drawn[name] = line_charts(_curve_panels(table))
        elif name in ("figure3", "figure5"):
            drawn[name] = curve_charts(_roc_panels(table), _PANELS)
    return drawn | brain.pictures(found)


def notes(found: Mapping[str, pd.DataFrame]) -> list[str]:
    """Caveats of the results: chains that have not converged, rows that are not independent."""
    return [*convergence_notes(found), *brain.notes(found)]


def _curve_panels(table: pd.DataFrame) -> list[Panel]:
    panels = []
    for method, own in table.groupby("method", sort=False):
        lines = own.pivot_table(index=["kind", "source", "target"], columns="samples", values="mean")
        bundles = [
            Bundle(kind, lines.loc[[kind]].to_numpy().tolist())
            for kind in KINDS
            if kind in lines.index.get_level_values("kind")
        ]
        title = f"posterior of edges, {method}"
        panels.append(Panel(title, "training samples", list(lines.columns), bundles, y_max=1.0))
    return panels


def _roc_panels(table: pd.DataFrame) -> list[CurvePanel]:
    """The standard form above, the paper's below; its unbounded false positive rate is shown up to 1."""
    sizes = list(dict.fromkeys(table["samples"]))
    chosen = [sizes[k] for k in np.unique(np.linspace(0, len(sizes) - 1, _PANELS).astype(int))]
    y_labels = {"standard": "true positive rate", "paper": "“TP rate” (precision)"}
    return [
        CurvePanel(
            f"{size} rows, {form} form",
            "false positive rate" if form == "standard" else "“FP rate”",
            y_labels[form],
            [
                Curve(str(method), *(rates.tolist() for rates in _rates(own)))
                for method, own in table[(table["samples"] == size) & (table["form"] == form)].groupby(
                    "method", sort=False
                )
            ],
            limits=(1.0, 1.0),
        )
        for form in FORMS
        for size in chosen
    ]


def _rates(own: pd.DataFrame) -> tuple[Array, Array]:
    return up_to_one(own["fpr"].to_numpy(), own["tpr"].to_numpy())
