"""Figures 1, 2, 3 and 5 of the federated paper (Ng and Zhang 2022), the linear ones.

Every run is one piece of work: an interrupted reproduction goes on where it stopped. Beside the paper's three
methods stand ours: ADMM with its default schedule, and moments, which is pooling.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polydag import metrics, simulate
from polydag.checkpoint import piece
from polydag.errors import ConvergenceWarning, DataError, UsageError
from polydag.graph import Graph
from polydag.learners.federated import FederatedNotears
from polydag.learners.notears import Notears
from polydag.learners.party_methods import ALONE_LAMBDA
from polydag.learners.party_models import PAPER_THRESHOLD
from polydag.plot.charts import Line, Panel, line_charts
from polydag.progress import report

TABLES = (1, 2, 3, 5)
FIGURES = {number: number for number in TABLES}
PARTIES = (2, 4, 8, 16, 32, 64)
METRICS = ("shd", "tpr", "fdr")
METHODS = ("NOTEARS-ADMM", "NOTEARS-Voting", "NOTEARS-Best", "ADMM, default", "moments")


class Sample(NamedTuple):
    """One data set, divided over parties."""

    truth: Graph
    parts: list[pd.DataFrame]


class Setting(NamedTuple):
    """A place on a figure's horizontal axis: which chart it belongs to, and how to draw a data set."""

    chart: str
    axis: str
    x: int
    draw: Callable[[int], Sample]


def divided(rows: pd.DataFrame, k: int) -> list[pd.DataFrame]:
    """The rows in k parts of equal size, as far as that goes."""
    return [rows.iloc[part] for part in np.array_split(np.arange(len(rows)), k)]


def simulated(d: int, n: int, k: int) -> Callable[[int], Sample]:
    """Section 6: Erdős–Rényi graphs with d expected edges, weights ±[0.5, 2], standard Gaussian noise."""

    def draw(seed: int) -> Sample:
        rng = np.random.default_rng([seed, d, n])
        truth = simulate.dag(d, expected_edges=d, random_state=rng)
        return Sample(truth, divided(simulate.linear(truth, n=n, random_state=rng), k))

    return draw


def sachs(k: int) -> Callable[[int], Sample]:
    """Section 6.3: 512 of the 853 observational rows, drawn at random."""

    def draw(seed: int) -> Sample:
        if "POLYDAG_DATA" not in os.environ:
            raise DataError(
                "Figure 3 needs the Sachs data: set POLYDAG_DATA to the folder with reference data."
            )
        folder = Path(os.environ["POLYDAG_DATA"]) / "sachs"
        rows = pd.read_csv(folder / "sachs_observational_853.csv")
        edges = pd.read_csv(folder / "sachs_dag_17edges.csv")
        truth = Graph.from_edges(list(rows.columns), edges.to_numpy().tolist())
        chosen = np.random.default_rng(seed).permutation(len(rows))[:512]
        return Sample(truth, divided(rows.iloc[chosen].astype(float), k))

    return draw


def settings(figure: int) -> list[Setting]:
    """The places of a figure."""
    if figure == 1:
        return [Setting("n = 3d, K = 10", "d", d, simulated(d, 3 * d, 10)) for d in (10, 20, 50, 100)]
    if figure == 2:
        return [Setting("d = 50", "parties", k, simulated(50, 256, k)) for k in PARTIES]
    if figure == 3:
        return [Setting("Sachs", "parties", k, sachs(k)) for k in PARTIES]
    return [Setting(f"d = {d}", "parties", k, simulated(d, 256, k)) for d in (10, 20) for k in PARTIES]


