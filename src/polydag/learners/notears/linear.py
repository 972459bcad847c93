"""Linear NOTEARS, from sufficient statistics."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from polydag.acyclicity import ACYCLICITY
from polydag.errors import ConvergenceWarning, UsageError
from polydag.graph import Edge, Graph
from polydag.knowledge import Knowledge, Masks, joined, knowledge_masks
from polydag.learners.base import StructureLearner
from polydag.learners.held_out import HeldOutScore
from polydag.losses import LeastSquares
from polydag.metrics import shd, varsortability
from polydag.optimize.notears import Solution, lambda_path, solve, solve_path
from polydag.optimize.pruning import Pruned, Threshold, best_of, prune
from polydag.optimize.stability_selection import stable_lambda
from polydag.parameters import Constraint, Either, Instance, key_of, number, one_of, optional
from polydag.sources.checked import gaussian_statistics
from polydag.sources.given import Given
from polydag.sources.interface import Source
from polydag.stats import GaussianStats, Regimes
from polydag.stats.regimes import rescaled


class Notears(HeldOutScore, StructureLearner):
    """Linear NOTEARS: least squares with an ℓ1 penalty over acyclic weights.

    The method needs only `GaussianStats`, so the rows may come from a table, a stream or a sum over parties.
    With `Regimes`, a variable is not scored on rows in which it was intervened on. The result is always a
    DAG.

    Parameters
    ----------
    lambda_ : float or {"bic", "stability"}
        The ℓ1 penalty. "bic" chooses the penalty on a path whose graph has the lowest extended BIC.
        "stability" chooses the one whose graph varies least over random halves of the rows (after StARS);
        this needs rows.
    acyclicity : {"logdet", "expm"}
        The acyclicity function.
    threshold : float, "ebic" or "bic"
        Which weights are too small to be edges. A number is in the units of the data. "ebic" removes edges
        while the extended BIC decreases, and does not depend on units; "bic" does so with Schwarz's
        criterion, which keeps more edges.
    knowledge : Knowledge, optional
        Required and forbidden edges, and tiers.
    random_state : int, optional
        The seed of the random halves for "stability".

    Attributes
    ----------
    lambda_used_ : float
        The penalty of the result.
    threshold_ : float
        The smallest absolute weight in the graph; 0 if it has no edges.
    criterion_ : float
        The extended BIC of the graph.
    varsortability_ : float
        How closely the graph follows the order of the variances; NaN if it has no edges. Near 1, the
        directions may reflect the units of the columns rather than causes.

    Notes
    -----
    Least squares compares residual variances across columns in their own units, so directions depend on the
    scales: `standardized_difference()` is the number of edges that change when columns are standardised.
    `weights_` are the least-squares coefficients given the graph; `raw_weights_` are the penalised ones.

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

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "lambda_": Either(one_of("bic", "stability"), number(least=0)),
        "acyclicity": key_of(ACYCLICITY),
        "threshold": Either(one_of("ebic", "bic"), number(least=0)),
        "knowledge": optional(Instance(Knowledge, "a polydag.Knowledge")),
    }

    lambda_used_: float
    threshold_: float
    criterion_: float
    varsortability_: float
    _masks: Masks

    def __init__(
        self,
        *,
        lambda_: float | Literal["bic", "stability"] = "bic",
        acyclicity: str = "logdet",
        threshold: Threshold = "ebic",
        knowledge: Knowledge | None = None,
        random_state: int | None = None,
    ) -> None:
        self.lambda_ = lambda_
        self.acyclicity = acyclicity
        self.threshold = threshold
        self.knowledge = knowledge
        self.random_state = random_state

    def _fit(self, source: Source) -> None:
        stats = gaussian_statistics(source)
        masks = knowledge_masks(joined(self.knowledge, source.knowledge), stats.names)
        self._masks = masks
        loss = LeastSquares.from_stats(stats)
        solutions = self._solutions(source, loss, masks)
        pruned = [prune(loss, solution.W, masks, self.threshold) for solution in solutions]
        best = best_of(loss, pruned)
        self._store(stats, loss, masks, solutions, best, pruned[best])

    def _solutions(self, source: Source, loss: LeastSquares, masks: Masks) -> list[Solution]:
        measure = ACYCLICITY[self.acyclicity]()
        if self.lambda_ == "bic":
            return list(solve_path(loss, lambda_path(loss), measure, masks))
        if self.lambda_ == "stability":
            chosen = stable_lambda(
                source.rows(), lambda_path(loss), measure, masks, self.threshold, self.random_state
            )
        else:
            chosen = float(self.lambda_)
        return [solve(loss, chosen, measure, masks)]

    def standardized_difference(self) -> int:
        """In how many edges the graph of the same columns, standardised, differs from the fitted one."""
        check_is_fitted(self)
        if self.lambda_ == "stability":
            raise UsageError(
                "lambda_='stability' needs rows; standardise them and fit again, then compare by metrics.shd."
            )
        stats = self._moments
        spread = np.sqrt(_pooled(stats).covariance.diagonal())
        loss = LeastSquares.from_stats(rescaled(stats, spread))
        solutions = self._solutions(Given(stats), loss, self._masks)
        pruned = [prune(loss, solution.W, self._masks, self.threshold) for solution in solutions]
        weights = pruned[best_of(loss, pruned)].weights
        again = Graph((weights != 0) | self._masks.required, self.graph_.names)
        return shd(true=self.graph_, estimate=again)

    def _store(
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
        self.varsortability_ = varsortability(true=graph, stats=_pooled(stats)) if graph.n_edges else np.nan
        self._keep(
            graph,
            raw_weights=solution.W,
            history=[stage for each in solutions for stage in each.stages],
            pruned=removed,
            converged=solution.converged,
            n_iter=sum(each.n_iter for each in solutions),
            stats=stats,
        )
        if not self.converged_:
            warnings.warn(
                f"NOTEARS did not converge at λ = {solution.lambda_:.3g} (h = {solution.h:.1e}). The graph "
                "is acyclic nevertheless. Rescale the columns or increase lambda_.",
                ConvergenceWarning,
                stacklevel=4,
            )


def _pooled(stats: GaussianStats | Regimes[GaussianStats]) -> GaussianStats:
    """The statistics of all rows, over all regimes."""
    if isinstance(stats, GaussianStats):
        return stats
    first, *rest = stats.parts.values()
    return sum(rest, start=first)
