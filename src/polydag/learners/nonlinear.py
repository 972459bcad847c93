"""NOTEARS with neural networks."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np

from polydag.acyclicity import ACYCLICITY
from polydag.errors import ConvergenceWarning, UsageError
from polydag.graph import Edge, Graph
from polydag.knowledge import Knowledge, Masks
from polydag.learners.base import StructureLearner
from polydag.learners.inputs import gaussian_statistics, is_statistics, knowledge_masks
from polydag.solvers.nonlinear import Solution, solve_masked, solve_mlp, standard_rows, threshold_graph
from polydag.stats import GaussianStats
from polydag.stats.rows import numeric_rows


class NotearsMLP(StructureLearner):
    """Nonlinear NOTEARS: each variable is a small neural network of its parents, plus noise.

    Needs rows: there are no sufficient statistics. The result is always a DAG.

    Parameters
    ----------
    lambda1 : float
        The sparsity penalty: ℓ1 on the first-layer weights, or the cost of an edge's probability with a mask.
    lambda2 : float
        The ℓ2 penalty on all parameters of the networks.
    hidden : int
        The number of hidden units of each variable's network.
    mask : {None, "gumbel"}
        Whether edges are told by the networks' slopes, or by probabilities learned in front of the networks.
    acyclicity : {"logdet", "expm"}
        The function that measures cycles.
    threshold : float, optional
        Effects weaker than this are not edges. By default 0.2 for slopes and 0.5 for probabilities.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    random_state : int, optional
        For the start, and the mask's noise.

    Notes
    -----
    `weights_` and `raw_weights_` are strengths, never negative: how steeply a variable follows its parent
    (root mean square over the rows; of a linear effect, the absolute weight), or probabilities. Columns
    are centred and divided by one number for all (a typical error's standard deviation), so a common unit
    does not matter but relative scales do: least squares takes errors to be of about the same size in
    every column. Where that is true they tell the direction, and standardising each column would cost
    much of the accuracy; where units are unrelated, standardise first, and trust directions less.

    References
    ----------
    Zheng, X., Dan, C., Aragam, B., Ravikumar, P. and Xing, E. P. (2020). Learning sparse nonparametric DAGs.
    Ng, I., Fang, Z., Zhu, S., Chen, Z. and Wang, J. (2019). Masked gradient-based causal structure learning.

    Examples
    --------
    >>> from polydag import metrics, simulate
    >>> from polydag.learners.nonlinear import NotearsMLP
    >>> dag = simulate.dag(4, expected_edges=3, random_state=0)
    >>> model = NotearsMLP(random_state=0).fit(simulate.mlp(dag, n=300, random_state=2))
    >>> metrics.shd(true=dag, estimate=model.graph_)
    0
    """

    def __init__(
        self,
        *,
        lambda1: float = 0.02,
        lambda2: float = 0.003,
        hidden: int = 10,
        mask: Literal["gumbel"] | None = None,
        acyclicity: str = "logdet",
        threshold: float | None = None,
        knowledge: Knowledge | None = None,
        random_state: int | None = None,
    ) -> None:
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.hidden = hidden
        self.mask = mask
        self.acyclicity = acyclicity
        self.threshold = threshold
        self.knowledge = knowledge
        self.random_state = random_state

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a DataFrame, an array or a `Table`; `y` is ignored."""
        self._check_parameters()
        if is_statistics(X):
            raise UsageError(
                "Neural networks need rows, not statistics. Give the table, or use Notears, which is linear."
            )
        data = getattr(X, "frame", X)
        rows, found = numeric_rows(data)
        stats = GaussianStats.from_data(rows, names=found)
        gaussian_statistics(stats)  # the columns can be used at all
        masks = knowledge_masks(self.knowledge, stats.names)
        solution = self._solution(standard_rows(rows, stats), masks)
        self._finish(stats.names, masks, solution)
        return self

    def _check_parameters(self) -> None:
        if self.acyclicity not in ACYCLICITY:
            raise UsageError(f"acyclicity must be one of {', '.join(ACYCLICITY)}; got {self.acyclicity!r}.")
        if self.mask not in (None, "gumbel"):
            raise UsageError(f"mask must be None or 'gumbel'; got {self.mask!r}.")
        for name in ("lambda1", "lambda2", "threshold"):
            value = getattr(self, name)
            if value is None and name == "threshold":
                continue
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (number and value >= 0 and np.isfinite(value)):
                raise UsageError(f"{name} must be a number that is not negative; got {value!r}.")
        if isinstance(self.hidden, bool) or not isinstance(self.hidden, int) or self.hidden < 1:
            raise UsageError(f"hidden must be a whole number of at least 1; got {self.hidden!r}.")

    def _solution(self, rows: Any, masks: Masks) -> Solution:
        measure = ACYCLICITY[self.acyclicity]()
        solve = solve_mlp if self.mask is None else solve_masked
        return solve(rows, self.hidden, self.lambda1, self.lambda2, measure, masks, self.random_state)

    def _finish(self, names: tuple[str, ...], masks: Masks, solution: Solution) -> None:
        usual = 0.2 if self.mask is None else 0.5
        threshold = usual if self.threshold is None else self.threshold
        kept, removed = threshold_graph(solution.strength, masks.required, threshold)
        strength = solution.strength
        self._keep(
            Graph(kept, names, np.where(kept, strength, 0.0)),
            raw_weights=strength,
            history=solution.stages,
            pruned=[(Edge(names[i], names[j], float(strength[i, j])), why) for i, j, why in removed],
            converged=solution.converged,
            n_iter=solution.n_iter,
        )
        if not self.converged_:
            warnings.warn(
                f"Nonlinear NOTEARS stopped before its tolerance (h = {solution.h:.1e}); the graph is "
                "acyclic all the same. Rescale the columns or raise lambda1 or lambda2.",
                ConvergenceWarning,
                stacklevel=3,
            )
