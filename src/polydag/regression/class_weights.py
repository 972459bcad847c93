"""Weights for graphs that stand for a class of equivalent DAGs."""

from __future__ import annotations

from typing import Any

import numpy as np

from polydag.arrays import Mask
from polydag.graph import Graph
from polydag.regression.coefficients import coefficients


def class_and_member(adjacency: Mask, dag: Mask, stats: Any) -> tuple[Graph, Graph]:
    """A CPDAG and one of its DAGs, with least-squares coefficients in that DAG as weights; 1 for labels.

    An undirected edge of the class has the coefficient that it gets in the DAG, whichever way it points; it
    serves as a strength, in pictures, and is not reported as a coefficient (see `coefficients`).
    """
    raw = coefficients(Graph(dag, stats.names), stats).raw
    weights = np.where(np.isfinite(raw), raw, dag)
    whole = np.where(adjacency, weights + weights.T, 0.0)
    return Graph(adjacency, stats.names, whole), Graph(dag, stats.names, weights)
