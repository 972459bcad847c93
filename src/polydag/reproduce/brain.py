"""Section VI of the tasks paper: two groups of subjects, brain regions, four levels of activity.

The paper's scans are not public. We use simulated scans of the same size (86 controls and 74 patients, 150
regions, 384 scans each) with a known network, and the ABIDE series in `POLYDAG_DATA` (116 regions, 2,250
scans of controls and 2,060 of people with autism). As in the paper, series are detrended by a sliding mean
and discretised into four levels around it.

Scans of a subject are not independent rows, and subjects differ, so posteriors from concatenated scans are
overconfident. We therefore also report the central 90 % over bootstrap samples of whole subjects. The ABIDE
files do not mark where subjects begin; blocks of about 150 scans are used instead. `notes` says so beside the
results.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polydag import simulate
from polydag.arrays import Array, Mask
from polydag.computing.progress import report
from polydag.errors import DataError
from polydag.graph import Graph
from polydag.learners.posterior.multitask import MultitaskDiscovery
from polydag.plot.heatmaps import Map, heat_maps
from polydag.plot.line_and_box_charts import Line, Panel, line_charts
from polydag.posterior.mcmc.chains import Chains
from polydag.reproduce.fits import CHAINS, Fits, agreement, chains, fitted, kept, stacked
from polydag.reproduce.ranking import paired

Levels = NDArray[np.int8]

REGIONS, SCANS = 150, 384
SUBJECTS = {"controls": 86, "patients": 74}
SMALL = (2, 5, 10, 20)  # subjects per group in figure 6
FEW = 10  # subjects per group in figure 7, in addition to all
WINDOW = 21
BLOCK = 150  # approximate number of scans that represent one ABIDE subject
METHODS = ("MTL", "STL")
_EDGES, _LOST, _DIFFERENT = 180, 0.1, 0.15
_SHOWN = 0.01  # edges below this mean probability are omitted from the table of figure 7


class Group(NamedTuple):
    """The discretised scans of each subject."""

    names: tuple[str, ...]
    subjects: list[Levels]


Groups = Mapping[str, Group]


def detrended(series: Array, window: int = WINDOW) -> Array:
    """Each column minus its mean over a sliding window, which is truncated at the ends."""
    total = np.cumsum(np.vstack([np.zeros(series.shape[1]), series]), axis=0)
    where = np.arange(len(series))
    low, high = np.maximum(where - window // 2, 0), np.minimum(where + window // 2 + 1, len(series))
    result: Array = series - (total[high] - total[low]) / (high - low)[:, None]
    return result


def four_levels(series: Array) -> Levels:
    """Discretise into very low, low, high and very high, at the mean and one standard deviation around it."""
    z = (series - series.mean(axis=0)) / series.std(axis=0)
    levels: Levels = np.digitize(z, [-1.0, 0.0, 1.0]).astype(np.int8)
    return levels


@cache
def simulated(seed: int = 0, regions: int = REGIONS, scans: int = SCANS) -> dict[str, Group]:
    """Groups of the paper's size; each lacks a tenth of the common edges; weights vary between subjects."""
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
    """The ABIDE groups in blocks of consecutive scans, whose lengths differ by at most one."""
    folder = os.environ.get("POLYDAG_DATA")
    if not folder:
        raise DataError("The ABIDE series are reference data: set POLYDAG_DATA to the folder of the data.")
    groups = {}
    for name, file in (("control", "abide_aal116_control"), ("autism", "abide_aal116_autism")):
        frame = pd.read_csv(Path(folder) / "fmri" / f"{file}.csv.gz")
        levels = four_levels(detrended(frame.to_numpy(dtype=float)))
        groups[name] = Group(tuple(frame.columns), np.array_split(levels, round(len(levels) / BLOCK)))
    return groups


def data_sets() -> dict[str, Groups]:
    """The simulated groups, and the ABIDE groups if the reference data are available."""
    found: dict[str, Groups] = {"simulated": simulated()}
    if os.environ.get("POLYDAG_DATA"):
        found["abide"] = abide()
    return found


