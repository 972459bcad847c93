"""A learner in one file: sort the columns by variance, then regress each on those before it.

This is the baseline of Reisach, Seiler and Weichwald (2021). It shows how much of a result can be had from
the scales of the columns alone, so it is worth comparing with any method that does well on simulated data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polydag import GaussianStats, Graph, Knowledge
from polydag.knowledge import knowledge_masks
from polydag.learners import StructureLearner
from polydag.losses import LeastSquares
from polydag.regression import fit_graph
from polydag.sources.checked import gaussian_statistics


class SortRegress(StructureLearner):
    """Order the variables by marginal variance, then choose parents by the extended BIC.

    Parameters
    ----------
    gamma : float
        Weight of the extended BIC; 0 is the plain BIC.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    random_state : int, optional
        Accepted by every learner; nothing is random here.
    """

    def __init__(
        self, *, gamma: float = 1.0, knowledge: Knowledge | None = None, random_state: int | None = None
    ) -> None:
        self.gamma = gamma
        self.knowledge = knowledge
        self.random_state = random_state

    def _fit(self, source: Any) -> None:
        """Ask the source for moments; where its rows are makes no difference."""
        stats = gaussian_statistics(source, independent=True)
        required, forbidden = knowledge_masks(self.knowledge, stats.names)
        loss = LeastSquares.from_stats(stats)
        # A variable that may only be an effect of another waits until that one is placed.
        waits_for = forbidden.T & ~forbidden
        variance = np.array([loss.gram(j)[j, j] for j in range(loss.d)])
        earlier = np.zeros((loss.d, loss.d), dtype=bool)
        remaining = set(range(loss.d))
        while remaining:
            free = {j for j in remaining if not waits_for[list(remaining), j].any()}
            free = free or {j for j in remaining if not required[list(remaining), j].any()}
            first = min(free, key=lambda j: variance[j])
            remaining.remove(first)
            earlier[first, list(remaining)] = True
        weights, criterion = fit_graph(loss, earlier & ~forbidden, required, self.gamma)
        edges = (weights != 0) | required
        self._keep(
            Graph(edges, stats.names, weights),
            raw_weights=weights,
            history=[{"n_edges": int(edges.sum()), "criterion": criterion}],
            pruned=[],
            converged=True,
            n_iter=1,
        )


if __name__ == "__main__":
    from polydag import metrics, simulate

    truth = simulate.dag(10, n_edges=15, random_state=0)
    stats = GaussianStats.from_data(simulate.linear(truth, n=500, random_state=1))
    for name, data in (("as simulated", stats), ("standardised", stats.standardized())):
        print(f"SHD, {name}:", metrics.shd(true=truth, estimate=SortRegress().fit(data).graph_))
