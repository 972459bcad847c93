"""Weights for graphs that stand for a class of equivalent DAGs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydag.graph import Graph
from polydag.losses import LeastSquares
from polydag.regression import fit_graph
from polydag.stats import GaussianStats, Regimes

Mask = NDArray[np.bool_]


def class_and_member(adjacency: Mask, dag: Mask, stats: Any) -> tuple[Graph, Graph]:
    """A CPDAG and one of its DAGs, with least-squares coefficients in that DAG as weights; 1 for labels.

    An undirected edge of the class has the coefficient that it gets in the DAG, whichever way it points.
    """
    weights = dag.astype(float)
    part = next(iter(stats.parts.values())) if isinstance(stats, Regimes) else stats
    if isinstance(part, GaussianStats):
        weights, _ = fit_graph(LeastSquares.from_stats(stats), dag, dag, None)
    whole = np.where(adjacency, weights + weights.T, 0.0)
    return Graph(adjacency, stats.names, whole), Graph(dag, stats.names, weights)
