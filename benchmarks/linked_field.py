"""Linked rows side by side: ignoring links, centring groups, mixed-model residuals, polydag, and the true Σ.

Random DAGs with two edges a variable, weights ±[0.25, 1] and unit errors; the SHD to the true CPDAG of GES
with penalty 2 on the moments that each method gives. `centring` subtracts group means and counts rows less
groups; `mixed model` subtracts each column's predicted random intercept (one REML fit a column); `true Σ`
whitens by the true Σ; `oracle` has the errors themselves, before they were correlated, which is the same but
for the intercept, and works where Σ differs by column. The settings:

- equi: 30 groups of 10, correlation 0.5; large: 6 groups of 50; unequal: groups of 2 to 30; pairs: 150 at
−0.6
- by column: 30 groups of 10, each column's errors with an intraclass correlation of its own, from 0.1 to 0.8
- toeplitz .7, toeplitz .3, ar: as in the linked-rows paper, 10 groups of 30
- panel: 60 patients at 5 irregular times, an intercept and a decay
- grid: 17 x 17, exponential decay, the links of neighbours given; places: the same with coordinates
- kinship: 75 families of four, h² = 0.7, the relationship matrix given
- celegans: 297 neurons, random entries of Θ on its 2,148 links (with POLYDAG_DATA)
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import csv
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from keeping import RESULTS, keep, machine
from scipy.linalg import block_diag

from polydag import GES, GaussianStats, LinkedRows, metrics, simulate
from polydag.rows import Links
from polydag.rows.decorrelation import decorrelate
from polydag.rows.linked_table import LinkedTable
from polydag.simulate.sem import propagate

Array = np.ndarray
SEEDS = {15: 40, 30: 10, 100: 10}  # data sets by columns: with few, one wrong direction costs many errors
METHODS = ("plain", "centring", "mixed model", "polydag", "true Σ", "oracle")
FIRST_SEED = 2000  # defaults were chosen on others


class Place(NamedTuple):
    """Rows: their correlation, how the links are given to polydag, and groups where there are any.

    `shares` are the intraclass correlations of single columns' errors, where these differ.
    """

    Sigma: Array
    given: dict[str, Any]
    groups: Array | None = None
    by_column: bool = False


def grouped(sizes: list[int], correlation: float) -> Place:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    blocks = [np.where(np.eye(m) > 0, 1.0, correlation) for m in sizes]
    return Place(block_diag(*blocks), {"groups": labels}, labels)


def paper(kind: str, base: float | None) -> Place:
    labels = np.arange(300) // 30
    return Place(block_diag(*simulate.clusters(kind, 300, 30, base=base)), {"groups": labels}, labels)


def panel(rng: np.random.Generator) -> Place:
    labels = np.arange(300) // 5
    times = np.sort(rng.uniform(0, 10, (60, 5)), axis=1).ravel()
    apart = np.abs(np.subtract.outer(times, times))
    Sigma = np.where(np.equal.outer(labels, labels), 0.2 + 0.8 * np.exp(-apart / 3), 0.0)
    return Place(Sigma, {"groups": labels, "time": times}, labels)


def grid(with_places: bool, side: int = 17) -> Place:
    xy = np.stack(np.meshgrid(np.arange(float(side)), np.arange(float(side))), axis=-1).reshape(-1, 2)
    apart = np.sqrt(((xy[:, None] - xy[None]) ** 2).sum(axis=-1))
    given = (
        {"coordinates": xy, "neighbours": 4} if with_places else {"links": np.argwhere(np.triu(apart == 1))}
    )
    return Place(np.exp(-apart / 2), given)


def kinship() -> Place:
    family = np.array([[1, 0, 0.5, 0.5], [0, 1, 0.5, 0.5], [0.5, 0.5, 1, 0.5], [0.5, 0.5, 0.5, 1]])
    K = block_diag(*[family] * 75)
    return Place(0.7 * K + 0.3 * np.eye(300), {"covariance": K}, np.arange(300) // 4)


def celegans(rng: np.random.Generator) -> Place | None:
    if "POLYDAG_DATA" not in os.environ:
        return None
    file = Path(os.environ["POLYDAG_DATA"]) / "networks" / "celegans_n306_undirected.csv"
    ends = np.unique(pd.read_csv(file).iloc[:, :2].to_numpy(), return_inverse=True)[1].reshape(-1, 2)
    A = np.zeros((ends.max() + 1,) * 2)
    A[ends[:, 0], ends[:, 1]] = A[ends[:, 1], ends[:, 0]] = 1.0
    Sigma = np.linalg.inv(simulate.network_precision(A, random_state=rng))
    Sigma = (Sigma + Sigma.T) / 2
    np.fill_diagonal(Sigma, 1.0)
    return Place(Sigma, {"links": Links.from_matrix(A)})


def unequal(rng: np.random.Generator) -> Place:
    sizes = rng.integers(2, 31, 40)
    return grouped(sizes[np.cumsum(sizes) <= 300].tolist(), 0.5)


PLACES: dict[str, Callable[[np.random.Generator], Place | None]] = {
    "equi": lambda _: grouped([10] * 30, 0.5),
    "large": lambda _: grouped([50] * 6, 0.5),
    "unequal": unequal,
    "pairs": lambda _: grouped([2] * 150, -0.6),
    "by column": lambda _: grouped([10] * 30, 0.5)._replace(by_column=True),
    "toeplitz .7": lambda _: paper("toeplitz", 0.7),
    "toeplitz .3": lambda _: paper("toeplitz", 0.3),
    "ar": lambda _: paper("ar", 0.7),
    "panel": panel,
    "grid": lambda _: grid(with_places=False),
    "places": lambda _: grid(with_places=True),
    "kinship": lambda _: kinship(),
    "celegans": celegans,
}


def errors(place: Place, p: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The errors of all variables, and the same once their correlation is taken out."""
    white = rng.standard_normal((len(place.Sigma), p))
    if not place.by_column:
        return np.linalg.cholesky(place.Sigma) @ white, white
    shares = rng.uniform(0.1, 0.8, p)
    same = (place.Sigma > 0).astype(float)
    roots = [np.linalg.cholesky(share * same + (1 - share) * np.eye(len(same))) for share in shares]
    return np.stack([root @ column for root, column in zip(roots, white.T, strict=True)], axis=1), white


