"""Simulate random DAGs, structural equation models, time series, discrete networks and row-correlated data.

Every function takes `random_state`, a seed or a `numpy.random.Generator`; the same seed gives the same data.
`W[i, j]` is the weight of `i -> j`, and a row of data is `x = x W + noise`.
"""

from __future__ import annotations

from polydag.simulate.discrete import discrete
from polydag.simulate.graphs import dag, weights
from polydag.simulate.linked import clusters, linked, network_precision, row_covariance
from polydag.simulate.sem import linear, mlp
from polydag.simulate.series import LaggedSample, lagged

__all__ = [
    "LaggedSample",
    "clusters",
    "dag",
    "discrete",
    "lagged",
    "linear",
    "linked",
    "mlp",
    "network_precision",
    "row_covariance",
    "weights",
]
