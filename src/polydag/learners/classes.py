"""Graphs of equivalence classes, with weights from the data where it is numeric."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polydag import orientation
from polydag.graph import Graph
from polydag.learners.inputs import Discrete, Gaussian
from polydag.losses import LeastSquares
from polydag.regression import fit_graph
from polydag.stats import DiscreteCounts, GaussianStats


def class_graph(adjacency: NDArray[np.bool_], stats: Gaussian | Discrete) -> Graph:
    """A CPDAG whose weights are least-squares coefficients in one of its DAGs; 1 where there are none.

    An undirected edge has the coefficient that it gets in that DAG, whichever way it points there.
    """
    dag = orientation.consistent_extension(adjacency)
    discrete = isinstance(stats.for_node(stats.names[0]), DiscreteCounts)
    if dag is None or discrete:
        return Graph(adjacency, stats.names)
    weights, _ = fit_graph(LeastSquares.from_stats(_numbers(stats)), dag, dag, None)
    both = weights + weights.T
    return Graph(adjacency, stats.names, np.where(adjacency, both, 0.0))


def _numbers(stats: Gaussian | Discrete) -> Gaussian:
    assert isinstance(stats.for_node(stats.names[0]), GaussianStats)
    return stats  # type: ignore[return-value]
