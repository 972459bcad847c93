"""From a table of linked rows to Θ: the structure and its parameters, whatever the order, or given a DAG."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.computing.progress import report
from polydag.errors import DataError, DataWarning
from polydag.rows.dependence import DependenceTest, design_dependence
from polydag.rows.descent.block_descent import Fit, Problem, descend, gram, start
from polydag.rows.descent.lambda_path import lambda_path
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Whitening, as_precision
from polydag.rows.linked_table import LinkedTable
from polydag.rows.links import Links
from polydag.rows.precision import Layout, RowPrecision
from polydag.rows.structures.candidates import MOST_ROWS, named_structure, simple_structures
from polydag.rows.structures.choice import Candidate, choose
from polydag.rows.structures.exchangeable import Exchangeable
from polydag.rows.structures.free import Free, free_structures, shrunken
from polydag.rows.structures.interface import Fitted, Structure
from polydag.rows.structures.shared_block import SharedBlock

VALUES_PER_ENTRY = 3  # fewer observed values for each free entry of Θ than this are few
_SEEN = 20.0  # the gain of deviance by which a network shows in held-out columns
_ENOUGH = 0.01  # the level at which dependence that is left makes a structure refused


@dataclass(frozen=True, eq=False)
class RowEstimate:
    """Θ, and how it came about.

    Attributes
    ----------
    precision : RowPrecision
        Θ with its factor.
    structure : str
        The name of its structure.
    parameters : dict
        The structure's parameters by name.
    candidates : list of Candidate
        All structures that were compared, with the deviance of the held-out columns.
    family : Structure, optional
        What can estimate Θ again from other columns; not for independent rows and one entry for each link.
    scored : array of shape (p,), optional
        The columns that tell Θ; those that are the same in all linked rows do not.
    """

    precision: RowPrecision
    structure: str
    parameters: dict[str, float]
    candidates: list[Candidate]
    family: Structure | None = None
    scored: Mask | None = None


def scaled_problem(table: LinkedTable, lambda2: float, jobs: int) -> tuple[Problem, Array]:
    """The problem with columns of unit variance, so that λ1 means the same for all; and the scales."""
    scale = _spread(table)
    problem = Problem.of(
        table.values / scale, table.links, covariates=table.covariates, lambda2=lambda2, jobs=jobs
    )
    return problem, scale


def _spread(table: LinkedTable) -> Array:
    """The columns' standard deviations, given the covariates."""
    if table.covariates is None:
        return np.asarray(table.values.std(axis=0))
    Q, _ = np.linalg.qr(np.concatenate([np.ones((len(table.values), 1)), table.covariates], axis=1))
    return np.asarray((table.values - Q @ (Q.T @ table.values)).std(axis=0))


def estimate(
    problem: Problem,
    table: LinkedTable,
    *,
    structure: str,
    share: float | None = None,
    n_orders: int = 5,
    random_state: int | None = None,
) -> RowEstimate:
    """Θ with the named structure, or with the one that explains held-out columns best ("auto")."""
    alike = table.group_level
    found = _estimate(beside(problem, alike), table, structure, share, n_orders, random_state)
    return replace(found, scored=~alike)


def along_a_path(problem: Problem, table: LinkedTable) -> RowEstimate:
    """The free structure before it is estimated together with a DAG, on a path of penalties."""
    alike = table.group_level
    _warn_of_few_values(beside(problem, alike), table)
    settings = {"lambda2": problem.lambda2, "own": 0.0}
    return RowEstimate(RowPrecision.independent(table.links), "free", settings, [], scored=~alike)


def beside(problem: Problem, alike: Mask) -> Problem:
    """The problem with columns that are the same in all linked rows as covariates of the others."""
    if not alike.any():
        return problem
    Z = np.concatenate([problem.Z, problem.X[:, alike]], axis=1)
    return replace(problem, X=np.ascontiguousarray(problem.X[:, ~alike]), Z=np.ascontiguousarray(Z))