def learned(
    tables: Mapping[str, Sequence[Levels]], method: str, settings: Mapping[str, Any], seed: int = 0
) -> Fits:
    """The posterior probability of every edge in each group, from the scans of some subjects.

    Each sample of subjects has its own seed, so that Monte Carlo error contributes to the variation between
    samples.
    """
    frames = {
        name: pd.DataFrame(np.concatenate(list(subjects))).astype(pd.CategoricalDtype([0, 1, 2, 3]))
        for name, subjects in tables.items()
    }
    model = MultitaskDiscovery(
        transfer="family" if method == "MTL" else "none",
        criterion="k2",
        max_parents=2,
        method="mcmc",
        max_candidates=None,
        random_state=seed,
        **settings,
    )
    return fitted(model, frames)


def settings_of(preset: str) -> dict[str, Any]:
    """The paper's chain lengths (5,000 burn-in steps, 1,000 draws, thinning 10), or until convergence."""
    if preset == "published":
        return {"chains": Chains(bucket_size=10, burn_in=5000, n_steps=15_000, n_chains=1)}
    return {"n_jobs": 2}


def _sampled_subjects(
    groups: Groups, count: int | None, seed: int, replace: bool = False
) -> dict[str, list[Levels]]:
    """A random sample of subjects from each group, as large as the group if `count` is None."""
    rng = np.random.default_rng([seed, count or 0])
    return {
        name: [
            group.subjects[k]
            for k in rng.choice(len(group.subjects), count or len(group.subjects), replace=replace)
        ]
        for name, group in groups.items()
    }


def _all_subjects(groups: Groups) -> dict[str, list[Levels]]:
    return {name: group.subjects for name, group in groups.items()}


def small_samples(trials: int, preset: str) -> dict[str, pd.DataFrame]:
    """Figure 6: mean posteriors of non-edges and edges, as defined by all subjects, from few subjects."""
    settings = settings_of(preset)
    tables, each = [], []
    for data, groups in data_sets().items():
        counts = [k for k in SMALL if all(k < len(group.subjects) for group in groups.values())]
        steps = 1 + len(counts) * trials
        report(f"figure 6, {data}", 0, steps, "all subjects")
        whole = kept(f"brain truth {preset} {data}", partial(learned, _all_subjects(groups), "STL", settings))
        drawn = []
        for k, count in enumerate(counts):
            own = []
            for trial in range(trials):
                note = f"{count} subjects, draw {trial + 1}"
                report(f"figure 6, {data}", 1 + k * trials + trial, steps, note)

                def compute(groups: Groups = groups, count: int = count, trial: int = trial) -> Fits:
                    some = _sampled_subjects(groups, count, trial)
                    return stacked([learned(some, method, settings, trial + 1) for method in METHODS])

                own.append(kept(f"brain small {preset} {data} {count} {trial}", compute))
            drawn.append(stacked(own))
        report(f"figure 6, {data}", steps, steps)
        found = stacked(drawn)
        each += [
            chains(whole, {"data": [data], "subjects": ["all"], "draw": [""], "method": ["truth"]}),
            chains(
                found, {"data": [data], "subjects": counts, "draw": range(trials), "method": list(METHODS)}
            ),
        ]
        tables.append(_small_rows(found, whole.P > 0.5, {"data": data}, counts, list(groups)))
    table = pd.concat(tables, ignore_index=True)
    return {
        "figure6": table,
        "figure6_tests": tests(table),
        f"{CHAINS}figure6": pd.concat(each, ignore_index=True),
    }


def _small_rows(
    found: Fits, true: Mask, labels: dict[str, str], counts: Sequence[int], groups: Sequence[str]
) -> pd.DataFrame:
    off = ~np.eye(true.shape[-1], dtype=bool)
    rows: list[dict[str, Any]] = []
    for where in np.ndindex(found.converged.shape):
        k, draw, m = where
        for g, group in enumerate(groups):
            P = found.P[(*where, g)]
            rows.append(
                {
                    **labels,
                    "subjects": counts[k],
                    "draw": draw,
                    "group": group,
                    "method": METHODS[m],
                    "non_edges": float(P[off & ~true[g]].mean()),
                    "edges": float(P[true[g]].mean()) if true[g].any() else np.nan,
                    "converged": bool(found.converged[where]),
                    "r_hat": float(found.r_hat[where]),
                    "ess": float(found.ess[where]),
                }
            )
    return pd.DataFrame(rows)


