"""NOTEARS on sufficient statistics."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np

from polydag.acyclicity import ACYCLICITY
from polydag.errors import ConvergenceWarning, UsageError
from polydag.graph import Edge, Graph
from polydag.knowledge import Knowledge, Masks
from polydag.learners.base import StructureLearner
from polydag.learners.inputs import gaussian_statistics, knowledge_masks
from polydag.losses import LeastSquares
from polydag.metrics import varsortability
from polydag.optimize.notears import Solution, lambda_path, solve, solve_path
from polydag.optimize.pruning import Pruned, best_of, prune
from polydag.optimize.stability_selection import stable_lambda
from polydag.stats import GaussianStats, Regimes


class Notears(StructureLearner):
    """Linear NOTEARS: least squares with an ℓ1 penalty over acyclic weights.

    Works on `GaussianStats`, so rows may come from a table, a stream or a sum over parties; with `Regimes`, a
    variable that was set in a row is not scored by that row. The result is always a DAG.

    Parameters
    ----------
    lambda_ : float or {"bic", "stability"}
        The ℓ1 penalty. "bic" takes the one of a path whose graph has the lowest extended BIC, "stability"
        the one whose graph changes least over random halves of the rows (after StARS; needs rows).
    acyclicity : {"logdet", "expm"}
        The function that measures cycles.
    threshold : float or "ebic"
        Which weights are too small to be edges: those below a number, in the data's units; or those without
        which the extended BIC is lower, whatever the units.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    random_state : int, optional
        For the random halves of "stability".

    Attributes
    ----------
    lambda_used_ : float
        The penalty of the result.
    threshold_ : float
        The smallest absolute weight in the graph (0 without edges).
    criterion_ : float
        The extended BIC of the graph.
    varsortability_ : float
        How far the graph follows the order of the variances. Near 1, the directions may say more about
        the columns' units than about causes; NaN without edges.

    Notes
    -----
    Least squares compares residual variances across columns in their own units, so directions depend on the
    scales. `weights_` are least-squares coefficients given the graph; `raw_weights_` are the penalised ones.

    References
    ----------
    Zheng, X., Aragam, B., Ravikumar, P. and Xing, E. P. (2018). DAGs with NO TEARS.
    Bello, K., Aragam, B. and Ravikumar, P. (2022). DAGMA.
    Liu, H., Roeder, K. and Wasserman, L. (2010). Stability approach to regularization selection.
    Reisach, A., Seiler, C. and Weichwald, S. (2021). Beware of the simulated DAG!

    Examples
    --------
    >>> from polydag import Notears, metrics, simulate
    >>> dag = simulate.dag(10, expected_edges=20, random_state=0)
    >>> model = Notears().fit(simulate.linear(dag, n=1000, random_state=1))
    >>> metrics.shd(true=dag, estimate=model.graph_)
    0
    """

    lambda_used_: float
    threshold_: float
    criterion_: float
    varsortability_: float

    def __init__(
        self,
        *,
        lambda_: float | Literal["bic", "stability"] = "bic",
        acyclicity: str = "logdet",
        threshold: float | Literal["ebic"] = "ebic",
        knowledge: Knowledge | None = None,
        random_state: int | None = None,
    ) -> None:
        self.lambda_ = lambda_
        self.acyclicity = acyclicity
        self.threshold = threshold
        self.knowledge = knowledge
        self.random_state = random_state

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a DataFrame, an array, a `Table`, or statistics; `y` is ignored."""
        self._check_parameters()
        stats = gaussian_statistics(X)
        masks = knowledge_masks(self.knowledge, stats.names)
        loss = LeastSquares.from_stats(stats)
        solutions = self._solutions(X, loss, masks)
        pruned = [prune(loss, solution.W, masks, self.threshold) for solution in solutions]
        best = best_of(loss, pruned)
        self._finish(stats, loss, masks, solutions, best, pruned[best])
        return self

    def _check_parameters(self) -> None:
        if self.acyclicity not in ACYCLICITY:
            raise UsageError(f"acyclicity must be one of {', '.join(ACYCLICITY)}; got {self.acyclicity!r}.")
        for name, words in (("lambda_", ("bic", "stability")), ("threshold", ("ebic",))):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (value >= 0 and np.isfinite(value) if number else value in words):
                allowed = " or ".join(repr(word) for word in words)
                raise UsageError(
                    f"{name} must be {allowed}, or a number that is not negative; got {value!r}."
                )

    def _solutions(self, X: Any, loss: LeastSquares, masks: Masks) -> list[Solution]:
        measure = ACYCLICITY[self.acyclicity]()
        if self.lambda_ == "bic":
            return list(solve_path(loss, lambda_path(loss), measure, masks))
        if self.lambda_ == "stability":
            if isinstance(X, (GaussianStats, Regimes)):
                raise UsageError(
                    "lambda_='stability' draws halves of the rows, so it needs rows, not statistics."
                )
            rows = getattr(X, "frame", X)
            chosen = stable_lambda(rows, lambda_path(loss), measure, masks, self.threshold, self.random_state)
        else:
            chosen = float(self.lambda_)
        return [solve(loss, chosen, measure, masks)]

    def _finish(
        self,
        stats: GaussianStats | Regimes[GaussianStats],
        loss: LeastSquares,
        masks: Masks,
        solutions: list[Solution],
        best: int,
        result: Pruned,
    ) -> None:
        solution = solutions[best]
        graph = Graph((result.weights != 0) | masks.required, stats.names, result.weights)
        names = stats.names
        removed = [(Edge(names[i], names[j], float(solution.W[i, j])), why) for i, j, why in result.removed]
        self.lambda_used_ = solution.lambda_
        self.threshold_ = float(np.abs(graph.weights[graph.adjacency]).min()) if graph.n_edges else 0.0
        self.criterion_ = result.criterion
        follows = varsortability(true=graph, stats=_observed(stats)) if graph.n_edges else np.nan
        self.varsortability_ = follows
        self._keep(
            graph,
            raw_weights=solution.W,
            history=[stage for each in solutions for stage in each.stages],
            pruned=removed,
            converged=solution.converged,
            n_iter=sum(each.n_iter for each in solutions),
        )
        if not self.converged_:
            warnings.warn(
                f"NOTEARS stopped before its tolerance at λ = {solution.lambda_:.3g} (h = {solution.h:.1e}); "
                "the graph is acyclic all the same. Rescale the columns or raise lambda_.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _observed(stats: GaussianStats | Regimes[GaussianStats]) -> GaussianStats:
    """The statistics of all rows."""
    if isinstance(stats, GaussianStats):
        return stats
    first, *rest = stats.parts.values()
    return sum(rest, start=first)