def _estimate(
    problem: Problem,
    table: LinkedTable,
    structure: str,
    share: float | None,
    n_orders: int,
    random_state: int | None,
) -> RowEstimate:
    independent = RowPrecision.independent(table.links)
    if structure == "independent" or table.links.n_links == 0:
        return RowEstimate(independent, "independent", {}, [])
    if structure == "free":
        _warn_of_few_values(problem, table)
        return _free(problem, 0.0, n_orders, random_state, [])
    rng = np.random.default_rng(0 if random_state is None else random_state)
    order = rng.permutation(problem.shape[1])
    if table.was_set is None:
        columns = regressed(problem, order)
    else:
        columns = in_unset_rows(Columns(problem.X[:, order], problem.Z), table, problem.layout)
        few = 2 * len(order) > len(columns.X) - columns.Z.shape[1]
        columns = columns.alone() if few else columns
    if table.covariance is not None or structure != "auto":
        family = named_structure(structure, problem.layout, table, share)
        fitted = family.fit(columns, np.ones(problem.shape[1], dtype=bool))
        return _with(family, fitted, problem.layout, [])
    simple = simple_structures(problem.layout, table, problem.shape[1])
    free = free_structures(problem) if _affords_free(problem) else []
    if table.was_set is not None:  # these have no likelihood of some of a component's rows
        simple, free = [each for each in simple if not isinstance(each, SharedBlock)], []
    # On a network signs may differ from link to link: then nothing is seen, on average.
    network = table.links.what == "links"

    def is_enough(fitted: Fitted, gain: float) -> bool:
        seen = gain > _SEEN or not network
        return seen and left_over(problem, table.links, fitted.whitening) > _ENOUGH

    found = choose(simple, free, columns, is_enough)
    if isinstance(found.structure, Free):
        chosen = found.structure
        own = replace(problem, lambda2=chosen.lambda2)
        return _free(own, chosen.own, n_orders, random_state, found.candidates)
    return _with(found.structure, found.fitted, problem.layout, found.candidates)


def in_unset_rows(columns: Columns, table: LinkedTable, layout: Layout) -> Columns:
    """The columns in the rows in which nothing was set by intervention; of the others Σ is not estimated."""
    if table.was_set is None:
        return columns
    kept = table.unset[layout.order]
    X, Z = columns.X[kept], columns.Z[kept]
    if np.linalg.matrix_rank(Z) < Z.shape[1]:
        raise DataError(
            "In the rows in which nothing was set, a covariate or a column that is the same in all linked "
            "rows is constant, or follows from the others. Leave it out, or give the rows' correlation "
            "(correlation=)."
        )
    return replace(columns, X=np.ascontiguousarray(X), Z=np.ascontiguousarray(Z), kept=kept)


def _with(family: Structure, fitted: Fitted, layout: Layout, candidates: list[Candidate]) -> RowEstimate:
    return RowEstimate(
        as_precision(fitted.whitening, layout), family.name, fitted.parameters, candidates, family
    )


def _free(
    problem: Problem, own: float, count: int, random_state: int | None, candidates: list[Candidate]
) -> RowEstimate:
    found = shrunken(over_permutations(problem, count, random_state), own)
    return RowEstimate(found, "free", {"lambda2": problem.lambda2, "own": own}, candidates)


def regressed(problem: Problem, order: Sequence[int] | Index) -> Columns:
    """The columns in an order, each regressed on those before it, or on the few that matter of too many."""
    n, p = problem.shape
    own = problem.reordered(np.asarray(order))
    columns = Columns(own.X, own.Z)
    if 2 * p <= n - own.Z.shape[1]:
        return columns
    rough = Exchangeable(own.layout).fit(columns.alone(), np.ones(p, dtype=bool))
    path = lambda_path(own, precision=as_precision(rough.whitening, own.layout))
    return replace(columns, parents=path.fits[path.best].state.phi != 0)


