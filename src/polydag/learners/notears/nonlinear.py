"""NOTEARS with neural networks."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from polydag.acyclicity import ACYCLICITY
from polydag.arrays import Array
from polydag.computing.checkpoint import piece
from polydag.errors import ConvergenceWarning
from polydag.graph import Edge, Graph
from polydag.knowledge import Knowledge, Masks, joined, knowledge_masks
from polydag.learners.base import StructureLearner
from polydag.optimize.network_choice import PROBABILITY, SLOPE, network_bic, penalty_path
from polydag.optimize.nonlinear import Solution, solve_masked, solve_mlp, standard_rows
from polydag.optimize.pruning import threshold_graph
from polydag.parameters import Constraint, Either, Instance, key_of, number, one_of, optional, whole
from polydag.sources.checked import gaussian_statistics
from polydag.sources.interface import Source
from polydag.stats import GaussianStats
from polydag.stats.rows import numeric_rows


class NotearsMLP(StructureLearner):
    """Nonlinear NOTEARS: each variable is a small neural network of its parents, plus noise.

    The method needs rows, because there are no sufficient statistics. The result is always a DAG.

    Parameters
    ----------
    lambda_ : float or "bic"
        The sparsity penalty: ℓ1 on the first-layer weights or, with a mask, on the edge probabilities. "bic"
        chooses the penalty on a path whose graph has the lowest BIC.
    lambda2 : float
        The ℓ2 penalty on all network parameters.
    hidden : int
        The number of hidden units in each variable's network.
    mask : {None, "gumbel"}
        How edges are defined: None by the slopes of the networks, "gumbel" by edge probabilities, learned as
        a mask on the inputs of the networks.
    acyclicity : {"logdet", "expm"}
        The acyclicity function.
    threshold : float, optional
        Effects weaker than this are not edges. By default 0.2 for slopes and 0.5 for probabilities.
    knowledge : Knowledge, optional
        Required and forbidden edges, and tiers.
    random_state : int, optional
        The seed of the starting values and of the mask's noise.

    Attributes
    ----------
    lambda_used_ : float
        The penalty of the result.
    criterion_ : float
        The BIC of the graph, counting each edge as eight parameters.

    Notes
    -----
    `weights_` and `raw_weights_` are non-negative strengths: the root mean square slope of a variable with
    respect to its parent (for a linear effect, the absolute weight), or an edge probability. Columns are
    centred and divided by a common number, the standard deviation of a typical error. A common unit therefore
    does not matter, but relative scales do: least squares assumes errors of similar size in all columns. If
    that holds, the scales identify the directions, and standardising each column would cost much of the
    accuracy. If the units are unrelated, standardise first and rely less on the directions.

    References
    ----------
    Zheng, X., Dan, C., Aragam, B., Ravikumar, P. and Xing, E. P. (2020). Learning sparse nonparametric DAGs.
    Ng, I., Fang, Z., Zhu, S., Chen, Z. and Wang, J. (2019). Masked gradient-based causal structure learning.

    Examples
    --------
    >>> from polydag import metrics, simulate
    >>> from polydag.learners.notears.nonlinear import NotearsMLP
    >>> dag = simulate.dag(4, expected_edges=3, random_state=0)
    >>> model = NotearsMLP(random_state=0).fit(simulate.mlp(dag, n=300, random_state=2))
    >>> metrics.shd(true=dag, estimate=model.graph_)
    0
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "lambda_": Either(one_of("bic"), number(least=0)),
        "lambda2": number(least=0),
        "hidden": whole(least=1),
        "mask": optional(one_of("gumbel")),
        "acyclicity": key_of(ACYCLICITY),
        "threshold": optional(number(least=0)),
        "knowledge": optional(Instance(Knowledge, "a polydag.Knowledge")),
    }

    lambda_used_: float
    criterion_: float

    def __init__(
        self,
        *,
        lambda_: float | Literal["bic"] = "bic",
        lambda2: float = 0.003,
        hidden: int = 10,
        mask: Literal["gumbel"] | None = None,
        acyclicity: str = "logdet",
        threshold: float | None = None,
        knowledge: Knowledge | None = None,
        random_state: int | None = None,
    ) -> None:
        self.lambda_ = lambda_
        self.lambda2 = lambda2
        self.hidden = hidden
        self.mask = mask
        self.acyclicity = acyclicity
        self.threshold = threshold
        self.knowledge = knowledge
        self.random_state = random_state

    def _fit(self, source: Source) -> None:
        rows, found = numeric_rows(source.rows())
        stats = GaussianStats.from_data(rows, names=found)
        gaussian_statistics(stats)  # checks that the columns are usable
        masks = knowledge_masks(joined(self.knowledge, source.knowledge), stats.names)
        solutions = self._solutions(standard_rows(rows, stats), masks)
        self._store(stats.names, masks, len(rows), solutions)

    def _solutions(self, rows: Array, masks: Masks) -> list[Solution]:
        measure = ACYCLICITY[self.acyclicity]()
        solve = solve_mlp if self.mask is None else solve_masked
        n, d = rows.shape
        lambdas = penalty_path(d, n) if self.lambda_ == "bic" else [float(self.lambda_)]
        known = masks.required.tobytes() + masks.forbidden.tobytes()
        parameters = repr(self.get_params()).encode()
        fingerprint = hashlib.sha256(parameters + known + rows.tobytes()).hexdigest()[:16]

        def solved(lambda_: float) -> Solution:
            def compute() -> dict[str, NDArray[np.generic]]:
                chosen = (self.hidden, lambda_, self.lambda2, measure, masks, self.random_state)
                return solve(rows, *chosen).to_arrays()

            return Solution.from_arrays(piece(f"networks {lambda_!r} {fingerprint}", compute))

        return [solved(lambda_) for lambda_ in lambdas]

    def _store(self, names: tuple[str, ...], masks: Masks, n: int, solutions: list[Solution]) -> None:
        default = SLOPE if self.mask is None else PROBABILITY
        threshold = default if self.threshold is None else self.threshold
        graphs = [threshold_graph(each.strength, masks.required, threshold) for each in solutions]
        criteria = [
            network_bic(each.residuals, n, int(kept.sum()), self.hidden)
            for each, (kept, _) in zip(solutions, graphs, strict=True)
        ]
        best = int(np.argmin(criteria))
        solution, (kept, removed) = solutions[best], graphs[best]
        self.lambda_used_, self.criterion_ = solution.lambda_, criteria[best]
        strength = solution.strength
        self._keep(
            Graph(kept, names, np.where(kept, strength, 0.0)),
            raw_weights=strength,
            history=[stage for each in solutions for stage in each.stages],
            pruned=[(Edge(names[i], names[j], float(strength[i, j])), why) for i, j, why in removed],
            converged=solution.converged,
            n_iter=sum(each.n_iter for each in solutions),
        )
        if not self.converged_:
            warnings.warn(
                f"Nonlinear NOTEARS did not converge (h = {solution.h:.1e}). The graph is acyclic "
                "nevertheless. Rescale the columns, or increase lambda_ or lambda2.",
                ConvergenceWarning,
                stacklevel=4,
            )