def tests(table: pd.DataFrame) -> pd.DataFrame:
    """The paired t-tests of figure 6, MTL against STL, over samples and groups."""
    rows = []
    for (data, count), part in table.groupby(["data", "subjects"], sort=False):
        for what in ("non_edges", "edges"):
            own = part.pivot_table(index=["draw", "group"], columns="method", values=what, dropna=False)
            test = paired(own["MTL"].to_numpy(), own["STL"].to_numpy(), "MTL higher", "MTL lower")
            rows.append((data, count, what, own["MTL"].mean(), own["STL"].mean(), test.p, test.winner))
    return pd.DataFrame(rows, columns=["data", "subjects", "of", "MTL", "STL", "p", "result"])


def networks(trials: int, preset: str) -> dict[str, pd.DataFrame]:
    """Figure 7: MTL posteriors from all scans, and over bootstrap samples of few and of all subjects.

    Results are given for each group, and for the first group minus the second, the aim of the study.
    """
    settings = settings_of(preset)
    parts, differences, each, regions = [], [], [], []
    for data, groups in data_sets().items():
        steps = 1 + 2 * trials
        report(f"figure 7, {data}", 0, steps, "all scans")
        whole = kept(
            f"brain networks {preset} {data}", partial(learned, _all_subjects(groups), "MTL", settings)
        )
        each.append(chains(whole, {"data": [data], "subjects": ["all"], "draw": ["every scan"]}))
        names = next(iter(groups.values())).names
        regions.append(pd.DataFrame({"data": data, "region": names}))
        for k, count in enumerate((FEW, None)):
            again = []
            for trial in range(trials):
                many = count or "all"
                note = f"{many} subjects, draw {trial + 1}"
                report(f"figure 7, {data}", 1 + k * trials + trial, steps, note)

                def compute(groups: Groups = groups, count: int | None = count, trial: int = trial) -> Fits:
                    some = _sampled_subjects(groups, count, trial + 1, replace=True)
                    return learned(some, "MTL", settings, trial + 1)

                again.append(kept(f"brain networks {preset} {data} {many} {trial}", compute))
            drawn = stacked(again)
            each.append(chains(drawn, {"data": [data], "subjects": [many], "draw": range(trials)}))
            labels = {"data": data, "subjects": str(many)}
            at_once = whole if count is None else None
            parts.append(_network_rows(labels, drawn, at_once, names, list(groups)))
            differences.append(_difference_rows(labels, drawn, at_once, names, list(groups)))
        report(f"figure 7, {data}", steps, steps)
    return {
        "figure7": pd.concat(parts, ignore_index=True),
        "figure7_differences": pd.concat(differences, ignore_index=True),
        "figure7_regions": pd.concat(regions, ignore_index=True),
        f"{CHAINS}figure7": pd.concat(each, ignore_index=True),
    }


def _network_rows(
    labels: dict[str, str], drawn: Fits, whole: Fits | None, names: Sequence[str], groups: Sequence[str]
) -> pd.DataFrame:
    """The edges of each group; `probability` is from all scans, and is missing for few subjects."""
    how = agreement(drawn if whole is None else stacked([whole, *(drawn.at(k) for k in range(len(drawn.P)))]))
    parts = [
        _spread(drawn.P[:, g], None if whole is None else whole.P[g], names, {**labels, "group": group})
        for g, group in enumerate(groups)
    ]
    return pd.concat(parts, ignore_index=True).assign(**how)


def _difference_rows(
    labels: dict[str, str], drawn: Fits, whole: Fits | None, names: Sequence[str], groups: Sequence[str]
) -> pd.DataFrame:
    """How much more probable connections and edges are in the first group, largest differences first.

    A connection is an edge in either direction; directions that are not identified may differ between groups.
    A difference is `sure` if it has the same sign throughout the central 90 % of the samples.
    """
    parts = []
    for what, of in (("connection", _connections), ("edge", np.asarray)):
        each = of(drawn.P[:, 0] - drawn.P[:, 1])
        at_once = None if whole is None else of(whole.P[0] - whole.P[1])
        own = {**labels, "groups": f"{groups[0]} − {groups[1]}", "of": what}
        table = _spread(each, at_once, names, own)
        table["sure"] = (table["low"] > 0) | (table["high"] < 0)
        parts.append(table.iloc[np.argsort(-table["mean"].abs(), kind="stable")])
    return pd.concat(parts, ignore_index=True)


