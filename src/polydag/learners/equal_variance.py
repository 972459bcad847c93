"""Structure learning under equal error variances, without a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from polydag.graph import Graph
from polydag.knowledge import Knowledge, joined, knowledge_masks
from polydag.learners.base import StructureLearner
from polydag.learners.held_out import HeldOutScore
from polydag.losses import LeastSquares
from polydag.optimize.variance_order import conditional_variance_order, predecessors
from polydag.parameters import Constraint, Instance, number, optional
from polydag.regression import fit_graph
from polydag.sources.checked import gaussian_statistics
from polydag.sources.interface import Source


class EqualVariance(HeldOutScore, StructureLearner):
    """Order the variables by conditional variance, then select parents by BIC.

    The method is very accurate if all error variances are equal. It fails if columns are standardised or
    error variances differ much, because it infers the order from the scales.

    Parameters
    ----------
    gamma : float
        The parameter γ of the extended BIC; 0 is the ordinary BIC.
    knowledge : Knowledge, optional
        Required and forbidden edges, and tiers.
    random_state : int, optional
        Not used; present for consistency with the other learners.

    Attributes
    ----------
    order_ : list of str
        The variables in causal order.

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

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "gamma": number(least=0),
        "knowledge": optional(Instance(Knowledge, "a polydag.Knowledge")),
    }

    order_: list[str]

    def __init__(
        self, *, gamma: float = 1.0, knowledge: Knowledge | None = None, random_state: int | None = None
    ) -> None:
        self.gamma = gamma
        self.knowledge = knowledge
        self.random_state = random_state

    def _fit(self, source: Source) -> None:
        stats = gaussian_statistics(source, independent=True)
        masks = knowledge_masks(joined(self.knowledge, source.knowledge), stats.names)
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
            stats=stats,
        )
