"""Varsortability: how well sorting the variables by variance recovers the causal order.

References
----------
Reisach, A. G., Seiler, C. and Weichwald, S. (2021). Beware of the simulated DAG! Causal discovery benchmarks
may be easy to game.
"""

from __future__ import annotations

import numpy as np

from polydag.errors import DataError
from polydag.graph import Graph
from polydag.metrics.node_matching import require_same_names
from polydag.stats import GaussianStats

_TIE = 1e-9  # relative; the variances of standardised columns differ only by rounding


def varsortability(*, true: Graph, stats: GaussianStats) -> float:
    """The proportion of directed paths along which the variance increases from start to end; ties count half.

    As in the paper, a pair of nodes counts once for each length of path between them. A value of 1 means that
    the variances determine the order, 0.5 that they carry no information about it. With a learned graph in
    place of the true one, it shows how closely the result follows the variances.
    """
    require_same_names(true.names, stats.names, "the data")
    if not true.is_dag:
        raise DataError("Varsortability needs a DAG.")
    if not true.n_edges:
        raise DataError("Varsortability needs a graph with edges.")
    variance = stats.select(true.names).covariance.diagonal()
    larger = variance[None, :] > variance[:, None] * (1 + _TIE)
    rising = np.where(larger, 1.0, np.where(larger.T, 0.0, 0.5))
    edges = true.adjacency.astype(np.float32)
    paths, total, sorted_ = true.adjacency, 0.0, 0.0
    while paths.any():  # paths of 1, 2, … edges, at most d - 1
        total += float(paths.sum())
        sorted_ += float(rising[paths].sum())
        paths = paths.astype(np.float32) @ edges > 0
    return sorted_ / total
