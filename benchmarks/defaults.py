"""What a person gets who chooses nothing, beside the best known setting of the package.

    python benchmarks/defaults.py [--seeds 10] [--only WORDS]

Errors are CPDAG SHD, means over seeds that were used for no choice (90000 and following). `default` is
`AutoDAG()` on the source as it is; the others are named settings, of which the best is compared with it.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from keeping import keep, machine

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

FIRST_SEED = 90_000
WITHIN = 1.25  # times the errors of the best setting
SLACK = 0.5  # errors that no ratio is made of


class Setting(NamedTuple):
    """Data with a known truth, and the ways of learning from it; each makes a graph from the data."""

    name: str
    draw: Callable[[int], tuple[Graph, Any]]
    ways: Mapping[str, Callable[[Any], Graph]]


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
    """The ways of learning from numbers; NOTEARS takes minutes on 200 standardised columns."""
    return {name: way for name, way in NUMBERS.items() if name != "Notears" or d <= 100}


LABELS = {"GES": fit(GES), "BOSS": fit(BOSS), "PC, alpha 0.01": fit(lambda: PC(alpha=0.01))}


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


def labels(network: Callable[[], DiscreteNetwork], n: int) -> Callable[[int], tuple[Graph, pd.DataFrame]]:
    def draw(seed: int) -> tuple[Graph, pd.DataFrame]:
        known = network()
        return known.graph, simulate.discrete(known, n=n, random_state=seed)

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


def drawn_labels(d: int, n: int) -> Callable[[int], tuple[Graph, pd.DataFrame]]:
    def draw(seed: int) -> tuple[Graph, pd.DataFrame]:
        known = random_network(seed, d)
        return known.graph, simulate.discrete(known, n=n, random_state=seed)

    return draw


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
        Setting(f"table, p={d}, n={n}, degree {k}", table(d, n, k), {"default": PLAIN, **_of_size(d)})
        for d, n, k in (
            (80, 320, 4), (200, 1000, 4), (20, 1000, 4), (20, 100, 2), (10, 50, 2), (50, 200, 4),
            (50, 1000, 8), (100, 100, 2),
        )
    ),
    Setting(
        "table in common units, p=20, n=1000, degree 4",
        table(20, 1000, 4, scaled=False),
        {"default": PLAIN, **NUMBERS, "EqualVariance": fit(EqualVariance)},
    ),
    *(
        Setting(f"labels, asia, n={n}", labels(asia, n), {"default": PLAIN, **LABELS})
        for n in (200, 2000)
    ),
    *(
        Setting(f"labels, d={d}, n={n}", drawn_labels(d, n), {"default": PLAIN, **LABELS})
        for d, n in ((12, 300), (12, 3000), (25, 1000))
    ),
    *(
        Setting(
            f"six parties, shift {shift:g}{', standardised' if scaled else ''}",
            parties(shift, scaled=scaled),
            {"default": fit(AutoDAG, Parties), **OVER_PARTIES},
        )
        for scaled in (False, True)
        for shift in (0.0, 1.0, 2.0)
    ),
    *(
        Setting(
            f"30 groups of 10, {kind} {base}",
            rows_linked(kind, base),
            {"default": fit(AutoDAG, in_schools()), **OF_LINKED_ROWS},
        )
        for kind, base in (("equi", 0.5), ("equi", 0.0), ("toeplitz", 0.7), ("toeplitz", 0.3))
    ),
)  # fmt: skip


def errors(truth: Graph, estimate: Graph) -> float:
    found = estimate.to_cpdag() if estimate.is_dag else estimate
    return float(metrics.shd(true=truth.to_cpdag(), estimate=found))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    rows: list[dict[str, Any]] = []
    for setting in SETTINGS:
        if given.only not in setting.name:
            continue
        found: dict[str, list[float]] = {name: [] for name in setting.ways}
        for seed in range(FIRST_SEED, FIRST_SEED + given.seeds):
            truth, data = setting.draw(seed)
            for name, way in setting.ways.items():
                found[name].append(errors(truth, way(data)))
        mean = {name: float(np.mean(values)) for name, values in found.items()}
        best = min((name for name in mean if name != "default"), key=mean.__getitem__)
        held = mean["default"] <= max(WITHIN * mean[best], mean[best] + SLACK)
        print(
            f"{setting.name:<48}{mean['default']:8.1f}{mean[best]:8.1f}  {best:<34}"
            f"{'' if held else 'MORE THAN 1.25 TIMES'}",
            flush=True,
        )
        for name, value in mean.items():
            deviation = float(np.std(found[name], ddof=1) / np.sqrt(given.seeds)) if given.seeds > 1 else 0.0
            rows.append({
                "setting": setting.name, "way": name, "cpdag_shd": round(value, 2),
                "standard_error": round(deviation, 2), "best": name == best,
                "default_within_target": held if name == "default" else "", "seeds": given.seeds,
            })  # fmt: skip
    if not given.only:
        keep("defaults", rows, machine())


if __name__ == "__main__":
    main()
