"""Section VI of the tasks paper: two groups of subjects, brain regions, four levels of activity.

The paper's own scans are not public. In their place stand simulated ones of the same size (86 controls and 74
patients, 150 regions, 384 scans each), whose truth is known, and the ABIDE series of `POLYDAG_DATA` (116
regions, 2,250 scans of controls and 2,060 of people with autism). Series are detrended by a sliding mean and
cut into four levels around it, as the paper does.

Scans of a subject are not independent rows, and subjects differ: posteriors from concatenated scans are too
sure of themselves. Beside them stand the middle 90 % over draws of whole subjects with replacement. The ABIDE
files do not say where subjects begin: blocks of 150 scans stand in for them.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polydag import simulate
from polydag.checkpoint import piece
from polydag.errors import ConvergenceWarning, DataError
from polydag.graph import Graph
from polydag.learners.multitask import MultitaskDiscovery
from polydag.plot.charts import Line, Panel, line_charts
from polydag.plot.heatmaps import Map, heat_maps
from polydag.progress import report
from polydag.reproduce.ranking import paired

Array = NDArray[np.float64]
Levels = NDArray[np.int8]

REGIONS, SCANS = 150, 384
SUBJECTS = {"controls": 86, "patients": 74}
SMALL = (2, 5, 10, 20)  # subjects of each group in figure 6
WINDOW = 21
BLOCK = 150
METHODS = ("MTL", "STL")
_EDGES, _LOST, _DIFFERENT = 180, 0.1, 0.15
_SHOWN = 0.01  # edges below this mean probability are left out of figure 7's table


class Group(NamedTuple):
    """The levels of each subject's scans."""

    names: tuple[str, ...]
    subjects: list[Levels]


Groups = Mapping[str, Group]


