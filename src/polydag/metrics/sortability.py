"""Varsortability: how far sorting the variables by variance already gives the causal order.

References
----------
Reisach, A. G., Seiler, C. and Weichwald, S. (2021). Beware of the simulated DAG! Causal discovery benchmarks
may be easy to game.
"""

from __future__ import annotations

import numpy as np

from polydag.errors import DataError
from polydag.graph import Graph
from polydag.metrics.matching import require_same_names
from polydag.stats import GaussianStats

_TIE = 1e-9  # relative; standardised columns differ by rounding only


def varsortability(*, true: Graph, stats: GaussianStats) -> float:
    """The share of directed paths that end in a larger variance than they start from; ties count half.

    As in the paper, a pair of nodes counts once for each length of path that leads from one to the other.
    1 means that variances give the order away, 0.5 that they say nothing. With a learned graph in place of
    the truth it tells how far the result follows the variances.
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
    while paths.any():  # paths of one more edge each time, at most d - 1
        total += float(paths.sum())
        sorted_ += float(rising[paths].sum())
        paths = paths.astype(np.float32) @ edges > 0
    return sorted_ / total
