"""The likelihood of rows that were not used for fitting, under a graph with linear Gaussian equations.

For a variable j with parents P, training rows give `β = S_PP⁻¹ S_Pj` and the residual variance
`σ² = S_jj − S_jP β`. A held-out row then has the log density `−½ Σ_j (log 2πσ_j² + r_j²/σ_j²)` with the
residuals `r_j = x_j − m_j − β(x_P − m_P)`. The mean over rows needs only their moments.
"""

from __future__ import annotations

import numpy as np

from polydag import orientation
from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.stats import GaussianStats


def mean_log_likelihood(graph: Graph, fitted: GaussianStats, held_out: GaussianStats) -> float:
    """The mean log density of held-out rows; of any DAG of the class, where the graph is a class.

    Examples
    --------
    >>> rows = GaussianStats.from_data(np.array([[0.0, 0.1], [1.0, 1.9], [2.0, 4.2], [3.0, 5.8]]))
    >>> chain = Graph.from_edges(["x0", "x1"], [("x0", "x1")])
    >>> mean_log_likelihood(chain, rows, rows) > mean_log_likelihood(Graph.from_edges(rows.names), rows, rows)
    True
    """
    member = orientation.consistent_extension(graph.adjacency)
    if member is None:
        raise UsageError("The graph has no DAG without new v-structures, so it has no likelihood.")
    S = fitted.covariance
    shift = held_out.select(graph.names).mean - fitted.mean
    C = held_out.select(graph.names).covariance + np.outer(shift, shift)
    total = 0.0
    for j in range(len(S)):
        parents = np.flatnonzero(member[:, j])
        residual = np.zeros(len(S))
        residual[j] = 1.0
        residual[parents] = -np.linalg.solve(S[np.ix_(parents, parents)], S[parents, j])
        variance = float(residual @ S @ residual)
        total -= 0.5 * (float(np.log(2 * np.pi * variance)) + float(residual @ C @ residual) / variance)
    return total
