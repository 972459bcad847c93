"""Weights for graphs that stand for a class of equivalent DAGs."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydag.graph import Graph
from polydag.losses import LeastSquares
from polydag.regression import fit_graph
from polydag.stats import GaussianStats, MixedStats, Regimes
from polydag.stats.mixed import indicator_names

Mask = NDArray[np.bool_]


def class_and_member(adjacency: Mask, dag: Mask, stats: Any) -> tuple[Graph, Graph]:
    """A CPDAG and one of its DAGs, with least-squares coefficients in that DAG as weights; 1 for labels.

    Among numbers and labels, edges between numbers have coefficients, and those of labels the weight 1. An
    undirected edge of the class has the coefficient that it gets in the DAG, whichever way it points; it
    serves as a strength, in pictures, and is not reported as a coefficient (see `coefficients`).
    """
    weights = dag.astype(float)
    part = next(iter(stats.parts.values())) if isinstance(stats, Regimes) else stats
    if isinstance(part, GaussianStats):
        weights, _ = fit_graph(LeastSquares.from_stats(stats), dag, dag, None)
    elif isinstance(part, MixedStats):
        weights = _between_numbers(dag, part if part is stats else reduce(add, stats.parts.values()))
    whole = np.where(adjacency, weights + weights.T, 0.0)
    return Graph(adjacency, stats.names, whole), Graph(dag, stats.names, weights)


def _between_numbers(dag: Mask, stats: MixedStats) -> NDArray[np.float64]:
    """Coefficients of numbers on numbers, given all parents; 1 where an end of an edge is a label."""
    weights = dag.astype(float)
    for j, name in enumerate(stats.names):
        parents = [stats.names[i] for i in np.flatnonzero(dag[:, j])]
        if name in stats.levels or not parents:
            continue
        own = stats.moments.select([*indicator_names(parents, stats.levels), name])
        slope, *_ = np.linalg.lstsq(own.correlation[:-1, :-1], own.correlation[:-1, -1], rcond=None)
        scale = np.sqrt(own.scatter.diagonal())
        for parent in parents:
            if parent not in stats.levels:
                k = own.names.index(parent)
                weights[stats.names.index(parent), j] = slope[k] * scale[-1] / scale[k]
    return weights
