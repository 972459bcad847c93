"""Tables 1 to 4 and figures 2 to 5 of the linked-rows paper (Li, Padilla and Zhou 2024).

Every data set is one piece of work, so an interrupted reproduction continues where it stopped. The published
numbers are listed beside the reproduced ones.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polydag import metrics
from polydag.arrays import Array
from polydag.computing.checkpoint import piece
from polydag.computing.progress import report
from polydag.errors import DataError, UsageError
from polydag.graph import Graph
from polydag.learners import GES, PC, LinkedRowsDAG, RowDecorrelator
from polydag.plot.line_and_box_charts import Box, BoxPanel, Curve, CurvePanel, box_charts, curve_charts
from polydag.regression import coefficients
from polydag.reproduce.linked_settings import Preset, Sample, Setting, chosen, published, real, simulated
from polydag.rows.structures.settings import FreeStructure
from polydag.sources import LinkedRows

TABLES = (1, 2, 3, 4)
SETTINGS = Preset._fields
FIGURES = {2: 1, 3: 2, 4: 3, 5: 4}  # figure to the table whose runs it shows
GRID = np.concatenate([np.linspace(0.0, 0.1, 101), np.linspace(0.11, 1.0, 90)])
ROC_END = 0.1  # the limit of the pictures; all curves are flat beyond it
_ORDERED = ("P", "TP", "FP", "FDR", "JI", "SHD")
_UNORDERED = ("P", "TP", "FP", "R", "JI", "SHD")


def ordered(sample: Sample, setting: Setting, preset: Preset) -> dict[str, Array]:
    """Edge counts and ROC curves of BCD and of the benchmark that assumes independent rows."""
    order = sample.truth.topological_order()
    spread = sample.rows.to_numpy().std(axis=0) if preset.units == "scaled" else np.ones(len(order))
    found: dict[str, Array] = {}
    predicted = setting.predicted
    for name, structure in (("BCD", "free"), ("bench", "independent")):
        rows = LinkedRows(sample.rows, links=sample.links, structure=structure)
        model = LinkedRowsDAG(order=order, threshold=0.0).fit(rows)
        strength = np.abs(model.raw_weights_) * spread[:, None] / spread[None, :]
        if preset.threshold is not None and name == "BCD":
            predicted = int(np.count_nonzero(strength > preset.threshold))
        if preset.ranking == "t":
            refitted = coefficients(model.graph_, model.decorrelation_.moments())
            strength = np.nan_to_num(np.abs(refitted.raw / refitted.standard_errors))
        limit = np.sort(strength.ravel())[-predicted] if predicted else 0.0
        graph = Graph((strength >= limit) & (strength > 0), sample.truth.names)
        counts = metrics.confusion(true=sample.truth, estimate=graph)
        row = (counts.n_estimated, counts.correct, counts.extra, counts.fdr, counts.jaccard, counts.shd)
        found[name] = np.array(row, dtype=float)
        found[f"{name} roc"] = _roc(strength, sample.truth, order)
    return found


def _roc(strength: Array, truth: Graph, order: list[str]) -> Array:
    """The true positive rate on a grid of false positive rates, over the pairs allowed by the known order."""
    where = [truth.index(name) for name in order]
    above = np.triu_indices(len(where), 1)
    hit = truth.adjacency[np.ix_(where, where)][above]
    by_strength = np.argsort(-strength[np.ix_(where, where)][above], kind="stable")
    true = np.concatenate([[0.0], np.cumsum(hit[by_strength]) / hit.sum()])
    false = np.concatenate([[0.0], np.cumsum(~hit[by_strength]) / (~hit).sum()])
    return np.asarray(np.interp(GRID, false, true))


def unordered(sample: Sample, setting: Setting, preset: Preset) -> dict[str, Array]:
    """GES and PC before and after decorrelation (suffix -L), compared with the true CPDAG."""
    truth = sample.truth.to_cpdag()
    rows = RowDecorrelator(
        sample.links, structure="free", free=FreeStructure(n_orders=preset.n_orders), random_state=0
    ).fit_transform(sample.rows)
    learners = {
        "GES": GES(penalty=preset.ges_penalty, screen=preset.ges_screen, escape=False),
        "PC": PC(alpha=preset.pc_alpha, max_conditioning=preset.pc_max_conditioning),
    }
    found: dict[str, Array] = {}
    for name, learner in learners.items():
        for label, given in ((name, sample.rows), (f"{name}-L", rows)):
            counts = metrics.confusion(true=truth, estimate=learner.fit(given).graph_)
            other_way = counts.reversed + counts.undirected
            row = (counts.n_estimated, counts.joined, counts.extra, other_way, counts.jaccard, counts.shd)
            found[label] = np.array(row, dtype=float)
    return found


def run(
    tables: Iterable[int], seeds: int, preset: str = "ours", settings: Mapping[str, Any] | None = None
) -> dict[str, pd.DataFrame]:
    """The requested tables and the data of their figures, by file name."""
    choice = chosen(preset, settings or {})
    if seeds < 1:
        raise UsageError(f"seeds must be at least 1; got {seeds}.")
    result: dict[str, pd.DataFrame] = {}
    for table in tables:
        if table not in TABLES:
            raise UsageError(f"The paper has the tables 1 to 4; got {table}.")
        in_order = table in (1, 3)
        cells = simulated(table, choice) if table < 3 else real(table, _data())
        runs = _runs(table, cells, seeds, choice, ordered if in_order else unordered)
        result[f"table{table}"] = _table(table, cells, runs, _ORDERED if in_order else _UNORDERED)
        result[f"figure{table + 1}"] = _curves(cells, runs) if in_order else _gains(cells, runs)
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
) -> Runs:
    runs: Runs = []
    for number, setting in enumerate(settings):
        own: list[Mapping[str, Any]] = []
        for seed in range(seeds):
            report(f"table {table}", number * seeds + seed, len(settings) * seeds, " ".join(setting.labels))

            def compute(setting: Setting = setting, seed: int = seed) -> dict[str, NDArray[Any]]:
                with warnings.catch_warnings():
                    # Subsamples without links and fits at their iteration limit are expected here.
                    warnings.simplefilter("ignore")
                    return work(setting.draw(seed), setting, preset)

            own.append(piece(f"{table} {setting.labels} {seed}", compute))
        runs.append(own)
    return runs


def _methods(runs: Runs) -> list[str]:
    return [name for name in runs[0][0] if not name.endswith(" roc")]


def _table(table: int, settings: list[Setting], runs: Runs, columns: tuple[str, ...]) -> pd.DataFrame:
    """Means, the standard error of the SHD, and the published numbers."""
    rows = []
    for setting, own in zip(settings, runs, strict=True):
        for name in _methods(runs):
            values = np.array([found[name] for found in own])
            error = values[:, -1].std(ddof=1) / np.sqrt(len(own)) if len(own) > 1 else np.nan
            rows.append((*setting.labels, name, *values.mean(axis=0), error))
    keys = ["rows", "kind", "algorithm"]
    result = pd.DataFrame(rows, columns=[*keys, *columns, "SHD_se"])
    theirs = published()[lambda frame: frame["table"] == table].set_index(keys)[["P", "TP", "FP", "SHD"]]
    return result.join(theirs.add_prefix("paper_"), on=keys)


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
    """How much decorrelation reduces the SHD and increases the Jaccard index, one row per data set."""
    rows = []
    for setting, own in zip(settings, runs, strict=True):
        for seed, found in enumerate(own):
            for name in ("GES", "PC"):
                before, after = found[name], found[f"{name}-L"]
                rows.append((*setting.labels, name, seed, before[5] - after[5], after[4] - before[4]))
    return pd.DataFrame(
        rows, columns=["rows", "kind", "algorithm", "seed", "shd_decrease", "jaccard_increase"]
    )


def pictures(found: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Figures 2 and 4 as ROC curves, 3 and 5 as box plots; 5 includes the Jaccard index."""
    drawn = {}
    for name, table in found.items():
        parts = _by_setting(table) if name.startswith("figure") else []
        if name in ("figure2", "figure4"):
            drawn[name] = curve_charts([_roc_panel(own) for own in parts])
        if name in ("figure3", "figure5"):
            shown = {"shd_decrease": "decrease in SHD", "jaccard_increase": "increase in Jaccard index"}
            columns = list(shown)[: 1 if name == "figure3" else 2]
            panels = [_gain_panel(own, column, shown[column]) for column in columns for own in parts]
            drawn[name] = box_charts(panels)
    return drawn


def _by_setting(table: pd.DataFrame) -> list[pd.DataFrame]:
    return [own for _, own in table.groupby(["rows", "kind"], sort=False)]


def _title(own: pd.DataFrame) -> str:
    return f"{own['rows'].iloc[0]} {own['kind'].iloc[0]}"


def _roc_panel(own: pd.DataFrame) -> CurvePanel:
    curves = [
        Curve(str(name), part["fpr"].tolist(), part["tpr"].tolist())
        for name, part in own[own["fpr"] <= ROC_END].groupby("algorithm", sort=False)
    ]
    return CurvePanel(_title(own), "false positive rate", "true positive rate", curves)


def _gain_panel(own: pd.DataFrame, column: str, label: str) -> BoxPanel:
    parts = own.groupby("algorithm", sort=False)
    return BoxPanel(_title(own), label, [Box(str(name), part[column].tolist()) for name, part in parts])
