"""What a person gets who chooses nothing, beside the best known setting of the package and other packages.

    python benchmarks/defaults.py [--seeds 10] [--only WORDS] [--choose]

Errors are CPDAG SHD, means over seeds that were used for no choice (95000 and following). `default` is
`AutoDAG()` on the source as it is. The others are settings with a name, and the defaults of the peers that
are installed (`default_peers.py` says how). The best of ten ways on the same seeds is better than it will
be on others. So a default that is more than 1.25 times the best is marked, and so is whether the difference
is more than two of its standard errors. `--choose` runs on seeds of their own, and keeps nothing.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import default_peers as peers
import numpy as np
import pandas as pd
from keeping import RESULTS, keep, machine
from mixed import table as mixed_table

from polydag import (
    BOSS,
    GES,
    PC,
    AutoDAG,
    EqualVariance,
    FederatedNotears,
    Graph,
    LinkedRows,
    Notears,
    Parties,
    metrics,
    simulate,
)
from polydag.discrete_network import DiscreteNetwork
from polydag.embedded import asia
from polydag.errors import DataWarning

FIRST_SEED, CHOOSING = 95_000, 40_000
WITHIN = 1.25  # times the errors of the best setting
SLACK = 0.5  # errors that no ratio is made of


class Setting(NamedTuple):
    """Data with a known truth, and the ways of learning from it; each makes a graph from the data.

    The peers get one table, made of the data by `rows_of`.
    """

    name: str
    draw: Callable[[int], tuple[Graph, Any]]
    ways: Mapping[str, Callable[[Any], Graph]]
    peers: dict[str, peers.Peer]
    columns: int
    rows_of: Callable[[Any], pd.DataFrame] = lambda data: data

    @property
    def all_ways(self) -> dict[str, Callable[[Any], Graph]]:
        """The ways of the package, and those of the peers that take this many columns."""
        taken = {name: peer for name, peer in self.peers.items() if self.columns <= peer.most_columns}
        others = {name: peers.as_way(peer, self.rows_of) for name, peer in taken.items()}
        return {**self.ways, **others}


def fit(learner: Any, wrap: Callable[[Any], Any] = lambda data: data) -> Callable[[Any], Graph]:
    def learned(data: Any) -> Graph:
        graph: Graph = learner().fit(wrap(data)).graph_
        return graph

    return learned


NUMBERS = {
    "Notears": fit(Notears),
    **{f"GES, penalty {p}": fit(lambda p=p: GES(penalty=float(p))) for p in (1, 2, 3)},
    **{f"BOSS, penalty {p}": fit(lambda p=p: BOSS(penalty=float(p))) for p in (1, 2, 3)},
    "PC, alpha 0.01": fit(lambda: PC(alpha=0.01)),
}


def _of_size(d: int) -> Mapping[str, Callable[[Any], Graph]]:
    """The ways of learning from numbers; NOTEARS takes long for many standardised columns."""
    return {name: way for name, way in NUMBERS.items() if name != "Notears" or d <= 50}


LABELS = {"GES": fit(GES), "BOSS": fit(BOSS), "PC, alpha 0.01": fit(lambda: PC(alpha=0.01))}
MIXED = {
    **{
        f"BOSS, {score}, penalty {p}": fit(lambda p=p, s=score: BOSS(penalty=float(p), criterion=s))
        for score in ("dg", "cg")
        for p in (1, 2)
    },
    "GES": fit(GES),
    "PC, alpha 0.01": fit(lambda: PC(alpha=0.01)),
}


def table(
    d: int, n: int, degree: float, *, scaled: bool = True
) -> Callable[[int], tuple[Graph, pd.DataFrame]]:
    def draw(seed: int) -> tuple[Graph, pd.DataFrame]:
        dag = simulate.weights(
            simulate.dag(d, expected_edges=degree * d / 2, random_state=seed), 0.25, 1.0, random_state=seed
        )
        X = simulate.linear(dag, n=n, random_state=seed)
        return dag, (X - X.mean()) / X.std() if scaled else X

    return draw


def labels(network: Callable[[int], DiscreteNetwork], n: int) -> Callable[[int], tuple[Graph, pd.DataFrame]]:
    """Rows of a network; drawn again where a column is constant, which PC and some peers refuse."""

    def draw(seed: int) -> tuple[Graph, pd.DataFrame]:
        known = network(seed)
        rows = simulate.discrete(known, n=n, random_state=seed)
        return (known.graph, rows) if rows.nunique().min() > 1 else draw(seed + 1000)

    return draw


def mixed(d: int, n: int) -> Callable[[int], tuple[Graph, pd.DataFrame]]:
    """Half numbers, half labels, as words."""

    def draw(seed: int) -> tuple[Graph, pd.DataFrame]:
        dag, rows, levels = mixed_table(seed, n, d)
        return dag, rows.assign(**{name: rows[name].map("level {}".format) for name in levels})

    return draw


def random_network(seed: int, d: int) -> DiscreteNetwork:
    """Labels with two to four levels, one or two parents each on average, and peaked tables."""
    rng = np.random.default_rng(seed)
    graph = simulate.dag(d, expected_edges=1.25 * d, random_state=seed)
    levels = {name: [f"v{k}" for k in range(int(rng.integers(2, 5)))] for name in graph.names}
    tables = {}
    for name in graph.names:
        shape = [len(levels[parent]) for parent in graph.parents(name)]
        draws = rng.dirichlet(np.full(len(levels[name]), 0.5), size=shape or None)
        tables[name] = np.asarray(draws)
    return DiscreteNetwork(levels, {name: graph.parents(name) for name in graph.names}, tables)


def parties(shift: float, *, scaled: bool, k: int = 6, rows: int = 80) -> Callable[[int], tuple[Graph, Any]]:
    def draw(seed: int) -> tuple[Graph, Any]:
        dag = simulate.dag(15, expected_edges=30, random_state=seed)
        X = simulate.linear(dag, n=k * rows, random_state=seed)
        rng = np.random.default_rng(seed)
        parts = [X[i * rows : (i + 1) * rows] + shift * rng.normal(size=15) for i in range(k)]
        if scaled:
            whole = pd.concat(parts)
            parts = [(part - whole.mean()) / whole.std() for part in parts]
        return dag, parts

    return draw


OVER_PARTIES = {
    "ADMM": fit(FederatedNotears, Parties),
    "BOSS, penalty 2, means": fit(lambda: BOSS(penalty=2.0), Parties),
    "BOSS, penalty 2, no site effects": fit(
        lambda: BOSS(penalty=2.0), lambda parts: Parties(parts, site_effects="none")
    ),
    "GES, penalty 2, means": fit(lambda: GES(penalty=2.0), Parties),
}


def rows_linked(kind: str, base: float, p: int = 30) -> Callable[[int], tuple[Graph, pd.DataFrame]]:
    def draw(seed: int) -> tuple[Graph, pd.DataFrame]:
        dag = simulate.dag(p, expected_edges=p, random_state=seed)
        blocks = simulate.clusters(kind, 300, 10, base=base)  # type: ignore[arg-type]
        X = simulate.linked(dag, row_covariance=blocks, random_state=seed)
        return dag, X.assign(school=np.repeat([f"s{i}" for i in range(30)], 10))

    return draw


def in_schools(**settings: Any) -> Callable[[pd.DataFrame], LinkedRows]:
    return lambda X: LinkedRows(X, groups="school", random_state=0, **settings)


OF_LINKED_ROWS = {
    "BOSS, penalty 2, common": fit(lambda: BOSS(penalty=2.0), in_schools(structure="common")),
    "BOSS, penalty 2, free": fit(lambda: BOSS(penalty=2.0), in_schools(structure="free")),
    "BOSS, penalty 2, rows as independent": fit(
        lambda: BOSS(penalty=2.0), lambda X: X.drop(columns="school")
    ),
}

PLAIN = fit(AutoDAG)
SETTINGS = (
    *(
        Setting(
            f"table, p={d}, n={n}, degree {k}",
            table(d, n, k), {"default": PLAIN, **_of_size(d)}, peers.installed(peers.NUMBERS), d,
        )
        for d, n, k in (
            (80, 320, 4), (200, 1000, 4), (20, 1000, 4), (20, 100, 2), (10, 50, 2), (50, 200, 4),
            (50, 1000, 8), (100, 100, 2),
        )
    ),
    Setting(
        "table in common units, p=20, n=1000, degree 4",
        table(20, 1000, 4, scaled=False),
        {"default": PLAIN, **NUMBERS, "EqualVariance": fit(EqualVariance)},
        peers.installed(peers.NUMBERS), 20,
    ),
    *(
        Setting(
            f"labels, asia, n={n}",
            labels(lambda seed: asia(), n), {"default": PLAIN, **LABELS}, peers.installed(peers.LABELS), 8,
        )
        for n in (200, 2000)
    ),
    *(
        Setting(
            f"labels, d={d}, n={n}",
            labels(lambda seed, d=d: random_network(seed, d), n),
            {"default": PLAIN, **LABELS}, peers.installed(peers.LABELS), d,
        )
        for d, n in ((12, 300), (12, 3000), (25, 1000))
    ),
    *(
        Setting(f"numbers and labels, d={d}, n={n}", mixed(d, n), {"default": PLAIN, **MIXED}, {}, d)
        for d, n in ((10, 500), (20, 2000))
    ),
    *(
        Setting(
            f"six parties, shift {shift:g}{', standardised' if scaled else ''}",
            parties(shift, scaled=scaled), {"default": fit(AutoDAG, Parties), **OVER_PARTIES},
            peers.installed(peers.NUMBERS), 15, peers.pooled,
        )
        for scaled in (False, True)
        for shift in (0.0, 1.0, 2.0)
    ),
    *(
        Setting(
            f"30 groups of 10, {kind} {base}",
            rows_linked(kind, base), {"default": fit(AutoDAG, in_schools()), **OF_LINKED_ROWS},
            peers.installed(peers.NUMBERS), 30, peers.without_groups,
        )
        for kind, base in (("equi", 0.5), ("equi", 0.0), ("toeplitz", 0.7), ("toeplitz", 0.3))
    ),
)  # fmt: skip


def errors(truth: Graph, estimate: Graph) -> float:
    found = estimate.to_cpdag() if estimate.is_dag else estimate
    return float(metrics.shd(true=truth.to_cpdag(), estimate=found))


def measure(setting: Setting, seeds: range) -> list[dict[str, Any]]:
    """The errors of each way, and how the default compares with the best of the package."""
    ways = setting.all_ways
    found: dict[str, list[float]] = {name: [] for name in ways}
    seconds = dict.fromkeys(ways, 0.0)
    for seed in seeds:
        truth, data = setting.draw(seed)
        for name, way in ways.items():
            start = time.process_time()
            estimate = way(data)
            seconds[name] += time.process_time() - start
            found[name].append(errors(truth, estimate))
    mean = {name: float(np.mean(values)) for name, values in found.items()}
    best = min((name for name in setting.ways if name != "default"), key=mean.__getitem__)
    held = mean["default"] <= max(WITHIN * mean[best], mean[best] + SLACK)
    sure = mean["default"] - mean[best] > 2 * standard_error(np.subtract(found["default"], found[best]))
    outside = [name for name in ways if name not in setting.ways]
    peer = min(outside, key=mean.__getitem__, default="")
    mark = "" if held else f"MORE THAN 1.25 TIMES{'' if sure else ', within two standard errors'}"
    print(f"{setting.name:<46}{mean['default']:7.1f}{mean[best]:7.1f}  {best:<33}"
          f"{f'{mean[peer]:7.1f}  {peer:<20}' if peer else '':<29}{mark}", flush=True)  # fmt: skip
    return [
        {
            "setting": setting.name, "way": name, "of": "peer" if name in outside else "polydag",
            "cpdag_shd": round(value, 2), "standard_error": round(standard_error(found[name]), 2),
            "best": name == best, "default_within_target": held if name == "default" else "",
            "worse_than_best_by_2_se": bool(sure) if name == "default" else "",
            "cpu_s": round(seconds[name] / len(seeds), 3), "seeds": len(seeds),
        }
        for name, value in mean.items()
    ]  # fmt: skip


def standard_error(values: Any) -> float:
    """Of a mean; 0 for a single value."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="settings whose names contain this")
    parser.add_argument("--choose", action="store_true", help="run on the seeds that choices are made on")
    given = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    if missing := peers.missing():
        print(f"Not installed, so not compared: {', '.join(missing)}.")
    print(f"{'':<46}default   best of the package{'':>16}best peer")
    first = CHOOSING if given.choose else FIRST_SEED
    for setting in SETTINGS:
        if given.only in setting.name:
            rows = measure(setting, range(first, first + given.seeds))
            if not given.choose:
                keep_with_others(rows)


def keep_with_others(rows: list[dict[str, Any]]) -> None:
    """Replace the rows of a setting; those of others stay as they are, in the order of the settings."""
    path = RESULTS / "defaults.csv"
    earlier = pd.read_csv(path, dtype=str).fillna("").to_dict("records") if path.exists() else []
    place = machine(*peers.packages())
    names = [setting.name for setting in SETTINGS]
    kept = [row for row in earlier if row["setting"] in names and row["setting"] != rows[0]["setting"]]
    full = [*kept, *({**row, **place} for row in rows)]
    columns = list(dict.fromkeys(key for row in reversed(full) for key in row))
    full.sort(key=lambda row: names.index(row["setting"]))
    keep("defaults", [{key: row.get(key, "") for key in columns} for row in full], place)


if __name__ == "__main__":
    main()
