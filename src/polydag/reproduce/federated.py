"""Figures 1 to 5 of the federated paper (Ng and Zhang 2022).

Every run is one piece of work, so an interrupted reproduction continues where it stopped. Besides the paper's
three methods there are ours: ADMM with its default schedule, and pooling (by moments if the model is linear).

NOTEARS-ADMM is exactly Algorithm 1: the rows of every party are centred at their own mean, as in the
published code, and W may have self-loops until h forbids them, as in Problem (3). Without these two features
(`schedule="paper"` centres at the common mean and excludes self-loops) it finds more true edges.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from polydag import metrics, simulate
from polydag.computing.checkpoint import piece
from polydag.computing.progress import report
from polydag.errors import ConvergenceWarning, DataError, UsageError
from polydag.federated import Coordinator, Site
from polydag.federated import run as run_rounds
from polydag.federated.methods.admm import Admm
from polydag.federated.methods.schedules import Paper
from polydag.federated.models.linear import PAPER_LAMBDA, PAPER_THRESHOLD, SINGLE_PARTY_LAMBDA
from polydag.federated.models.linear_coordinator import LinearCoordinator
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.party_data.regimes import variable_groups
from polydag.graph import Graph
from polydag.knowledge import Masks
from polydag.learners.notears.federated import FederatedNotears
from polydag.learners.notears.linear import Notears
from polydag.plot.line_and_box_charts import Line, Panel, line_charts
from polydag.privacy.settings import Privacy
from polydag.sources import Parties
from polydag.stats import GaussianStats

TABLES = (1, 2, 3, 4, 5)
FIGURES = {number: number for number in TABLES}
ONLY_FIGURES = True  # the paper has no tables of results
TRIALS = 30
PARTIES = (2, 4, 8, 16, 32, 64)
METRICS = ("shd", "tpr", "fdr")
LINEAR = ("NOTEARS-ADMM", "NOTEARS-Voting", "NOTEARS-Best", "ADMM, default", "moments")
NONLINEAR = ("NOTEARS-MLP-ADMM", "NOTEARS-MLP-Voting", "NOTEARS-MLP-Best", "ADMM, default", "pooled")


class Sample(NamedTuple):
    """A data set, divided over parties."""

    truth: Graph
    parts: list[pd.DataFrame]


Finder = Callable[[Sample], Mapping[str, Graph]]


class Setting(NamedTuple):
    """A point on the horizontal axis of a figure: its chart, how to draw data, and how to find graphs."""

    chart: str
    axis: str
    x: int
    draw: Callable[[int], Sample]
    find: Finder


def divided(rows: pd.DataFrame, k: int) -> list[pd.DataFrame]:
    """The rows in k parts of nearly equal size."""
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
        data, network = sachs_files()
        rows, edges = pd.read_csv(data), pd.read_csv(network)
        truth = Graph.from_edges(list(rows.columns), edges.to_numpy().tolist())
        chosen = np.random.default_rng(seed).permutation(len(rows))[:512]
        return Sample(truth, divided(rows.iloc[chosen].astype(float), k))

    return draw


def sachs_files() -> tuple[Path, Path]:
    """The files with the rows and the edges of the Sachs data, after checking that they exist."""
    if "POLYDAG_DATA" not in os.environ:
        raise DataError(
            "Figure 3 needs the Sachs data: set POLYDAG_DATA to the folder of the reference data."
        )
    folder = Path(os.environ["POLYDAG_DATA"]) / "sachs"
    files = folder / "sachs_observational_853.csv", folder / "sachs_dag_17edges.csv"
    for file in files:
        if not file.is_file():
            raise DataError(
                f"Figure 3 needs {file}, which does not exist: set POLYDAG_DATA to the folder of the "
                "reference data."
            )
    return files


def nonlinear(d: int, n: int, k: int) -> Callable[[int], Sample]:
    """Section 6: the same graphs, with each variable a random network of its parents plus noise."""

    def draw(seed: int) -> Sample:
        rng = np.random.default_rng([seed, d, n])
        truth = simulate.dag(d, expected_edges=d, random_state=rng)
        return Sample(truth, divided(simulate.mlp(truth, n=n, random_state=rng), k))

    return draw


def settings(figure: int) -> list[Setting]:
    """The points on the horizontal axis of a figure."""
    if figure == 1:
        return [Setting("n = 3d, K = 10", "d", d, simulated(d, 3 * d, 10), graphs) for d in (10, 20, 50, 100)]
    if figure == 2:
        return [Setting("d = 50", "parties", k, simulated(50, 256, k), graphs) for k in PARTIES]
    if figure == 3:
        return [Setting("Sachs", "parties", k, sachs(k), graphs) for k in PARTIES]
    if figure == 4:
        return [
            Setting("networks, d = 50", "parties", k, nonlinear(50, 512, k), network_graphs)
            for k in PARTIES[:4]
        ]
    return [
        Setting(f"d = {d}", "parties", k, simulated(d, 256, k), graphs) for d in (10, 20) for k in PARTIES
    ]


def graphs(sample: Sample) -> dict[str, Graph]:
    """The graph found by each linear method."""
    vote, best = _alone(sample, lambda: Notears(lambda_=SINGLE_PARTY_LAMBDA, threshold=PAPER_THRESHOLD))
    parties = _in_the_open(sample.parts)
    ours = FederatedNotears().fit(parties).graph_
    pooled = Notears().fit(parties).graph_
    return dict(zip(LINEAR, (as_published(sample.parts), vote, best, ours, pooled), strict=True))


def network_graphs(sample: Sample) -> dict[str, Graph]:
    """The graph found by each neural network method; single parties use the published penalties."""
    from polydag.federated.models.networks import PAPER_LAMBDA2, Networks
    from polydag.learners.notears.nonlinear import NotearsMLP

    vote, best = _alone(
        sample,
        lambda: NotearsMLP(
            lambda_=Networks.single_party_lambda,
            lambda2=PAPER_LAMBDA2,
            threshold=PAPER_THRESHOLD,
            random_state=0,
        ),
    )
    default = FederatedNotears(model="mlp", random_state=0)
    paper = clone(default).set_params(schedule="paper").fit(_in_the_open(sample.parts)).graph_
    ours = default.fit(_in_the_open(sample.parts)).graph_
    pooled = NotearsMLP(random_state=0).fit(pd.concat(sample.parts)).graph_
    return dict(zip(NONLINEAR, (paper, vote, best, ours, pooled), strict=True))


def _in_the_open(parts: Sequence[pd.DataFrame]) -> Parties:
    return Parties(parts, privacy=Privacy(mode="none"), site_effects="none")  # parties of one row occur


def as_published(parts: Sequence[pd.DataFrame]) -> Graph:
    """Algorithm 1 with the rows of every party centred at their own mean; only h excludes self-loops."""
    names = tuple(map(str, parts[0].columns))
    no_edges = np.zeros((len(names), len(names)), dtype=bool)
    group = variable_groups(names, [frozenset()])
    model = LinearCoordinator(
        names, Masks(no_edges, no_edges), group, PAPER_LAMBDA, PAPER_THRESHOLD, "expm", scaled=False
    )
    sites = {
        f"site {k}": Site(LinearParty(GaussianStats.from_data(part - part.mean())), min_rows=1)
        for k, part in enumerate(parts, start=1)
    }
    weights = run_rounds(Coordinator(Admm(model, Paper())), sites).coordinator.result["weights"]
    return Graph.from_weights(np.where(np.eye(len(names), dtype=bool), 0.0, weights), names)


def _alone(sample: Sample, learner: Callable[[], Any]) -> tuple[Graph, Graph]:
    """The edges that more than half of the parties find alone, possibly with cycles; and the best graph."""
    found = []
    for k, part in enumerate(sample.parts):
        report("parties alone", k, len(sample.parts))
        try:
            found.append(learner().fit(part).graph_)
        except DataError:  # constant columns
            found.append(Graph(np.zeros((part.shape[1], part.shape[1])), part.columns))
    share = np.mean([graph.adjacency for graph in found], axis=0)
    best = min(found, key=lambda graph: metrics.shd(true=sample.truth, estimate=graph))
    return Graph(share > 0.5, sample.truth.names), best


def measured(setting: Setting, seed: int) -> dict[str, NDArray[Any]]:
    """The names of the methods, and one row of metrics per method."""
    sample = setting.draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = setting.find(sample)
    rows = [
        [float(getattr(metrics, name)(true=sample.truth, estimate=graph)) for name in METRICS]
        for graph in found.values()
    ]
    return {"methods": np.array(list(found)), "measured": np.array(rows)}


def run(figures: Iterable[int], seeds: int, preset: str = "ours") -> dict[str, pd.DataFrame]:
    """Means and standard errors over `seeds` data sets per point."""
    if preset != "ours":
        raise UsageError(f"The federated paper has no preset {preset!r}; omit --preset.")
    wanted = list(figures)
    if unknown := [number for number in wanted if number not in TABLES]:
        raise UsageError(
            f"The federated paper's figures are {', '.join(map(str, TABLES))}; got {unknown[0]}."
        )
    if 3 in wanted:
        sachs_files()  # fail early if a file is missing, not after hours of other figures
    return {f"figure{figure}": _figure(figure, seeds) for figure in wanted}


def _figure(figure: int, seeds: int) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    points = settings(figure)
    for number, setting in enumerate(points):
        found = []
        for seed in range(seeds):
            report(f"figure {figure}", number * seeds + seed, len(points) * seeds,
                   f"{setting.chart}, {setting.axis} {setting.x}, run {seed + 1}")  # fmt: skip

            def compute(seed: int = seed, setting: Setting = setting) -> dict[str, NDArray[Any]]:
                return measured(setting, seed)

            found.append(piece(f"{figure} {setting.chart} {setting.x} {seed}", compute))
        values = np.array([each["measured"] for each in found], dtype=float)
        mean = np.nanmean(values, axis=0)
        error = np.nanstd(values, axis=0, ddof=1 if seeds > 1 else 0) / np.sqrt(seeds)
        labels = {"chart": setting.chart, "axis": setting.axis, "x": setting.x}
        for m, method in enumerate(found[0]["methods"].tolist()):
            row: dict[str, Any] = {**labels, "method": method, "runs": seeds}
            for k, name in enumerate(METRICS):
                row |= {name: mean[m, k], f"{name}_se": error[m, k]}
            rows.append(row)
    report(f"figure {figure}", len(points) * seeds, len(points) * seeds)
    return pd.DataFrame(rows)


def pictures(found: dict[str, pd.DataFrame]) -> dict[str, str]:
    """Each figure as in the paper: SHD, TPR and FDR side by side, one row of panels per chart."""
    return {
        name if len(charts) == 1 else f"{name}{letter}": line_charts(_panels(table[table["chart"] == chart]))
        for name, table in found.items()
        for charts in (list(dict.fromkeys(table["chart"])),)
        for chart, letter in zip(charts, "abc", strict=False)
    }


def _panels(table: pd.DataFrame) -> Sequence[Panel]:
    x_values = list(dict.fromkeys(table["x"]))
    axis = {"d": "variables", "parties": "parties"}[str(table["axis"].iloc[0])]
    title = str(table["chart"].iloc[0])
    return [
        Panel(
            f"{metric.upper()} ({title})",
            axis,
            x_values,
            [
                Line(method, own[metric].tolist(), own[f"{metric}_se"].tolist())
                for method in dict.fromkeys(table["method"])
                for own in (table[table["method"] == method],)
            ],
        )
        for metric in METRICS
    ]