def centred(X: pd.DataFrame, groups: Array) -> GaussianStats:
    """The moments within groups, which have as many rows fewer as there are groups."""
    own = GaussianStats.from_data(X - X.groupby(groups).transform("mean"))
    n = len(X) - len(np.unique(groups))
    return GaussianStats(n, own.mean, own.scatter, own.names, n)


def mixed_model(X: pd.DataFrame, groups: Array) -> GaussianStats:
    """The moments of each column less its mean and its predicted random intercepts."""
    table = LinkedTable.of(X, groups)
    shares = decorrelate(table, structure="common").column_correlations
    result = X - X.mean()
    means, sizes = result.groupby(groups).transform("mean"), result.groupby(groups).transform("size")
    for name, share in zip(X.columns, np.maximum(shares, 0.0), strict=True):
        shrink = sizes * share / (1 + (sizes - 1) * share)
        result[name] -= shrink * means[name]
    return GaussianStats.from_data(result)


def compared(name: str, p: int, seed: int, only: list[str]) -> list[dict[str, Any]]:
    rng = np.random.default_rng([seed, p])
    place = PLACES[name](rng)
    if place is None:
        return []
    truth = simulate.dag(p, n_edges=2 * p, weight_range=(0.25, 1.0), random_state=rng)
    correlated, white = errors(place, p, rng)
    X, ideal = (
        pd.DataFrame(propagate(truth, each), columns=list(truth.names)) for each in (correlated, white)
    )
    ways: dict[str, Callable[[], Any]] = {"plain": lambda: GaussianStats.from_data(X)}
    if place.groups is not None:
        ways |= {
            "centring": lambda: centred(X, place.groups),
            "mixed model": lambda: mixed_model(X, place.groups),
        }
    rows = LinkedRows(X, **place.given, random_state=seed)

    def estimated() -> LinkedRows:
        rows.family_moments()  # kept for the learner
        return rows

    ways |= {"polydag": estimated}
    if not place.by_column:
        root = np.linalg.cholesky(place.Sigma)
        ways |= {"true Σ": lambda: GaussianStats.from_data(X, row_factor=np.linalg.inv(root))}
    ways |= {"oracle": lambda: GaussianStats.from_data(ideal)}
    found = []
    for way, moments in ((way, ways[way]) for way in only if way in ways):
        start = time.process_time()
        statistics = moments()
        spent = time.process_time() - start
        shd = metrics.shd(true=truth.to_cpdag(), estimate=GES(penalty=2).fit(statistics).graph_)
        structure = rows.decorrelation_.structure if way == "polydag" else ""
        row = {"setting": name, "p": p, "seed": seed, "method": way, "structure": structure, "shd": shd}
        found.append({**row, "cpu_s": round(spent, 3)})
    return found


