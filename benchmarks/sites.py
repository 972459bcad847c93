"""Parties that differ in means and spreads: what is learned by default, and without site effects.

    python benchmarks/sites.py

CPDAG errors (SHD) of the mean over ten seeds that were not used for choosing anything; F1 of lagged effects
for time series. `default` is `Parties(tables)`, `none` takes rows as they are (`site_effects="none"`), and
`pooled` is the same learner on the rows of all parties in one table, without shifts. Sums are in the open,
which changes no result.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from keeping import RESULTS, keep, machine
from sklearn.base import clone

from polydag import (
    BOSS,
    GES,
    PC,
    FederatedNotears,
    Graph,
    Notears,
    NotearsLagged,
    NotearsMLP,
    Parties,
    Privacy,
    metrics,
    simulate,
)

SEEDS = range(700, 710)
OPEN = Privacy(mode="none")
LINEAR: dict[str, Any] = {
    "BOSS": BOSS(),
    "GES": GES(),
    "PC": PC(),
    "Notears": Notears(),
    "admm": FederatedNotears(method="admm"),
    "fedavg": FederatedNotears(method="fedavg"),
    "voting": FederatedNotears(method="voting"),
    "varying": FederatedNotears(method="varying"),
}
SIZES = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # of the errors, by party
Tables = dict[str, pd.DataFrame]


def cut(rows: pd.DataFrame, parties: int) -> Tables:
    """Parties of equal size."""
    where = np.array_split(np.arange(len(rows)), parties)
    return {f"party {k}": rows.iloc[own] for k, own in enumerate(where)}


def shifted(tables: Tables, by: float, seed: int) -> Tables:
    """Each party with means of its own, `by` error standard deviations apart."""
    rng = np.random.default_rng([seed, 1])
    return {name: rows + by * rng.normal(size=rows.shape[1]) for name, rows in tables.items()}


def errors(truth: Graph, learner: Any, data: Any) -> float:
    """CPDAG errors of a fit."""
    return float(metrics.shd_cpdag(true=truth, estimate=clone(learner).fit(data).graph_))


def single_table(learner: Any) -> Any:
    """What a federated learner is compared with on pooled rows."""
    if not isinstance(learner, FederatedNotears):
        return learner
    return NotearsMLP(random_state=0) if learner.model == "mlp" else Notears()


Measure = Callable[[int], Iterator[tuple[dict[str, Any], Mapping[str, float]]]]


def linear(parties: int, rows: int, d: int, shifts: tuple[float, ...], names: tuple[str, ...]) -> Measure:
    """Linear data with equal error variances, means shifted between parties."""

    def measure(seed: int) -> Iterator[tuple[dict[str, Any], Mapping[str, float]]]:
        truth = simulate.dag(d, expected_edges=2 * d, random_state=seed)
        table = simulate.linear(truth, n=parties * rows, random_state=seed + 10_000)
        for name in names:
            pooled = errors(truth, single_table(LINEAR[name]), table)
            for by in shifts:
                own = shifted(cut(table, parties), by, seed)
                choices = {"default": "means", "none": "none"} | ({"random": "random"} if rows < 10 else {})
                found = {
                    kind: errors(truth, LINEAR[name], Parties(own, privacy=OPEN, site_effects=effects))
                    for kind, effects in choices.items()
                }
                about = {"setting": f"{parties} parties, {rows} rows, d = {d}", "learner": name, "shift": by}
                yield about, {**found, "pooled": pooled}

    return measure


def unequal(seed: int) -> Iterator[tuple[dict[str, Any], Mapping[str, float]]]:
    """Error sizes that differ by party."""
    truth = simulate.dag(15, expected_edges=30, random_state=seed)
    table = simulate.linear(truth, n=480, random_state=seed + 10_000)
    parts = cut(table, len(SIZES))
    loud = {name: rows * size for (name, rows), size in zip(parts.items(), SIZES, strict=True)}
    for name in ("BOSS", "Notears", "admm", "varying"):
        found = {
            kind: errors(truth, LINEAR[name], Parties(loud, privacy=OPEN, site_effects=effects))
            for kind, effects in (("default", "means"), ("none", "none"))
        }
        about = {"setting": "6 parties, error sizes 0.2 to 10", "learner": name, "shift": 0.0}
        yield about, {**found, "pooled": errors(truth, single_table(LINEAR[name]), table)}


def networks(seed: int) -> Iterator[tuple[dict[str, Any], Mapping[str, float]]]:
    """Non-linear data and networks."""
    learner = FederatedNotears(model="mlp", random_state=0)
    truth = simulate.dag(10, expected_edges=15, random_state=seed)
    table = simulate.mlp(truth, n=480, random_state=seed + 10_000)
    pooled = errors(truth, single_table(learner), table)
    for by in (0.0, 2.0):
        own = shifted(cut(table, 8), by, seed)
        found = {
            kind: errors(truth, learner, Parties(own, privacy=OPEN, site_effects=effects))
            for kind, effects in (("default", "means"), ("none", "none"))
        }
        about = {"setting": "8 parties, 60 rows, d = 10, non-linear", "learner": "admm, mlp", "shift": by}
        yield about, {**found, "pooled": pooled}


def series(seed: int) -> Iterator[tuple[dict[str, Any], Mapping[str, float]]]:
    """Patients with a baseline each: the F1 of lagged effects."""
    sample = simulate.lagged(8, n_steps=40, n_realisations=18, random_state=seed)
    names, rng = list(sample.instantaneous.names), np.random.default_rng([seed, 1])
    baselines = rng.normal(size=(18, 8))
    for by in (0.0, 1.0):
        data = sample.data.copy()
        data[names] += by * baselines[pd.factorize(data["realisation"])[0]]
        own = {f"party {k}": data[data["realisation"] % 6 == k] for k in range(6)}
        fits = {
            "admm, lagged": lambda effects, own=own: FederatedNotears(model="lagged").fit(
                Parties(own, privacy=OPEN, site_effects=effects)
            ),
            "NotearsLagged, one table": lambda effects, data=data: NotearsLagged(
                baselines=effects == "means"
            ).fit(data),
        }
        pooled = f1(sample.lags, NotearsLagged(baselines=False).fit(sample.data).lag_weights_)
        for name, fit in fits.items():
            found = {
                kind: f1(sample.lags, fit(effects).lag_weights_)
                for kind, effects in (("default", "means"), ("none", "none"))
            }
            about = {"setting": "18 series of 40 steps, lagged F1", "learner": name, "shift": by}
            yield about, {**found, "pooled": pooled}


def f1(truth: Any, found: Any) -> float:
    """The F1 of edges."""
    wanted, got = np.asarray(truth) != 0, np.asarray(found) != 0
    return float(2 * (wanted & got).sum() / max(wanted.sum() + got.sum(), 1))


ALL = tuple(LINEAR)
SETTINGS: dict[str, Measure] = {
    "series": series,
    "small": linear(30, 4, 15, (0.0, 1.0), ("BOSS", "Notears")),
    "varying": linear(20, 15, 20, (1.0,), ("varying", "admm")),
    "unequal": unequal,
    "eight": linear(8, 60, 20, (2.0,), ("BOSS", "Notears", "admm", "fedavg", "voting")),
    "six": linear(6, 80, 15, (0.0, 1.0, 2.0), ALL),
    "networks": networks,
}


def main() -> None:
    """Measure all settings, or those that are named, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", help=f"of {', '.join(SETTINGS)}")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in chosen.settings or SETTINGS:
        found = [{**about, **one} for seed in SEEDS[: chosen.seeds] for about, one in SETTINGS[name](seed)]
        keys = ["setting", "learner", "shift"]
        table = pd.DataFrame(found).groupby(keys, sort=False).mean().reset_index()
        print(table.round(2).to_string(index=False), flush=True)
        rows += table.round(2).assign(seeds=chosen.seeds).to_dict("records")
    keep_with_earlier(rows)


def keep_with_earlier(rows: list[dict[str, Any]]) -> None:
    """Replace the rows of the settings that were measured; those of others stay as they are."""
    path = RESULTS / "sites.csv"
    earlier = pd.read_csv(path, dtype=str).fillna("").to_dict("records") if path.exists() else []
    measured = {row["setting"] for row in rows}
    place = machine()
    kept = [row for row in earlier if row["setting"] not in measured]
    full = [*kept, *({**row, **place} for row in rows)]
    columns = ["setting", "learner", "shift", "default", "none", "random", "pooled", "seeds", *place]
    keep("sites", [{key: row.get(key, "") for key in columns} for row in full], place)


if __name__ == "__main__":
    main()
