"""From a table of linked rows to Θ: in a known order, in random ones, or given a DAG."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataWarning
from polydag.progress import report
from polydag.rows.block_descent import Fit, Problem, descend, gram, settled_structure
from polydag.rows.dependence import DependenceTest, column_correlations, row_dependence
from polydag.rows.lambda_path import bic, lambda_path
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import RowPrecision

Array = NDArray[np.float64]
_LARGE = 500  # rows of one component


def scaled_problem(table: LinkedTable, structure: str, lambda2: float, jobs: int) -> tuple[Problem, Array]:
    """The problem with columns of unit variance, so that λ1 means the same for all; and the scales.

    "auto" becomes the structure with the lower extended BIC. Says so where there are too few columns to give
    every link its own strength.
    """
    scale = _spread(table)
    problem = Problem.of(
        table.values / scale,
        table.links,
        covariates=table.covariates,
        structure=structure,
        lambda2=lambda2,
        jobs=jobs,
    )
    p = problem.shape[1]
    if settled_structure(table.links, p) == "common" and structure in ("auto", "free"):
        largest = int(problem.layout.sizes.max())
        then = (
            "one strength common to all links is estimated instead (structure='common')"
            if structure == "auto"
            else "Θ follows chance; use structure='common'"
        )
        warnings.warn(
            f"{largest} rows hang together and there are only {p} columns: too few to estimate the strength "
            f"of every one of {table.links.n_links:,} links; {then}.",
            DataWarning,
            stacklevel=4,
        )
    elif structure == "auto" and problem.structure == "free":
        problem = _simpler_where_better(problem)
    return problem, scale


def _simpler_where_better(problem: Problem) -> Problem:
    """One strength for all links where that has the lower extended BIC, which counts the entries of Θ.

    A large component keeps its entries: comparing would take longer than all the rest.
    """
    if problem.layout.sizes.max() > _LARGE:
        return problem
    common = replace(problem, structure="common")
    one = lambda_path(common, precision=unpenalised(common).precision)
    many = lambda_path(problem)
    values = [bic(own, path.fits[path.best], extended=True) for own, path in ((common, one), (problem, many))]
    return common if values[0] <= values[1] else problem


def _spread(table: LinkedTable) -> Array:
    """The columns' standard deviations, given the covariates."""
    if table.covariates is None:
        return np.asarray(table.values.std(axis=0))
    Q, _ = np.linalg.qr(np.concatenate([np.ones((len(table.values), 1)), table.covariates], axis=1))
    return np.asarray((table.values - Q @ (Q.T @ table.values)).std(axis=0))


class Averaged(NamedTuple):
    """Θ averaged over orders of the columns, with the residuals of the last one (rows as in the problem)."""

    precision: RowPrecision
    residuals: Array


def over_permutations(problem: Problem, count: int, random_state: int | None) -> Averaged:
    """Θ from random orders of the columns (Lemma 1: Σ does not depend on it, its estimate does a little)."""
    if problem.structure != "free":  # one strength, or none: nothing is gained from several orders
        fit = unpenalised(problem)
        return Averaged(fit.precision, residuals(problem, fit))
    rng = np.random.default_rng(random_state)
    several = []
    for number in range(count):
        report("orders", number, count)
        own = problem.reordered(rng.permutation(problem.shape[1]))
        path = lambda_path(own)
        fit = path.fits[path.best]
        several.append(fit.precision)
    report("orders", count, count)
    return Averaged(several[0] if count == 1 else RowPrecision.mean(several), residuals(own, fit))


def unpenalised(problem: Problem) -> Fit:
    """The fit with λ1 = 0, of the full DAG, or of the path's best where that has too many edges for the rows.

    The penalty is on `β/ω`, which is small where ω is large, as it is when rows are taken to be much alike:
    one strength for all links would be drawn upwards by it.
    """
    n, p = problem.shape
    edges = np.tri(p, k=-1, dtype=bool)
    if 2 * p > n - problem.Z.shape[1]:
        path = lambda_path(problem)
        edges = path.fits[path.best].state.phi != 0
    return descend(problem, np.where(edges, 0.0, np.inf))


def given_dag(problem: Problem, dag: NDArray[np.bool_], order: list[int]) -> Fit:
    """The maximum-likelihood fit of a DAG (λ1 = 0 on its edges), columns in a causal order of it.

    Markov-equivalent DAGs give the same Θ and the same likelihood (Theorem 2).
    """
    edges = dag[np.ix_(order, order)].T
    return descend(problem.reordered(np.array(order)), np.where(edges, 0.0, np.inf))


def residuals(problem: Problem, fit: Fit) -> Array:
    """`ρ_j X_j − X φ_j` of every column, rows as in the problem."""
    T = np.diag(fit.state.rho) - fit.state.phi
    result: Array = (problem.X - problem.Z @ fit.means) @ T.T
    return result


class Verdict(NamedTuple):
    """The test before and after, and each column's correlation along the links."""

    before: DependenceTest
    after: DependenceTest
    columns: Array


def judge(problem: Problem, table: LinkedTable, precision: RowPrecision, residuals: Array) -> Verdict:
    """Test the centred columns, and the residuals after decorrelation."""
    order = problem.layout.order
    Q, _ = np.linalg.qr(problem.Z)
    centred, white = np.empty_like(problem.X), np.empty_like(problem.X)
    centred[order] = problem.X - Q @ (Q.T @ problem.X)
    white[order] = precision.whiten_sorted(np.ascontiguousarray(residuals))
    return Verdict(
        row_dependence(centred, table.links),
        row_dependence(white, table.links),
        column_correlations(centred, table.links),
    )


def means_of(problem: Problem, precision: RowPrecision) -> Array:
    """The generalised least-squares coefficients of the covariates."""
    return gram(problem, precision)[1]