def earlier() -> list[dict[str, Any]]:
    """The figures that are kept: settings are run one by one, and replace their own."""
    file = RESULTS / "linked_field.csv"
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def large_grid(seed: int) -> list[dict[str, Any]]:
    """The time of the choice of a structure on 50 x 50 places with 10 columns, tests included."""
    found = []
    for with_places in (False, True):
        place = grid(with_places, 50)
        rng = np.random.default_rng(seed)
        X = np.linalg.cholesky(place.Sigma) @ rng.standard_normal((2500, 10))
        start = time.process_time()
        rows = LinkedRows(X, **place.given)
        rows.moments()
        print(rows.decorrelation_.summary)
        left = rows.decorrelation_.after.p_value
        spent = round(time.process_time() - start, 1)
        given = "coordinates" if with_places else "links"
        row = {"given": given, "structure": rows.decorrelation_.structure, "p_value_after": left}
        found.append({**row, "cpu_s": spent, "target_s": 60, "met": spent <= 60})
        print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Linked rows: methods side by side")
    parser.add_argument("--grid", action="store_true", help="the time of a large grid instead")
    parser.add_argument("--seeds", type=int, help="instead of 40 with 15 columns, 10 with more")
    parser.add_argument("--columns", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--only", nargs="+", choices=list(PLACES), default=list(PLACES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.grid:
        times = large_grid(chosen.first_seed)
        if not chosen.no_save:
            keep("linked_grid", times, machine("polydag", "scipy", "numba"))
        return
    kept = [] if chosen.no_save else earlier()
    for name in chosen.only:
        for p in chosen.columns:
            again = {(name, p, method) for method in chosen.methods}
            kept = [row for row in kept if (row["setting"], int(row["p"]), row["method"]) not in again]
            for seed in range(chosen.first_seed, chosen.first_seed + (chosen.seeds or SEEDS.get(p, 10))):
                kept.extend(compared(name, p, seed, chosen.methods))
            own = pd.DataFrame([row for row in kept if row["setting"] == name and int(row["p"]) == p])
            own = own.astype({"shd": float})
            if len(own):
                means = own.groupby("method", sort=False)["shd"].mean().round(1).to_dict()
                print(
                    name,
                    p,
                    means,
                    own["structure"][own["structure"].fillna("") != ""].value_counts().to_dict(),
                    flush=True,
                )
        if kept and not chosen.no_save:
            order = list(PLACES)
            kept.sort(
                key=lambda row: (
                    order.index(row["setting"]),
                    int(row["p"]),
                    int(row["seed"]),
                    METHODS.index(row["method"]),
                )
            )
            keep("linked_field", kept, machine("polydag", "scipy", "numba"))


if __name__ == "__main__":
    main()