def detrended(series: Array, window: int = WINDOW) -> Array:
    """Each column less its mean over a sliding window, which is cut off at the ends."""
    total = np.cumsum(np.vstack([np.zeros(series.shape[1]), series]), axis=0)
    where = np.arange(len(series))
    low, high = np.maximum(where - window // 2, 0), np.minimum(where + window // 2 + 1, len(series))
    result: Array = series - (total[high] - total[low]) / (high - low)[:, None]
    return result


def four_levels(series: Array) -> Levels:
    """Very low, low, high, very high: below and above the mean, by more than a standard deviation or less."""
    z = (series - series.mean(axis=0)) / series.std(axis=0)
    levels: Levels = np.digitize(z, [-1.0, 0.0, 1.0]).astype(np.int8)
    return levels


@cache
def simulated(seed: int = 0, regions: int = REGIONS, scans: int = SCANS) -> dict[str, Group]:
    """Groups of the paper's size; each lacks a tenth of the common edges, and subjects' weights vary."""
    rng = np.random.default_rng(seed)
    common = simulate.dag(
        regions, n_edges=round(_EDGES * regions / REGIONS), weight_range=(0.35, 0.6), random_state=rng
    )
    groups = {}
    for name, count in SUBJECTS.items():
        gone = rng.random(common.adjacency.shape) < _LOST
        truth = Graph.from_weights(np.where(gone, 0.0, common.weights), common.names)
        groups[name] = Group(truth.names, [_subject(truth, scans, rng) for _ in range(count)])
    return groups


def _subject(truth: Graph, scans: int, rng: np.random.Generator) -> Levels:
    d = truth.n_nodes
    W = truth.weights * (1 + _DIFFERENT * rng.standard_normal((d, d)))
    noise = rng.standard_normal((scans, d))
    for t in range(1, scans):
        noise[t] = 0.4 * noise[t - 1] + np.sqrt(1 - 0.4**2) * noise[t]
    drift = np.cumsum(rng.standard_normal((scans, d)), axis=0) / np.sqrt(scans)
    return four_levels(detrended(noise @ np.linalg.inv(np.eye(d) - W) + drift))


@cache
def abide() -> dict[str, Group]:
    """The ABIDE groups in blocks of consecutive scans."""
    folder = os.environ.get("POLYDAG_DATA")
    if not folder:
        raise DataError("The ABIDE series are reference data: set POLYDAG_DATA to its folder.")
    groups = {}
    for name, file in (("control", "abide_aal116_control"), ("autism", "abide_aal116_autism")):
        frame = pd.read_csv(Path(folder) / "fmri" / f"{file}.csv.gz")
        levels = four_levels(detrended(frame.to_numpy(dtype=float)))
        cuts = range(BLOCK, len(levels) - BLOCK + 1, BLOCK)
        groups[name] = Group(tuple(frame.columns), np.split(levels, list(cuts)))
    return groups


def learned(tables: Mapping[str, Sequence[Levels]], method: str, settings: Mapping[str, Any]) -> Array:
    """The posterior of every edge in each group, from the scans of some subjects."""
    frames = {
        name: pd.DataFrame(np.concatenate(list(subjects))).astype(pd.CategoricalDtype([0, 1, 2, 3]))
        for name, subjects in tables.items()
    }
    model = MultitaskDiscovery(
        transfer="family" if method == "MTL" else "none",
        max_parents=2,
        method="mcmc",
        max_candidates=None,
        random_state=0,
        **settings,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(frames)
    return np.array([posterior.probabilities for posterior in model.posteriors_])


def settings_of(preset: str) -> dict[str, Any]:
    """The paper's sampler (5,000 steps of burn-in, 1,000 draws, one in ten steps), or until chains agree."""
    if preset == "published":
        return {"bucket_size": 10, "burn_in": 5000, "n_steps": 15_000, "n_chains": 1}
    return {"n_jobs": 2}


def _drawn(groups: Groups, count: int | None, seed: int, replace: bool = False) -> dict[str, list[Levels]]:
    """Some subjects of each group; all of them, drawn with replacement, where no number is given."""
    rng = np.random.default_rng([seed, count or 0])
    return {
        name: [
            group.subjects[k]
            for k in rng.choice(len(group.subjects), count or len(group.subjects), replace=replace)
        ]
        for name, group in groups.items()
    }


def small_samples(trials: int, preset: str) -> dict[str, pd.DataFrame]:
    """Figure 6: mean posteriors of non-edges and of edges (what all subjects show) from few subjects."""
    groups = simulated()
    settings = settings_of(preset)
    everyone = {name: group.subjects for name, group in groups.items()}
    steps = 1 + len(SMALL) * trials
    report("figure 6", 0, steps, "all subjects")
    whole = piece(f"brain truth {preset}", lambda: {"P": learned(everyone, "STL", settings)})["P"]
    true = np.asarray(whole, dtype=float) > 0.5
    off = ~np.eye(REGIONS, dtype=bool)
    rows = []
    for k, count in enumerate(SMALL):
        for trial in range(trials):
            report("figure 6", 1 + k * trials + trial, steps, f"{count} subjects, draw {trial + 1}")

            def compute(count: int = count, trial: int = trial) -> dict[str, NDArray[Any]]:
                drawn = _drawn(groups, count, trial)
                return {"P": np.array([learned(drawn, method, settings) for method in METHODS])}

            P = piece(f"brain small {preset} {count} {trial}", compute)["P"]
            for m, method in enumerate(METHODS):
                for g, group in enumerate(groups):
                    rows.append(
                        {
                            "subjects": count,
                            "draw": trial,
                            "group": group,
                            "method": method,
                            "non_edges": float(np.asarray(P[m, g])[off & ~true[g]].mean()),
                            "edges": float(np.asarray(P[m, g])[true[g]].mean()),
                        }
                    )
    report("figure 6", steps, steps)
    table = pd.DataFrame(rows)
    return {"figure6": table, "figure6_tests": tests(table)}


def tests(table: pd.DataFrame) -> pd.DataFrame:
    """Figure 6's paired t-tests of MTL against STL, over draws and groups."""
    rows = []
    for count, what in itertools.product(dict.fromkeys(table["subjects"]), ("non_edges", "edges")):
        own = table[table["subjects"] == count].pivot_table(
            index=["draw", "group"], columns="method", values=what
        )
        test = paired(own["MTL"].to_numpy(), own["STL"].to_numpy(), "MTL higher", "MTL lower")
        rows.append((count, what, own["MTL"].mean(), own["STL"].mean(), test.p, test.winner))
    return pd.DataFrame(rows, columns=["subjects", "of", "MTL", "STL", "p", "result"])


def networks(trials: int, preset: str) -> pd.DataFrame:
    """Figure 7: posteriors of MTL from all scans, and their spread over draws of whole subjects."""
    settings = settings_of(preset)
    parts = []
    sets: dict[str, Groups] = {"simulated": simulated()}
    if "POLYDAG_DATA" in os.environ:
        sets["abide"] = abide()
    for number, (name, groups) in enumerate(sets.items()):
        found = []
        for trial in range(trials + 1):
            report(
                "figure 7", number * (trials + 1) + trial, len(sets) * (trials + 1), f"{name}, draw {trial}"
            )

            def compute(trial: int = trial, groups: Groups = groups) -> dict[str, NDArray[Any]]:
                if trial == 0:
                    return {"P": learned({g: own.subjects for g, own in groups.items()}, "MTL", settings)}
                return {"P": learned(_drawn(groups, None, trial, replace=True), "MTL", settings)}

            found.append(
                np.asarray(piece(f"brain networks {preset} {name} {trial}", compute)["P"], dtype=float)
            )
        parts.append(_network_rows(name, np.array(found), groups))
    report("figure 7", len(sets) * (trials + 1), len(sets) * (trials + 1))
    return pd.concat(parts, ignore_index=True)


def _network_rows(data: str, P: Array, groups: Groups) -> pd.DataFrame:
    again = P[1:] if len(P) > 1 else P
    mean, (low, high) = again.mean(axis=0), np.quantile(again, [0.05, 0.95], axis=0)
    parts = []
    for g, (group, own) in enumerate(groups.items()):
        i, j = np.nonzero(np.maximum(mean[g], P[0, g]) >= _SHOWN)
        labels = np.array(own.names, dtype=object)
        parts.append(
            pd.DataFrame(
                {
                    "data": data,
                    "group": group,
                    "source": labels[i],
                    "target": labels[j],
                    "probability": P[0, g][i, j],
                    "mean": mean[g][i, j],
                    "low": low[g][i, j],
                    "high": high[g][i, j],
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def pictures(found: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Figure 6 as lines, figure 7 as heat maps of mean posteriors, one picture for each set of data."""
    drawn: dict[str, str] = {}
    if "figure6" in found:
        drawn["figure6"] = line_charts(_small_panels(found["figure6"]))
    if "figure7" in found:
        for data, own in found["figure7"].groupby("data", sort=False):
            drawn[f"figure7-{data}"] = _heat(own)
    return drawn


def _small_panels(table: pd.DataFrame) -> list[Panel]:
    places = list(dict.fromkeys(table["subjects"]))
    panels = []
    for what, title in (("non_edges", "mean posterior of non-edges"), ("edges", "mean posterior of edges")):
        lines = []
        for method in METHODS:
            by_size = table[table["method"] == method].groupby("subjects")[what]
            lines.append(Line(method, by_size.mean().tolist(), by_size.std().fillna(0.0).tolist()))
        panels.append(Panel(title, "subjects of each group", places, lines))
    return panels


def _heat(table: pd.DataFrame) -> str:
    names = list(dict.fromkeys([*table["source"], *table["target"]]))
    where = {name: k for k, name in enumerate(names)}
    maps = []
    for group, own in table.groupby("group", sort=False):
        values = np.zeros((len(names), len(names)))
        values[own["source"].map(where), own["target"].map(where)] = own["mean"]
        maps.append(Map(str(group), values))
    return heat_maps(names, maps)