def left_over(problem: Problem, links: Links, found: Whitening) -> float:
    """The p-value of the test of independence after decorrelation."""
    precision = as_precision(found, problem.layout)
    X, Z = precision.whiten_sorted(problem.X), precision.whiten_sorted(problem.Z)
    back = np.argsort(problem.layout.order)
    return after_decorrelation(X[back], Z[back], links).p_value


def after_decorrelation(X: Array, Z: Array, links: Links) -> DependenceTest:
    """The test on whitened columns, which are made uncorrelated first where there are rows enough."""
    n, p = X.shape
    if 2 * p <= n - Z.shape[1]:
        Q, _ = np.linalg.qr(np.concatenate([Z, X], axis=1))
        X = Q[:, Z.shape[1] :]
    return design_dependence(X, links, Z)


def _affords_free(problem: Problem) -> bool:
    """Whether one entry of Θ for each link can be tried: a value for each entry, and no huge component."""
    p, layout = problem.shape[1], problem.layout
    values, entries = p * layout.sizes, np.diff(layout.frees)
    several = layout.sizes > 1
    return p >= 6 and bool((values >= entries)[several].all()) and int(layout.sizes.max()) <= MOST_ROWS


def _warn_of_few_values(problem: Problem, table: LinkedTable) -> None:
    layout, p = problem.layout, problem.shape[1]
    entries = np.diff(layout.frees)
    if not (p * layout.sizes >= VALUES_PER_ENTRY * entries)[layout.sizes > 1].all():
        warnings.warn(
            f"{int(layout.sizes.max())} rows are connected, and {p} columns are too few to estimate a "
            f"strength for each of the {table.links.n_links:,} links; Θ is mostly noise. Use "
            "structure='auto'.",
            DataWarning,
            stacklevel=5,
        )


def over_permutations(problem: Problem, count: int, random_state: int | None) -> RowPrecision:
    """Θ from random orders of the columns (Lemma 1: Σ does not depend on it, its estimate does a little)."""
    rng = np.random.default_rng(0 if random_state is None else random_state)
    several = []
    for number in range(count):
        report("orders", number, count)
        path = lambda_path(problem.reordered(rng.permutation(problem.shape[1])))
        several.append(path.fits[path.best].precision)
    report("orders", count, count)
    return several[0] if count == 1 else RowPrecision.mean(several)


def given_dag(
    problem: Problem, dag: Mask, order: list[int], known: RowEstimate | None = None
) -> tuple[Fit, RowEstimate]:
    """The maximum-likelihood fit of a DAG (λ1 = 0 on its edges), columns in a causal order of it.

    Markov-equivalent DAGs give the same Θ and the same likelihood (Theorem 2). `known` says which structure Θ
    has; by default one entry for each link.
    """
    edges = dag[np.ix_(order, order)].T
    own = problem.reordered(np.array(order))
    penalty = np.where(edges, 0.0, np.inf)
    if known is None or known.structure == "free":
        settings = {"lambda2": problem.lambda2, "own": 0.0} if known is None else known.parameters
        fit = descend(replace(own, lambda2=settings["lambda2"]), penalty)
        if settings["own"] > 0:
            fit = fixed(own, penalty, shrunken(fit.precision, settings["own"]))
        return fit, RowEstimate(fit.precision, "free", settings, known.candidates if known else [])
    found = known
    if known.family is not None:
        scored = np.ones(own.shape[1], dtype=bool) if known.scored is None else known.scored[order]
        fitted = known.family.fit(Columns(own.X, own.Z, edges), scored)
        found = replace(_with(known.family, fitted, own.layout, known.candidates), scored=known.scored)
    return fixed(own, penalty, found.precision), found


def fixed(problem: Problem, penalty: Array, precision: RowPrecision) -> Fit:
    """The fit of the DAG's weights where Θ is known."""
    state = start(problem)._replace(precision=precision)
    return descend(replace(problem, structure="fixed"), penalty, state)


def means_of(problem: Problem, precision: RowPrecision) -> Array:
    """The generalised least-squares coefficients of the covariates."""
    return gram(problem, precision)[1]
