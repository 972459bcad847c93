"""Gaussian DAGs of linked rows: with a known order of the variables, or in turns with the row correlation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone

from polydag.arrays import Array, Index, Mask
from polydag.errors import ConvergenceWarning, DataError, DataWarning, UsageError
from polydag.graph import Edge, Graph
from polydag.learners.base import StructureLearner
from polydag.learners.linked_rows.decorrelator import RowCorrelation
from polydag.learners.search.boss import BOSS
from polydag.losses import LeastSquares
from polydag.parameters import Either, number, one_of, whole
from polydag.regression import fit_graph
from polydag.rows.decorrelation import Decorrelation
from polydag.rows.descent.block_descent import Problem
from polydag.rows.descent.lambda_path import PATIENCE, Path, bic, lambda_path
from polydag.rows.estimate import RowEstimate, along_a_path, given_dag, means_of, scaled_problem
from polydag.rows.linked_table import LinkedTable
from polydag.sources.interface import Source
from polydag.sources.linked_rows import LinkedRows
from polydag.stats import GaussianStats


class _Round(NamedTuple):
    """One round of decorrelation and learning; the criterion is that of the graph with its own Θ."""

    round: int
    n_edges: int
    changed_edges: int
    effective_n: float
    criterion: float


class _Turn(NamedTuple):
    """A fitted learner, the decorrelation and error variances that go with its graph, and the BIC of all."""

    model: Any
    decorrelation: Decorrelation
    variances: Array
    criterion: float


class LinkedRowsDAG(RowCorrelation, StructureLearner):
    """Gaussian DAGs when individuals are connected, estimated jointly with the correlation of the rows.

    With a known `order` of the variables, block coordinate descent estimates DAG and row correlation together
    (Algorithm 1 of the paper). Without one, decorrelation and learning alternate: the rows are decorrelated,
    a learner for independent rows finds a graph, the graph gives another estimate of the row correlation, and
    so on as long as the BIC of both decreases. For a single round, fit any learner to `LinkedRows`.

    Parameters
    ----------
    order : sequence of names, optional
        All variables, causes before effects.
    learner : estimator, optional
        The learner for the decorrelated rows, for an unknown order; `BOSS()` by default.
    lambda_ : float or "bic"
        λ1, the penalty on the edges for standardised columns, for a known order.
    threshold : float or "ebic"
        Which edges are too weak, for a known order: those with weights below a number, for standardised
        columns; or those whose removal lowers the extended BIC.
    extended : bool
        Whether the choice of λ1 counts the entries of Θ as well.
    max_rounds : int
        The largest number of rounds of decorrelation and learning, for an unknown order.
    random_state : int, optional
        Accepted by every learner; nothing is random here. The row correlation has a seed of its own.

    Attributes
    ----------
    decorrelation_ : Decorrelation
        The correlation of the rows that goes with `graph_`.
    lambda_used_ : float
        λ1 of the result (known order).
    stopped_ : str
        Why the path of λ1 ended early, if it did because of too many edges (known order).
    learner_ : estimator
        The fitted learner (unknown order).
    error_variances_ : Series
        The variance ω² of each variable's errors, given its parents.

    References
    ----------
    Li, H., Padilla, O. H. M. and Zhou, Q. (2024). Learning Gaussian DAGs from network data. Journal of
    Machine Learning Research 25, 1–52.

    Examples
    --------
    >>> from polydag import LinkedRows, LinkedRowsDAG, metrics, simulate
    >>> dag = simulate.dag(40, n_edges=40, random_state=0)
    >>> schools = simulate.clusters("equi", 200, 5, base=0.7)
    >>> X = simulate.linked(dag, row_covariance=schools, random_state=1)
    >>> pupils = LinkedRows(X, groups=[row // 5 for row in range(200)])
    >>> model = LinkedRowsDAG(order=dag.topological_order()).fit(pupils)
    >>> metrics.shd(true=dag, estimate=model.graph_)
    0
    """

    constraints = {  # noqa: RUF012
        "lambda_": Either(number(least=0), one_of("bic")),
        "threshold": Either(number(least=0), one_of("ebic")),
        "max_rounds": whole(least=1),
    }

    lambda_used_: float

    def __init__(
        self,
        *,
        order: Sequence[str] | None = None,
        learner: Any = None,
        lambda_: float | Literal["bic"] = "bic",
        threshold: float | Literal["ebic"] = "ebic",
        extended: bool = False,
        max_rounds: int = 10,
        random_state: int | None = None,
    ) -> None:
        self.order = order
        self.learner = learner
        self.lambda_ = lambda_
        self.threshold = threshold
        self.extended = extended
        self.max_rounds = max_rounds
        self.random_state = random_state

    def _fit(self, source: Source) -> None:
        if self.order is not None and self.learner is not None:
            raise UsageError("Give an order, or a learner for an unknown order, not both.")
        if not isinstance(source, LinkedRows):
            raise UsageError(
                "LinkedRowsDAG learns from LinkedRows(table, groups=…), which says how the rows are linked; "
                f"got {source.described}."
            )
        labels = [name for name, kind in source.kinds.items() if kind == "discrete"]
        if labels := [*source.latent, *labels]:
            raise UsageError(
                f"LinkedRowsDAG learns from numbers, and {', '.join(labels)} are labels. Fit BOSS, GES, PC "
                "or a posterior to the linked rows."
            )
        if source.table.was_set is not None:
            raise UsageError(
                "LinkedRowsDAG does not use interventions. Fit BOSS, GES or BayesianDiscovery to the linked "
                "rows."
            )
        if self.order is not None:
            self._fit_ordered(source)
        else:
            self._fit_in_turns(source)

    def _fit_ordered(self, rows: LinkedRows) -> None:
        table = rows.table
        problem, scale, known = _problem(rows, along_path=True)
        order = _places(self.order or (), table.names)
        own = problem.reordered(order)
        number_ = None if self.lambda_ == "bic" else float(self.lambda_)
        path = lambda_path(
            own,
            smallest=number_,
            patience=PATIENCE if number_ is None else None,
            extended=self.extended,
            precision=None if _joint(known) else known.precision,
        )
        chosen = path.best if number_ is None else len(path.fits) - 1
        fit = path.fits[chosen]
        self.stopped_ = path.crowded
        if path.crowded and chosen == len(path.fits) - 1:  # so that it may have decided the result
            warnings.warn(path.crowded, DataWarning, stacklevel=4)
        back = np.argsort(order)
        B = fit.weights[np.ix_(back, back)]
        G = fit.G[np.ix_(back, back)]
        kept, weights = self._edges(
            B, GaussianStats(len(own.X), np.zeros(len(B)), G, table.names, len(own.X))
        )
        units = scale[None, :] / scale[:, None]
        names = table.names
        self.decorrelation_ = Decorrelation(
            table, replace(known, precision=fit.precision), means_of(problem, fit.precision) * scale
        )
        T = np.eye(len(B)) - weights
        self._keep_variances(np.einsum("ij,ik,kj->j", T, G, T) / len(own.X) * scale**2, names)
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
                "raise lambda_ or free.lambda2.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _edges(self, B: Array, stats: GaussianStats) -> tuple[Mask, Array]:
        """Which edges stay, and their least-squares weights (of standardised, decorrelated columns)."""
        loss = LeastSquares.from_stats(stats)
        if self.threshold == "ebic":
            nothing = np.zeros(B.shape, dtype=bool)
            weights, _ = fit_graph(loss, B != 0, nothing, 1.0)
            return weights != 0, weights
        kept = np.abs(B) > float(self.threshold)
        weights, _ = fit_graph(loss, kept, kept, None)
        return kept, weights

    def _fit_in_turns(self, rows: LinkedRows) -> None:
        table = rows.table
        problem, scale, known = _problem(rows)
        model = self._learn(rows)
        best: _Turn | None = None
        rounds: list[_Round] = []
        settled = no_dag = False
        before = np.zeros_like(model.graph_.adjacency)
        while len(rounds) < self.max_rounds:
            turn = _turn(problem, scale, table, model, known)
            if turn is None:
                no_dag = True
                break
            changed = before != model.graph_.adjacency
            rounds.append(
                _Round(
                    len(rounds) + 1,
                    model.graph_.n_edges,
                    int(np.triu(changed | changed.T).sum()),
                    turn.decorrelation.precision.effective_n,
                    turn.criterion,
                )
            )
            if best is not None and not turn.criterion < best.criterion:
                settled = True  # neither another graph nor another Θ is better
                break
            best = turn
            before = model.graph_.adjacency
            model = self._learn(rows.decorrelated_by(turn.decorrelation))
        if best is None:
            best = _Turn(model, rows.decorrelation_, np.full(len(table.names), np.nan), np.nan)
        self.learner_, self.decorrelation_ = best.model, best.decorrelation
        self._keep_variances(best.variances, table.names)
        self._keep(
            best.model.graph_,
            raw_weights=getattr(best.model, "raw_weights_", best.model.graph_.weights),
            history=rounds,
            pruned=[],
            converged=bool(getattr(best.model, "converged_", True)) and settled,
            n_iter=len(rounds),
        )
        if not settled:
            warnings.warn(
                "The learned graph is that of no DAG, so the rounds ended with it."
                if no_dag
                else f"Graph and row correlation were still improving after {len(rounds)} rounds; raise "
                "max_rounds, or fit the learner to LinkedRows for a single round.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _keep_source(self, source: Any) -> None:
        """What is said of the rows is said of the correlation that goes with the graph."""
        super()._keep_source(source.decorrelated_by(self.decorrelation_))

    def _keep_variances(self, variances: Array, names: Sequence[str]) -> None:
        import pandas as pd

        self.error_variances_ = pd.Series(variances, index=list(names))

    def _learn(self, rows: LinkedRows) -> Any:
        learner = BOSS() if self.learner is None else clone(self.learner)
        return learner.fit(rows)


def _problem(rows: LinkedRows, *, along_path: bool = False) -> tuple[Problem, Array, RowEstimate]:
    """The estimation problem of the rows, with columns of unit variance, the scales, and Θ without a DAG.

    What is estimated along a path in any case is not estimated before it.
    """
    settings = rows.settings
    problem, scale = scaled_problem(rows.table, settings["free"].lambda2, settings["n_jobs"])
    free = settings["structure"] == "free" and settings["correlation"] is None
    if along_path and free and rows.table.links.n_links:
        return problem, scale, along_a_path(problem, rows.table)
    known = rows.decorrelation_.estimate
    if known.structure == "free":
        problem = replace(problem, lambda2=known.parameters["lambda2"])
    return problem, scale, known


def _joint(known: RowEstimate) -> bool:
    """Whether Θ is estimated along the path, as in the paper: one entry for each link, and nothing else."""
    return known.structure == "free" and known.parameters["own"] == 0.0


def _places(order: Sequence[str], names: tuple[str, ...]) -> Index:
    given = [str(name) for name in order]
    if unknown := [name for name in given if name not in set(names)]:
        raise DataError(f"The order names {', '.join(unknown)}, which the data does not have.")
    if lost := [name for name in names if name not in set(given)]:
        raise DataError(f"The order lacks {', '.join(lost)}. Name every variable, causes before effects.")
    if len(given) > len(names):
        twice = next(name for name in given if given.count(name) > 1)
        raise DataError(f"The order names {twice} twice.")
    return np.array([names.index(name) for name in given], dtype=np.int64)


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


def _turn(problem: Problem, scale: Array, table: LinkedTable, model: Any, known: RowEstimate) -> _Turn | None:
    """The maximum-likelihood Θ given a fitted learner's graph, and the BIC of both; None without a DAG."""
    graph: Graph = model.graph_
    try:
        dag: Graph = model.dag_ if hasattr(model, "dag_") else graph.to_dag()
    except DataError:  # PC may end with a graph that no DAG has
        return None
    order = [dag.index(name) for name in dag.topological_order()]
    fit, found = given_dag(problem, dag.adjacency, order, known)
    means = means_of(problem, found.precision) * scale
    variances = np.empty(len(order))
    variances[order] = 1.0 / fit.state.rho**2
    criterion = bic(problem.reordered(np.array(order)), fit)
    return _Turn(model, Decorrelation(table, found, means), variances * scale**2, criterion)
