"""Equal error variances: a direct answer without search."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from polydag.graph import Graph
from polydag.knowledge import Knowledge
from polydag.learners.base import StructureLearner
from polydag.learners.inputs import gaussian_statistics, knowledge_masks
from polydag.losses import LeastSquares
from polydag.optimize.variance_order import conditional_variance_order, predecessors
from polydag.regression import fit_graph


class EqualVariance(StructureLearner):
    """Order variables by conditional variance, then choose parents by BIC.

    Nearly free of errors when all error variances are equal, and wrong when columns are standardised or
    errors differ much: the order is read off the scales.

    Parameters
    ----------
    gamma : float
        Of the extended BIC; 0 is the plain one.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    random_state : int, optional
        Taken by every learner; nothing is random here.

    References
    ----------
    Chen, W., Drton, M. and Wang, Y. S. (2019). On causal discovery with an equal-variance assumption.
    Peters, J. and Bühlmann, P. (2014). Identifiability of Gaussian structural equation models with equal
    error variances.

    Examples
    --------
    >>> from polydag import EqualVariance, metrics, simulate
    >>> dag = simulate.dag(10, expected_edges=10, random_state=0)
    >>> model = EqualVariance().fit(simulate.linear(dag, n=500, random_state=1))
    >>> metrics.shd(true=dag, estimate=model.graph_)
    0
    """

    def __init__(
        self, *, gamma: float = 1.0, knowledge: Knowledge | None = None, random_state: int | None = None
    ) -> None:
        self.gamma = gamma
        self.knowledge = knowledge
        self.random_state = random_state

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a DataFrame, an array, a `Table`, or statistics; `y` is ignored."""
        stats = gaussian_statistics(X, independent=True)
        masks = knowledge_masks(self.knowledge, stats.names)
        loss = LeastSquares.from_stats(stats)
        order, _ = conditional_variance_order(loss, masks)
        candidates = predecessors(order) & ~masks.forbidden
        full, _ = fit_graph(loss, candidates, masks.required, None)
        weights, criterion = fit_graph(loss, candidates, masks.required, self.gamma)
        kept = (weights != 0) | masks.required
        self.order_ = [stats.names[i] for i in order]
        self._keep(
            Graph(kept, stats.names, weights),
            raw_weights=full,
            history=[{"n_edges": int(np.count_nonzero(kept)), "criterion": criterion}],
            pruned=[],
            converged=True,
            n_iter=1,
        )
        return self