def _connections(D: Array) -> Array:
    """The sum of both directions, in the upper triangle."""
    return np.triu(D + np.swapaxes(D, -1, -2), 1)


def _spread(each: Array, whole: Array | None, names: Sequence[str], labels: dict[str, str]) -> pd.DataFrame:
    """The mean and the central 90 % over samples, beside the value from all scans."""
    mean, (low, high) = each.mean(axis=0), np.quantile(each, [0.05, 0.95], axis=0)
    at_once = np.full_like(mean, np.nan) if whole is None else whole
    i, j = np.nonzero(np.fmax(np.abs(mean), np.abs(at_once)) >= _SHOWN)
    where = np.array(names, dtype=object)
    columns = {"probability": at_once, "mean": mean, "low": low, "high": high}
    own: dict[str, Any] = {**labels, "source": where[i], "target": where[j]}
    return pd.DataFrame(own | {name: values[i, j] for name, values in columns.items()})


def notes(found: Mapping[str, pd.DataFrame]) -> list[str]:
    """Caveats of figures 6 and 7."""
    if not {"figure6", "figure7"} & set(found):
        return []
    caveats = [
        "Scans of a subject are not independent rows, so posteriors from concatenated scans are "
        "overconfident. Rely on their variation over bootstrap samples of whole subjects instead: columns "
        "low and high (central 90 %) of figure7.csv and, for differences between the groups, "
        "figure7_differences.csv.",
        "The paper's scans are not public: the data called simulated are drawn from a known network, at the "
        "paper's size.",
    ]
    if any("abide" in set(table["data"]) for name, table in found.items() if name in ("figure6", "figure7")):
        caveats.append(
            f"The ABIDE files do not mark where subjects begin: blocks of about {BLOCK} consecutive scans "
            "represent subjects, and may contain scans of two."
        )
    return caveats


def pictures(found: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Figure 6 as line charts; figure 7 as heat maps of mean posteriors, by data set and sample size."""
    drawn: dict[str, str] = {}
    if "figure6" in found:
        drawn["figure6"] = line_charts(_small_panels(found["figure6"]))
    if "figure7" in found:
        regions = found["figure7_regions"]
        for (data, many), own in found["figure7"].groupby(["data", "subjects"], sort=False):
            names = regions.loc[regions["data"] == data, "region"].tolist()
            drawn[f"figure7-{data}-{many}"] = _heat(own, names)
    return drawn


def _small_panels(table: pd.DataFrame) -> list[Panel]:
    """Edges on a scale from 0 to 1; non-edges, which are close to 0, on a common smaller scale."""
    few = table.groupby(["data", "subjects", "method"])["non_edges"]
    tops = {"edges": 1.0, "non_edges": float((few.mean() + few.std().fillna(0.0)).max())}
    panels = []
    for data, part in table.groupby("data", sort=False):
        sizes = list(dict.fromkeys(part["subjects"]))
        for what, title in (("non_edges", "non-edges"), ("edges", "edges")):
            lines = []
            for method in METHODS:
                by_size = part[part["method"] == method].groupby("subjects")[what]
                lines.append(Line(method, by_size.mean().tolist(), by_size.std().fillna(0.0).tolist()))
            title = f"mean posterior of {title}, {data}"
            panels.append(Panel(title, "subjects per group", sizes, lines, tops[what]))
    return panels


def _heat(table: pd.DataFrame, names: Sequence[str]) -> str:
    """Heat maps with all regions, including those without edges."""
    where = {name: k for k, name in enumerate(names)}
    maps = []
    for group, own in table.groupby("group", sort=False):
        values = np.zeros((len(names), len(names)))
        values[own["source"].map(where), own["target"].map(where)] = own["mean"]
        maps.append(Map(str(group), values))
    return heat_maps(names, maps)
