"""Gaussian DAGs of linked rows, with a known order of the variables or without."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from polydag.errors import ConvergenceWarning, DataError, DataWarning, UsageError
from polydag.graph import Edge, Graph
from polydag.learners.base import StructureLearner
from polydag.learners.decorrelation import RowCorrelation, RowDecorrelator, decorrelated
from polydag.learners.ges import GES
from polydag.losses import LeastSquares
from polydag.regression import fit_graph
from polydag.rows.block_descent import LAMBDA2, Problem
from polydag.rows.estimate import given_dag, means_of, residuals, scaled_problem, unpenalised
from polydag.rows.lambda_path import PATIENCE, Path, bic, lambda_path
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import RowPrecision
from polydag.stats import GaussianStats

Array = NDArray[np.float64]


class _Round(NamedTuple):
    """One round of decorrelation and learning; the criterion is that of the graph with its own Θ."""

    round: int
    n_edges: int
    changed_edges: int
    effective_n: float
    criterion: float


class _Turn(NamedTuple):
    """A fitted learner, with Θ and the residuals that go with its graph."""

    model: Any
    precision: RowPrecision
    residuals: Array
    criterion: float


class LinkedRowsDAG(RowCorrelation, StructureLearner):
    """Gaussian DAGs when individuals are connected.

    With a known `order` of the variables, block coordinate descent estimates DAG and row correlation jointly.
    Without, the rows are decorrelated and any learner for independent rows does the rest; with `max_rounds`
    above 1 its graph gives another estimate of the row correlation, with which it learns again, and so on
    while the BIC of both falls. A learner that searches over orders is `BOSS`.

    Parameters
    ----------
    links, covariates, structure, lambda2, n_permutations, random_state, n_jobs
        As for `RowDecorrelator`.
    order : sequence of names, optional
        All variables, causes before effects.
    learner : estimator, optional
        For an unknown order; `GES()` by default.
    lambda_ : float or "bic"
        λ1, the penalty on the edges for standardised columns, for a known order.
    threshold : float or "ebic"
        Which edges are too weak, for a known order: those with weights below a number, of standardised
        columns; or those without which the extended BIC is lower.
    extended : bool
        Whether the choice of λ1 counts the entries of Θ as well.
    max_rounds : int
        How often decorrelation and learning alternate at most, for an unknown order.

    Attributes
    ----------
    lambda_used_ : float
        λ1 of the result (known order).
    stopped_ : str
        Why the path of λ1 ended early, where too many edges made it (known order).
    learner_ : estimator
        The fitted learner (unknown order).

    References
    ----------
    Li, H. and Zhou, Q. (2019). Gaussian DAGs on network data.

    Examples
    --------
    >>> from polydag import metrics, simulate
    >>> dag = simulate.dag(40, n_edges=40, random_state=0)
    >>> schools = simulate.clusters("equi", 200, 5, base=0.7)
    >>> X = simulate.linked(dag, row_covariance=schools, random_state=1)
    >>> school = [row // 5 for row in range(200)]
    >>> model = LinkedRowsDAG(school, order=dag.topological_order()).fit(X)
    >>> metrics.shd(true=dag, estimate=model.graph_)
    0
    """

    lambda_used_: float

    def __init__(
        self,
        links: Any = None,
        *,
        order: Sequence[str] | None = None,
        learner: Any = None,
        lambda_: float | Literal["bic"] = "bic",
        threshold: float | Literal["ebic"] = "ebic",
        covariates: Any = None,
        structure: str = "auto",
        lambda2: float = LAMBDA2,
        extended: bool = False,
        n_permutations: int = 5,
        max_rounds: int = 1,
        random_state: int | None = None,
        n_jobs: int = 1,
    ) -> None:
        self.links = links
        self.order = order
        self.learner = learner
        self.lambda_ = lambda_
        self.threshold = threshold
        self.covariates = covariates
        self.structure = structure
        self.lambda2 = lambda2
        self.extended = extended
        self.n_permutations = n_permutations
        self.max_rounds = max_rounds
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a DataFrame or an array with one line for each row of the network; `y` is ignored."""
        self._check_parameters()
        table = LinkedTable.of(X, self.links, self.covariates)
        scaled = scaled_problem(table, self.structure, self.lambda2, self.n_jobs)
        if self.order is not None:
            self._fit_ordered(table, *scaled)
        else:
            self._fit_unordered(table, scaled)
        return self

    def _check_parameters(self) -> None:
        if self.order is not None and self.learner is not None:
            raise UsageError("Give an order, or a learner for an unknown order, not both.")
        for name, word in (("lambda_", "bic"), ("threshold", "ebic")):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (value >= 0 and np.isfinite(value) if number else value == word):
                raise UsageError(f"{name} must be {word!r} or a number that is not negative; got {value!r}.")
        if self.max_rounds < 1:
            raise UsageError(f"max_rounds must be at least 1; got {self.max_rounds}.")

    def _fit_ordered(self, table: LinkedTable, problem: Problem, scale: Array) -> None:
        order = _places(self.order or (), table.names)
        own = problem.reordered(order)
        number = None if self.lambda_ == "bic" else float(self.lambda_)
        path = lambda_path(
            own,
            smallest=number,
            patience=PATIENCE if number is None else None,
            extended=self.extended,
            precision=unpenalised(own).precision if own.structure == "common" else None,
        )
        chosen = path.best if number is None else len(path.fits) - 1
        fit = path.fits[chosen]
        self.stopped_ = path.crowded
        if path.crowded and chosen == len(path.fits) - 1:  # so that it may have decided the result
            warnings.warn(path.crowded, DataWarning, stacklevel=3)
        back = np.argsort(order)
        B = fit.weights[np.ix_(back, back)]
        G = fit.G[np.ix_(back, back)]
        kept, weights = self._edges(
            B, GaussianStats(len(own.X), np.zeros(len(B)), G, table.names, len(own.X))
        )
        units = scale[None, :] / scale[:, None]
        names = table.names
        self._describe(problem, table, fit.precision, residuals(own, fit))
        self.lambda_used_ = path.lambdas[chosen]
        reason = "raises the extended BIC" if self.threshold == "ebic" else "below the threshold"
        removed = [
            (Edge(names[i], names[j], float(B[i, j] * units[i, j])), reason)
            for i, j in np.argwhere((B != 0) & ~kept)
        ]
        self._keep(
            Graph(kept, names, weights * units),
            raw_weights=B * units,
            history=_history(path),
            pruned=removed,
            converged=fit.converged,
            n_iter=sum(len(each.objectives) for each in path.fits),
        )
        if not fit.converged:
            warnings.warn(
                f"Block coordinate descent stopped before its tolerance at λ1 = {self.lambda_used_:.3g}; "
                "raise lambda_ or lambda2.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _edges(self, B: Array, stats: GaussianStats) -> tuple[NDArray[np.bool_], Array]:
        """Which edges stay, and their least-squares weights (of standardised, decorrelated columns)."""
        loss = LeastSquares.from_stats(stats)
        if self.threshold == "ebic":
            nothing = np.zeros(B.shape, dtype=bool)
            weights, _ = fit_graph(loss, B != 0, nothing, 1.0)
            return weights != 0, weights
        kept = np.abs(B) > float(self.threshold)
        weights, _ = fit_graph(loss, kept, kept, None)
        return kept, weights

    def _fit_unordered(self, table: LinkedTable, scaled: tuple[Problem, Array]) -> None:
        problem, scale = scaled
        first = RowDecorrelator(n_permutations=self.n_permutations, random_state=self.random_state)
        first._fit(table, scaled)
        model = self._learn(table, first.means_, first.row_precision_)
        best = _Turn(model, first.row_precision_, first.residuals_, np.inf)
        rounds: list[_Round] = []
        agreed = self.max_rounds == 1
        before = np.zeros_like(model.graph_.adjacency)
        while True:
            turn = best if self.max_rounds == 1 else _turn(problem, model)
            if turn is None:
                break
            changed = before != model.graph_.adjacency
            rounds.append(
                _Round(
                    len(rounds) + 1,
                    model.graph_.n_edges,
                    int(np.triu(changed | changed.T).sum()),
                    turn.precision.effective_n,
                    turn.criterion,
                )
            )
            if not turn.criterion < best.criterion:
                agreed = True  # neither another graph nor another Θ is better
                break
            best = turn
            if len(rounds) == self.max_rounds:
                break
            before = model.graph_.adjacency
            model = self._learn(table, means_of(problem, turn.precision) * scale, turn.precision)
        self.learner_ = best.model
        self._describe(problem, table, best.precision, best.residuals)
        self._keep(
            best.model.graph_,
            raw_weights=getattr(best.model, "raw_weights_", best.model.graph_.weights),
            history=rounds,
            pruned=[],
            converged=bool(getattr(best.model, "converged_", True)) and agreed,
            n_iter=len(rounds),
        )
        if not agreed:
            warnings.warn(
                "The learned graph is that of no DAG, so that rounds ended with it."
                if turn is None
                else f"Graph and row correlation were still getting better after {len(rounds)} rounds; raise "
                "max_rounds, or use the graph of one round (max_rounds=1).",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _learn(self, table: LinkedTable, means: Array, precision: RowPrecision) -> Any:
        rows = decorrelated(table.values, table.covariates, means, precision)
        learner = GES() if self.learner is None else clone(self.learner)
        return learner.fit(pd.DataFrame(rows, columns=list(table.names)))


def _places(order: Sequence[str], names: tuple[str, ...]) -> NDArray[np.int64]:
    told = [str(name) for name in order]
    if unknown := [name for name in told if name not in set(names)]:
        raise DataError(f"The order names {', '.join(unknown)}, which the data does not have.")
    if lost := [name for name in names if name not in set(told)]:
        raise DataError(f"The order lacks {', '.join(lost)}. Name every variable, causes before effects.")
    if len(told) > len(names):
        twice = next(name for name in told if told.count(name) > 1)
        raise DataError(f"The order names {twice} twice.")
    return np.array([names.index(name) for name in told], dtype=np.int64)


def _history(path: Path) -> list[dict[str, float]]:
    return [
        {
            "lambda_": lam,
            "n_edges": int(np.count_nonzero(fit.state.phi)),
            "criterion": criterion,
            "objective": fit.objectives[-1],
            "iterations": len(fit.objectives),
        }
        for lam, fit, criterion in zip(path.lambdas, path.fits, path.criteria, strict=True)
    ]


def _turn(problem: Problem, model: Any) -> _Turn | None:
    """The maximum-likelihood Θ given a fitted learner's graph, and the BIC of both; None without a DAG."""
    graph: Graph = model.graph_
    try:
        dag: Graph = model.dag_ if hasattr(model, "dag_") else graph.to_dag()
    except DataError:  # PC may end with a graph that no DAG has
        return None
    order = [dag.index(name) for name in dag.topological_order()]
    own = problem.reordered(np.array(order))
    fit = given_dag(problem, dag.adjacency, order)
    return _Turn(model, fit.precision, residuals(own, fit), bic(own, fit))
