"""Models, samples and knowledge drawn by a seed, for tests of searches."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag import orientation, simulate
from polydag.graph import Graph
from polydag.knowledge import Knowledge, Masks
from polydag.scores import Score, total_score
from polydag.stats import DiscreteCounts, GaussianStats

Mask = NDArray[np.bool_]
Array = NDArray[np.float64]
LARGE = 1e12
seeds = st.integers(0, 100_000)


def population(dag: Graph, scales: Array, targets: frozenset[int] = frozenset()) -> Array:
    """The covariance of a linear model whose targets were set to independent noise of another variance."""
    W = dag.weights.copy()
    variance = scales**2
    for node in targets:
        W[:, node] = 0.0
        variance[node] *= 2.0
    total = np.linalg.inv(np.eye(len(W)) - W)
    return np.asarray(total.T @ np.diag(variance) @ total)


def random_model(seed: int, largest: int = 10) -> tuple[Graph, Array]:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, largest + 1))
    edges = int(rng.integers(1, min(2 * d, d * (d - 1) // 2) + 1))
    dag = simulate.dag(d, n_edges=edges, weight_range=(0.1, 1.0), random_state=rng)
    return dag, rng.uniform(0.1, 1.0, d)


def sample(seed: int, d: int, n: int, edges: int, rows: int = 0) -> Array:
    dag = simulate.dag(d, n_edges=edges, weight_range=(0.3, 1.0), random_state=seed)
    return np.array(simulate.linear(dag, n=n, random_state=rows))


def statistics(name: str, seed: int, d: int, n: int) -> GaussianStats | DiscreteCounts:
    """What a score of this name takes."""
    X = sample(seed, d, n, edges=min(2 * d, d * (d - 1) // 2))
    if name in ("bic", "bge"):
        return GaussianStats.from_data(X).standardized()
    return DiscreteCounts.from_data((np.median(X, axis=0) < X).astype(int))


def class_score(score: Score, adjacency: Mask) -> float:
    extension = orientation.consistent_extension(adjacency)
    assert extension is not None
    return total_score(score, extension)


def random_knowledge(seed: int, d: int) -> Masks:
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    names = [f"x{i}" for i in range(d)]
    required, forbidden = [], []
    for a in range(d):
        for b in range(a + 1, d):
            u, v = names[order[a]], names[order[b]]
            draw = rng.random()
            if draw < 0.1:
                required.append((u, v))
            elif draw < 0.3:
                forbidden.append((u, v))
            if 0.2 < draw < 0.5:
                forbidden.append((v, u))
    return Knowledge(required=required, forbidden=forbidden).masks(names)
