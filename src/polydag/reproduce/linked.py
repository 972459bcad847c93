"""Tables 1 to 4 and the data of figures 2 to 5 of the linked-rows paper (Li and Zhou 2019).

Every data set is one piece of work: an interrupted reproduction goes on where it stopped. Sizes are those of
the tables, (n, p) = (100, 200) and (300, 100); the text has others. The Toeplitz base is 0.3 for Table 1 and
0.7 for Table 2, which is what fits them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polydag import metrics, simulate
from polydag.checkpoint import piece
from polydag.errors import DataError, UsageError
from polydag.graph import Graph
from polydag.learners import GES, PC, LinkedRowsDAG
from polydag.progress import report

Array = NDArray[np.float64]

TABLES = (1, 2, 3, 4)
FIGURES = {2: 1, 3: 2, 4: 3, 5: 4}  # a figure shows the runs of this table
SIZES = ((100, 200), (300, 100))
KINDS = ("toeplitz", "equi", "ar", "star")
NETWORKS = {"facebook": "facebook_like_n1899_undirected.csv", "celegans_n306": "celegans_n306_undirected.csv"}
COPIES = {"andes": 1, "hailfinder": 4, "barley": 4}
SUBSAMPLE = 100
GRID = np.linspace(0.0, 1.0, 101)
_ORDERED = ("P", "TP", "FP", "FDR", "JI", "SHD")
_UNORDERED = ("P", "TP", "FP", "R", "JI", "SHD")
# The number of edges that BCD predicts in the paper's Tables 1 and 3, given to both methods.
_PREDICTED: dict[tuple[object, str], int] = {
    **{((100, 200), kind): edges for kind, edges in zip(KINDS, (208, 194, 197, 219), strict=True)},
    **{((300, 100), kind): edges for kind, edges in zip(KINDS, (146, 136, 131, 127), strict=True)},
    **{("facebook", dag): edges for dag, edges in zip(COPIES, (200, 150, 273), strict=True)},
    **{("celegans_n306", dag): edges for dag, edges in zip(COPIES, (133, 135, 196), strict=True)},
}


class Preset(NamedTuple):
    """What the paper leaves open.

    `threshold` cuts BCD's weights (of scaled columns), and the benchmark gets as many edges; without one both
    get the paper's number. `ges_penalty` multiplies the penalty of GES's BIC, `pc_alpha` is the level of PC:
    the paper gives neither.
    """

    threshold: float | None
    n_permutations: int
    ges_penalty: float
    pc_alpha: float


PRESETS = {
    "ours": Preset(None, 5, 2.0, 0.01),
    "published": Preset(0.1, 1, 2.0, 0.01),
}


class Sample(NamedTuple):
    """One simulated data set."""

    truth: Graph
    rows: pd.DataFrame
    links: Any


class Setting(NamedTuple):
    """A cell of a table: its labels, how many edges to predict, and how to draw a data set."""

    labels: tuple[str, ...]
    predicted: int
    draw: Callable[[int], Sample]


def simulated(size: int, base: float, sizes: Iterable[tuple[int, int]] = SIZES) -> list[Setting]:
    """The settings of section 3.1, rows in clusters of `size`; `base` is that of the Toeplitz matrices."""
    return [
        Setting((f"({n}, {p})", kind), _PREDICTED[(n, p), kind], _cluster_draw(n, p, size, kind, base))
        for n, p in sizes
        for kind in KINDS
    ]


def _cluster_draw(n: int, p: int, size: int, kind: str, base: float) -> Callable[[int], Sample]:
    def draw(seed: int) -> Sample:
        rng = np.random.default_rng(seed)
        truth = simulate.dag(p, n_edges=2 * p, weight_range=(0.1, 1.0), random_state=rng)
        blocks = simulate.clusters(kind, n, size, base=base if kind == "toeplitz" else None, random_state=rng)
        rows = simulate.linked(truth, row_covariance=blocks, noise_scale=(0.1, 1.0), random_state=rng)
        return Sample(truth, rows, np.arange(n) // size)

    return draw


def real(data: Path) -> list[Setting]:
    """The settings of section 3.2: published DAGs, rows on subsamples of two real networks."""
    return [
        Setting((network, dag), _PREDICTED[network, dag], _network_draw(data, network, dag))
        for network in NETWORKS
        for dag in COPIES
    ]


def _network_draw(data: Path, network: str, name: str) -> Callable[[int], Sample]:
    def draw(seed: int) -> Sample:
        from scipy.sparse import coo_array

        rng = np.random.default_rng(seed)
        truth = simulate.weights(_copies(data, name), 0.1, 1.0, random_state=rng)
        pairs = pd.read_csv(data / "networks" / NETWORKS[network]).to_numpy()[:, :2] - 1
        n = 306 if network == "celegans_n306" else 1899  # with the nodes that have no link
        A = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n)).toarray()
        chosen = rng.choice(n, SUBSAMPLE, replace=False)
        own = (A + A.T)[np.ix_(chosen, chosen)] > 0
        Sigma = np.linalg.inv(simulate.network_precision(own, random_state=rng))
        rows = simulate.linked(
            truth, row_covariance=(Sigma + Sigma.T) / 2, noise_scale=(0.1, 1.0), random_state=rng
        )
        return Sample(truth, rows, own)

    return draw


def _copies(data: Path, name: str) -> Graph:
    edges = pd.read_csv(data / "bn" / "edges.csv")
    own = edges[edges["network"] == name]
    pairs = [
        (f"{a}.{copy}", f"{b}.{copy}")
        for copy in range(COPIES[name])
        for a, b in zip(own["parent"], own["child"], strict=True)
    ]
    names = list(dict.fromkeys(end for pair in pairs for end in pair))
    return Graph.from_edges(names, pairs)


def ordered(sample: Sample, setting: Setting, preset: Preset) -> dict[str, Array]:
    """BCD beside the benchmark that takes rows as independent: counts of edges, and ROC curves."""
    order = sample.truth.topological_order()
    spread = sample.rows.to_numpy().std(axis=0)
    found: dict[str, Array] = {}
    predicted = setting.predicted
    for name, structure in (("BCD", "free"), ("bench", "independent")):
        model = LinkedRowsDAG(sample.links, order=order, structure=structure, threshold=0.0).fit(sample.rows)
        strength = np.abs(model.raw_weights_) * spread[:, None] / spread[None, :]
        if preset.threshold is not None and name == "BCD":
            predicted = int(np.count_nonzero(strength > preset.threshold))
        limit = np.sort(strength.ravel())[-max(predicted, 1)]
        graph = Graph((strength >= limit) & (strength > 0), sample.truth.names)
        counts = metrics.confusion(true=sample.truth, estimate=graph)
        row = (counts.n_estimated, counts.correct, counts.extra, counts.fdr, counts.jaccard, counts.shd)
        found[name] = np.array(row, dtype=float)
        found[f"{name} roc"] = _roc(strength, sample.truth, order)
    return found


def _roc(strength: Array, truth: Graph, order: list[str]) -> Array:
    """The true positive rate on a grid of false positive rates, over pairs in their known order."""
    where = [truth.index(name) for name in order]
    above = np.triu_indices(len(where), 1)
    hit = truth.adjacency[np.ix_(where, where)][above]
    ranked = np.argsort(-strength[np.ix_(where, where)][above], kind="stable")
    true = np.concatenate([[0.0], np.cumsum(hit[ranked]) / hit.sum()])
    false = np.concatenate([[0.0], np.cumsum(~hit[ranked]) / (~hit).sum()])
    return np.asarray(np.interp(GRID, false, true))


def unordered(sample: Sample, setting: Setting, preset: Preset) -> dict[str, Array]:
    """GES and PC before and after decorrelation (-L), compared with the true CPDAG."""
    truth = sample.truth.to_cpdag()
    learners = {"GES": GES(penalty=preset.ges_penalty), "PC": PC(alpha=preset.pc_alpha)}
    found: dict[str, Array] = {}
    for name, learner in learners.items():
        linked = LinkedRowsDAG(
            sample.links,
            learner=learner,
            structure="free",
            n_permutations=preset.n_permutations,
            random_state=0,
        )
        for label, model in ((name, learner), (f"{name}-L", linked)):
            counts = metrics.confusion(true=truth, estimate=model.fit(sample.rows).graph_)
            pairs = counts.correct + counts.reversed
            row = (counts.n_estimated, pairs, counts.extra, counts.reversed, counts.jaccard, counts.shd)
            found[label] = np.array(row, dtype=float)
    return found


def run(tables: Iterable[int], seeds: int, preset: str = "ours") -> dict[str, pd.DataFrame]:
    """The tables asked for, and what their figures show, by the name of the file each belongs in."""
    if preset not in PRESETS:
        raise UsageError(f"The presets are {', '.join(PRESETS)}; got {preset!r}.")
    if seeds < 1:
        raise UsageError(f"seeds is at least 1; got {seeds}.")
    result: dict[str, pd.DataFrame] = {}
    for table in tables:
        if table not in TABLES:
            raise UsageError(f"The paper has the tables 1 to 4; got {table}.")
        in_order = table in (1, 3)
        settings = simulated(20, 0.3) if table == 1 else simulated(30, 0.7) if table == 2 else real(_data())
        runs = _runs(table, settings, seeds, PRESETS[preset], ordered if in_order else unordered, preset)
        result[f"table{table}"] = _table(settings, runs, _ORDERED if in_order else _UNORDERED)
        result[f"figure{table + 1}"] = _curves(settings, runs) if in_order else _gains(settings, runs)
    return result


def _data() -> Path:
    folder = os.environ.get("POLYDAG_DATA")
    if not folder or not Path(folder).is_dir():
        raise DataError("Tables 3 and 4 need the reference data: set POLYDAG_DATA to its folder.")
    return Path(folder)


Runs = list[list[Mapping[str, Any]]]


def _runs(
    table: int,
    settings: list[Setting],
    seeds: int,
    preset: Preset,
    work: Callable[[Sample, Setting, Preset], dict[str, Array]],
    label: str,
) -> Runs:
    runs: Runs = []
    for number, setting in enumerate(settings):
        own: list[Mapping[str, Any]] = []
        for seed in range(seeds):
            report(f"table {table}", number * seeds + seed, len(settings) * seeds, " ".join(setting.labels))

            def compute(setting: Setting = setting, seed: int = seed) -> dict[str, NDArray[Any]]:
                with warnings.catch_warnings():
                    warnings.simplefilter(
                        "ignore"
                    )  # subsamples without links, fits at their limit: no news here
                    return work(setting.draw(seed), setting, preset)

            own.append(piece(f"{label} {table} {setting.labels} {seed}", compute))
        runs.append(own)
    return runs


def _methods(runs: Runs) -> list[str]:
    return [name for name in runs[0][0] if not name.endswith(" roc")]


def _table(settings: list[Setting], runs: Runs, columns: tuple[str, ...]) -> pd.DataFrame:
    rows = []
    for setting, own in zip(settings, runs, strict=True):
        for name in _methods(runs):
            mean = np.mean([found[name] for found in own], axis=0)
            rows.append((*setting.labels, name, *mean))
    return pd.DataFrame(rows, columns=["rows", "kind", "algorithm", *columns])


def _curves(settings: list[Setting], runs: Runs) -> pd.DataFrame:
    """The mean ROC curves."""
    parts = []
    for setting, own in zip(settings, runs, strict=True):
        for name in _methods(runs):
            mean = np.mean([found[f"{name} roc"] for found in own], axis=0)
            labels = dict(zip(("rows", "kind"), setting.labels, strict=True))
            parts.append(pd.DataFrame({**labels, "algorithm": name, "fpr": GRID, "tpr": mean}))
    return pd.concat(parts, ignore_index=True)


def _gains(settings: list[Setting], runs: Runs) -> pd.DataFrame:
    """How much decorrelation lowers the SHD and raises the Jaccard index, one row a data set."""
    rows = []
    for setting, own in zip(settings, runs, strict=True):
        for seed, found in enumerate(own):
            for name in ("GES", "PC"):
                before, after = found[name], found[f"{name}-L"]
                rows.append((*setting.labels, name, seed, before[5] - after[5], after[4] - before[4]))
    return pd.DataFrame(
        rows, columns=["rows", "kind", "algorithm", "seed", "shd_decrease", "jaccard_increase"]
    )
