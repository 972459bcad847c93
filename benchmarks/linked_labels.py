"""Labels in linked rows side by side: links ignored, indicators decorrelated, what lies behind, oracle.

After the simulations of Chen and Zhou (2025, 2026): binary or mixed columns, errors correlated between
rows in blocks, F1 of the edges that standard learners find with and without decorrelation. Random DAGs with
two edges a variable, weights ±[0.5, 1]; F1 to the true CPDAG of BOSS, GES and PC with their defaults.

- Columns. behind: labels show whether a linear Gaussian variable lies above a cut, and its children depend on
the variable. seen: labels are causes by what is seen of them, `z_j = Σ β_kj x_k + ε_j` (the model of the
2025 paper). mixed: as behind, with a third each of numbers, labels of two levels, and of four.
- Rows. equi: groups of 10 at 0.6; unequal: groups of 2 to 30; toeplitz and star: blocks of 20 as in
the linked-rows paper (star with arms of 0.7); ar: groups of 20 with a decay of 0.8; grid: neighbours on a
square, exponential decay.
- Ways. ignored: the labels as they are, links ignored (BDeu, or the degenerate Gaussian). polychoric: links
ignored, drawn values. indicators: the degenerate Gaussian on decorrelated indicators. latent: drawn values,
decorrelated; scores and tests take the number of rows that these are worth. all rows: the same moments, and
every row counts as one of numbers, as in the papers. oracle: the values themselves, whitened by the true Σ.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from keeping import keep, machine
from scipy.linalg import block_diag

from polydag import BOSS, GES, PC, GaussianStats, LinkedRows, metrics, simulate
from polydag.simulate.sem import propagate

Array = np.ndarray
LEARNERS: dict[str, Callable[[], Any]] = {
    "BOSS": BOSS,
    "GES": GES,
    "PC": PC,
    "PC, 5 %": lambda: PC(alpha=0.05),
    "PC, 10 %": lambda: PC(alpha=0.1),
}
DEFAULTS = ("BOSS", "GES", "PC")
SIZES = ((500, 20), (300, 50), (150, 100))
WAYS = ("ignored", "polychoric", "indicators", "latent", "all rows", "oracle")
FIRST_SEED = 2000  # defaults were chosen on others


def grouped(sizes: list[int], block: Callable[[int], Array]) -> tuple[Array, dict[str, Any]]:
    return block_diag(*map(block, sizes)), {"groups": np.repeat(np.arange(len(sizes)), sizes)}


def blocks(n: int, size: int, block: Callable[[int], Array]) -> tuple[Array, dict[str, Any]]:
    return grouped([size] * (n // size) + ([n % size] if n % size else []), block)


def equi(m: int) -> Array:
    return np.where(np.eye(m) > 0, 1.0, 0.6)


def decay(m: int) -> Array:
    return 0.8 ** np.abs(np.subtract.outer(np.arange(m), np.arange(m)))


def unequal(n: int, rng: np.random.Generator) -> tuple[Array, dict[str, Any]]:
    sizes = rng.integers(2, 31, n)
    sizes = sizes[np.cumsum(sizes) <= n].tolist()
    return grouped([*sizes, n - sum(sizes)] if sum(sizes) < n else sizes, equi)


def grid(n: int) -> tuple[Array, dict[str, Any]]:
    side = int(np.ceil(np.sqrt(n)))
    xy = np.stack(np.meshgrid(np.arange(float(side)), np.arange(float(side))), axis=-1).reshape(-1, 2)[:n]
    apart = np.sqrt(((xy[:, None] - xy[None]) ** 2).sum(axis=-1))
    return np.exp(-apart / 3), {"links": np.argwhere(np.triu(apart == 1))}


ROWS: dict[str, Callable[[int, np.random.Generator], tuple[Array, dict[str, Any]]]] = {
    "equi": lambda n, _: blocks(n, 10, equi),
    "unequal": unequal,
    "toeplitz": lambda n, _: blocks(n, 20, lambda m: simulate.row_covariance("toeplitz", m, base=0.7)),
    "ar": lambda n, _: blocks(n, 20, decay),
    "star": lambda n, _: blocks(n, 20, lambda m: simulate.row_covariance("star", m, base=0.7)),
    "grid": lambda n, _: grid(n),
}


def behind(dag: Any, errors: Array, rng: np.random.Generator) -> tuple[pd.DataFrame, Array]:
    """Columns whose variables cause each other; each is above a cut between its 30 and 70 % points."""
    Z = propagate(dag, errors)
    shares = rng.uniform(0.3, 0.7, Z.shape[1])
    cuts = np.array([np.quantile(z, share) for z, share in zip(Z.T, shares, strict=True)])
    return pd.DataFrame((cuts < Z).astype(int), columns=list(dag.names)), Z


def seen(dag: Any, errors: Array, rng: np.random.Generator) -> tuple[pd.DataFrame, Array]:
    """Columns that cause each other by what is seen, as −1 and 1, so that margins stay even."""
    X, Z = np.zeros(errors.shape), np.zeros(errors.shape)
    for j in _order(dag):
        Z[:, j] = X @ dag.weights[:, j] + errors[:, j]
        X[:, j] = np.where(Z[:, j] > np.quantile(Z[:, j], rng.uniform(0.3, 0.7)), 1.0, -1.0)
    return pd.DataFrame((X > 0).astype(int), columns=list(dag.names)), Z


def _order(dag: Any) -> list[int]:
    A, left, order = dag.adjacency, list(range(dag.n_nodes)), []
    while left:
        first = next(j for j in left if not A[left, j].any())
        order.append(first)
        left.remove(first)
    return order


def mixed(dag: Any, errors: Array, rng: np.random.Generator) -> tuple[pd.DataFrame, Array]:
    """As `behind`, with every third column left as numbers, and every third in four levels."""
    X, Z = behind(dag, errors, rng)
    for j, name in enumerate(X.columns):
        if j % 3 == 1:
            X[name] = Z[:, j]
        elif j % 3 == 2:
            X[name] = np.searchsorted(np.quantile(Z[:, j], [0.2, 0.5, 0.75]), Z[:, j])
    return X, Z


COLUMNS = {"behind": behind, "seen": seen, "mixed": mixed}


def compared(
    columns: str, rows: str, n: int, p: int, seed: int, *, only: list[str], learners: list[str]
) -> list[dict[str, Any]]:
    rng = np.random.default_rng([seed, n, p])
    Sigma, given = ROWS[rows](n, rng)
    truth = simulate.dag(p, n_edges=2 * p, weight_range=(0.5, 1.0), random_state=rng)
    white = rng.standard_normal((n, p))
    X, _ = COLUMNS[columns](truth, np.linalg.cholesky(Sigma) @ white, rng)
    ideal = pd.DataFrame(propagate(truth, white), columns=list(truth.names))
    kinds: Any = {name: "discrete" for name in X if X[name].dtype.kind in "iu"}
    categories = X.astype(dict.fromkeys(kinds, "category"))
    ways: dict[str, Callable[[], Any]] = {
        "ignored": lambda: categories,
        "polychoric": lambda: LinkedRows(
            X, **given, kinds=kinds, labels="latent", structure="independent", random_state=seed
        ),
        "indicators": lambda: LinkedRows(X, **given, kinds=kinds, labels="indicators", random_state=seed),
        "latent": lambda: LinkedRows(X, **given, kinds=kinds, labels="latent", random_state=seed),
        "oracle": lambda: ideal,
    }
    found = []
    latent = ways["latent"]()

    def all_rows() -> GaussianStats:
        own = latent.moments()
        return GaussianStats(float(n), own.mean, own.scatter * (n / own.n), own.names, float(n))

    ways |= {"latent": lambda: latent, "all rows": all_rows}
    for way in only:
        source = ways[way]()
        start = time.process_time()
        structure = ""
        if isinstance(source, LinkedRows):
            source.moments()  # kept for the learners
            structure = source.decorrelation_.structure
        spent = time.process_time() - start
        for name in learners:
            start = time.process_time()
            graph = LEARNERS[name]().fit(source).graph_
            cpu = spent + time.process_time() - start
            truth_class = truth.to_cpdag()
            found.append(
                {
                    "columns": columns,
                    "rows": rows,
                    "n": n,
                    "p": p,
                    "seed": seed,
                    "way": way,
                    "structure": structure,
                    "learner": name,
                    "f1": round(metrics.f1(true=truth_class, estimate=graph), 4),
                    "skeleton_f1": round(_skeleton_f1(truth_class, graph), 4),
                    "shd": metrics.shd(true=truth_class, estimate=graph),
                    "edges": graph.n_edges,
                    "cpu_s": round(cpu, 2),
                }
            )
    return found


def _skeleton_f1(truth: Any, graph: Any) -> float:
    a, b = (np.triu(each.adjacency | each.adjacency.T) for each in (truth, graph))
    return 2.0 * float((a & b).sum()) / max(float(a.sum() + b.sum()), 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Labels in linked rows: ways side by side")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--columns", nargs="+", choices=list(COLUMNS), default=list(COLUMNS))
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--sizes", type=int, nargs="+", default=[0, 1, 2], help="places in the list of sizes")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--learners", nargs="+", choices=list(LEARNERS), default=list(DEFAULTS))
    parser.add_argument("--name", default="linked_labels", help="of the CSV file")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    kept: list[dict[str, Any]] = []
    for n, p in (SIZES[k] for k in chosen.sizes):
        for columns in chosen.columns:
            for rows in chosen.rows:
                own = [
                    row
                    for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds)
                    for row in compared(columns, rows, n, p, seed, only=chosen.ways, learners=chosen.learners)
                ]
                kept += own
                table = pd.DataFrame(own)
                means = table.pivot_table(
                    index="learner", columns="way", values=["f1", "skeleton_f1", "edges"], sort=False
                ).round(2)
                print(f"{columns}, {rows}, n = {n}, p = {p}", *means.to_string().splitlines(), sep="\n  ")
                print("  ", table[table["way"] == "latent"]["structure"].value_counts().to_dict(), flush=True)
                if not chosen.no_save:
                    keep(chosen.name, kept, machine("polydag", "scipy", "numba"))
    table = pd.DataFrame(kept)
    print(table.pivot_table(index=["columns", "learner"], columns="way", values="f1", sort=False).round(3))
    print(table.pivot_table(index=["columns", "way"], values=["edges", "shd", "cpu_s"], sort=False).round(1))


if __name__ == "__main__":
    main()