def graphs(sample: Sample) -> dict[str, Graph]:
    """What each method finds."""
    alone = [_alone(part) for part in sample.parts]
    share = np.mean([graph.adjacency for graph in alone], axis=0)
    best = min(alone, key=lambda graph: metrics.shd(true=sample.truth, estimate=graph))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        paper = FederatedNotears(schedule="paper").fit(sample.parts).graph_
        ours = FederatedNotears().fit(sample.parts).graph_
        pooled = FederatedNotears(method="moments").fit(sample.parts).graph_
    found = (paper, Graph(share > 0.5, sample.truth.names), best, ours, pooled)
    return dict(zip(METHODS, found, strict=True))


def _alone(part: pd.DataFrame) -> Graph:
    """NOTEARS on one party's rows; nothing where they do not vary."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            return Notears(lambda_=ALONE_LAMBDA, threshold=PAPER_THRESHOLD).fit(part).graph_
        except DataError:
            return Graph(np.zeros((part.shape[1], part.shape[1])), part.columns)


def measured(sample: Sample) -> NDArray[np.float64]:
    """One row a method, one column a metric."""
    found = graphs(sample)
    rows = [
        [float(getattr(metrics, name)(true=sample.truth, estimate=found[method])) for name in METRICS]
        for method in METHODS
    ]
    return np.array(rows)


def run(figures: Iterable[int], seeds: int, preset: str = "ours") -> dict[str, pd.DataFrame]:
    """Means and standard errors over `seeds` data sets a place."""
    if preset != "ours":
        raise UsageError(f"The federated paper has no preset {preset!r}; leave --preset out.")
    wanted = list(figures)
    if unknown := [number for number in wanted if number not in TABLES]:
        raise UsageError(
            f"The federated paper's linear figures are {', '.join(map(str, TABLES))}; got {unknown[0]}."
        )
    return {f"figure{figure}": _figure(figure, seeds) for figure in wanted}


def _figure(figure: int, seeds: int) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    places = settings(figure)
    for number, setting in enumerate(places):
        found = []
        for seed in range(seeds):
            report(f"figure {figure}", number * seeds + seed, len(places) * seeds,
                   f"{setting.chart}, {setting.axis} {setting.x}, run {seed + 1}")  # fmt: skip

            def compute(seed: int = seed, setting: Setting = setting) -> dict[str, NDArray[Any]]:
                return {"measured": measured(setting.draw(seed))}

            found.append(piece(f"{figure} {setting.chart} {setting.x} {seed}", compute)["measured"])
        values = np.array(found, dtype=float)
        mean = np.nanmean(values, axis=0)
        error = np.nanstd(values, axis=0, ddof=1 if seeds > 1 else 0) / np.sqrt(seeds)
        for m, method in enumerate(METHODS):
            row = {
                "chart": setting.chart,
                "axis": setting.axis,
                "x": setting.x,
                "method": method,
                "runs": seeds,
            }
            for k, name in enumerate(METRICS):
                row |= {name: mean[m, k], f"{name}_se": error[m, k]}
            rows.append(row)
    report(f"figure {figure}", len(places) * seeds, len(places) * seeds)
    return pd.DataFrame(rows)


def pictures(found: dict[str, pd.DataFrame]) -> dict[str, str]:
    """Each figure in the paper's form: SHD, TPR and FDR side by side, one row of panels a chart."""
    return {
        name if len(charts) == 1 else f"{name}{letter}": line_charts(_panels(table[table["chart"] == chart]))
        for name, table in found.items()
        for charts in (list(dict.fromkeys(table["chart"])),)
        for chart, letter in zip(charts, "abc", strict=False)
    }


def _panels(table: pd.DataFrame) -> Sequence[Panel]:
    places = list(dict.fromkeys(table["x"]))
    axis = {"d": "variables", "parties": "parties"}[str(table["axis"].iloc[0])]
    title = str(table["chart"].iloc[0])
    return [
        Panel(
            f"{metric.upper()} ({title})",
            axis,
            places,
            [
                Line(method, own[metric].tolist(), own[f"{metric}_se"].tolist())
                for method in METHODS
                for own in (table[table["method"] == method],)
            ],
        )
        for metric in METRICS
    ]
