"""Block coordinate descent: monotone, stationary, and right where theory says what must come out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag
from scipy.optimize import approx_fprime, minimize

from polydag import Graph, simulate
from polydag.errors import DataError, UsageError
from polydag.orientation import cpdag
from polydag.rows import Links, Problem, RowPrecision, descend, lambda_path
from polydag.rows.descent import _block_descent_kernels
from polydag.rows.descent import block_descent as bcd
from polydag.rows.descent.block_descent import gram, objective
from polydag.rows.estimate import estimate, given_dag, over_permutations
from polydag.rows.likelihood.whitening import as_precision
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import Layout
from polydag.rows.structures.exchangeable import Exchangeable


def linked_rows(n: int, p: int, size: int, seed: int, kind: str = "equi") -> tuple[Graph, np.ndarray, Links]:
    rng = np.random.default_rng(seed)
    dag = simulate.dag(p, n_edges=min(p, p * (p - 1) // 2), random_state=rng)
    blocks = simulate.clusters(kind, n, size, random_state=rng)
    X = simulate.linked(dag, row_covariance=blocks, noise_scale=(0.5, 1.5), random_state=rng)
    order = [dag.index(name) for name in dag.topological_order()]
    values = X.to_numpy()[:, order]
    return Graph(dag.adjacency[np.ix_(order, order)]), values, Links.from_groups(np.arange(n) // size)


def common_precision(strength: float, links: Links) -> RowPrecision:
    layout = Layout.of(links)
    return as_precision(Exchangeable(layout).at(strength), layout)


def dense(precision: RowPrecision) -> np.ndarray:
    return precision.precision().toarray()


def plain_objective(
    X: np.ndarray, Theta: np.ndarray, phi: np.ndarray, rho: np.ndarray, lambda1: float, lambda2: float
) -> float:
    """(6), written out from the paper with the p before the trace; row j of phi is about column j."""
    n, p = X.shape
    S = sum(np.outer(r, r) for r in (rho[j] * X[:, j] - X @ phi[j] for j in range(p))) / p
    off = np.abs(Theta).sum() - np.abs(Theta.diagonal()).sum()
    return float(
        -n * np.log(rho**2).sum()
        - p * np.linalg.slogdet(Theta)[1]
        + p * np.sum(S * Theta)
        + lambda1 * np.abs(phi).sum()
        + lambda2 * off
    )


@given(
    st.integers(3, 6),
    st.integers(2, 6),
    st.sampled_from(["equi", "toeplitz", "star"]),
    st.floats(0.01, 60.0),
    st.integers(0, 10**6),
)
@settings(max_examples=30, deadline=None)
def test_the_objective_never_rises(groups: int, p: int, kind: str, lambda1: float, seed: int) -> None:
    _, X, links = linked_rows(5 * groups, p, 5, seed, kind)
    problem = Problem.of(X, links)
    fit = descend(problem, np.full((p, p), lambda1), tolerance=1e-9, max_iterations=30)
    values = np.array(fit.objectives)
    assert (np.diff(values) <= 1e-8 * np.abs(values[:-1])).all()
    for block in fit.precision.correlations:
        np.testing.assert_allclose(block.diagonal(), 1.0, atol=1e-8)


@pytest.mark.parametrize("structure", ["free", "fixed"])
def test_the_objective_is_the_papers(structure: str) -> None:
    _, X, links = linked_rows(20, 6, 4, 3)
    problem = Problem.of(X, links, structure=structure, intercept=False)
    fit = descend(problem, np.full((6, 6), 5.0))
    own = X[problem.layout.order]
    Theta = dense(fit.precision)[np.ix_(problem.layout.order, problem.layout.order)]
    lambda2 = 0.01 if structure == "free" else 0.0
    expected = plain_objective(own, Theta, fit.state.phi, fit.state.rho, 5.0, lambda2)
    assert fit.objectives[-1] == pytest.approx(expected, rel=1e-10)


def test_lasso_and_closed_form_against_a_general_solver() -> None:
    _, X, links = linked_rows(40, 5, 4, 7)
    problem = Problem.of(X, links)
    precision = common_precision(0.4, links)
    G, _ = gram(problem, precision)
    phi, rho, lambda1, n = np.zeros((5, 5)), np.ones(5), 12.0, 40.0
    assert _block_descent_kernels.lasso_columns(G, n, np.full((5, 5), lambda1), phi, rho, 1e-14, 5000)
    for j in range(1, 5):

        def value(x: np.ndarray, j: int = j) -> tuple[float, np.ndarray]:
            # φ = u − v with u, v >= 0 makes (8) smooth, so that a general solver can be trusted.
            t = np.zeros(5)
            t[:j] = x[1 + j :] - x[1 : 1 + j]
            t[j] = x[0]
            slope = 2.0 * G @ t
            cost = -2 * n * np.log(x[0]) + t @ G @ t + lambda1 * x[1:].sum()
            return float(cost), np.concatenate(
                [[slope[j] - 2 * n / x[0]], lambda1 - slope[:j], lambda1 + slope[:j]]
            )

        bounds = [(1e-6, None)] + [(0.0, None)] * (2 * j)
        start = np.concatenate([[1.0], np.full(2 * j, 0.1)])
        options = {"maxiter": 20_000, "ftol": 1e-16, "gtol": 1e-9}
        found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        ours = np.concatenate([[rho[j]], np.maximum(phi[j, :j], 0), np.maximum(-phi[j, :j], 0)])
        assert value(ours)[0] <= found.fun + 1e-9 * abs(found.fun)
        np.testing.assert_allclose(ours, found.x, atol=1e-5)


def test_the_closed_form_has_four_n_under_the_root() -> None:
    """Without predecessors ρ minimises −2n log ρ + ρ²G, so ρ² = n/G."""
    phi, rho = np.zeros((1, 1)), np.ones(1)
    _block_descent_kernels.lasso_columns(np.array([[3.0]]), 12.0, np.ones((1, 1)), phi, rho, 1e-12, 100)
    assert rho[0] == pytest.approx(2.0)


def test_finite_differences_of_the_whole_objective_vanish_at_the_end() -> None:
    """Along ρ and the non-zero φ, where the objective is smooth."""
    _, X, links = linked_rows(60, 5, 3, 11)
    problem = Problem.of(X, links, structure="fixed")
    penalty = np.full((5, 5), 6.0)
    fit = descend(problem, penalty)
    state = fit.state
    assert _block_descent_kernels.lasso_columns(fit.G, 60.0, penalty, state.phi, state.rho, 1e-16, 5000)
    where = np.nonzero(state.phi)
    assert len(where[0]) > 0

    def value(x: np.ndarray) -> float:
        phi = state.phi.copy()
        phi[where] = x[5:]
        return objective(problem, penalty, state.precision, fit.G, phi, x[:5])

    x = np.concatenate([state.rho, state.phi[where]])
    np.testing.assert_allclose(approx_fprime(x, value, 1e-7), 0.0, atol=1e-3)
    # Away from zero the other coefficients only cost, in either direction.
    others = np.argwhere(np.tri(5, k=-1, dtype=bool) & (state.phi == 0))
    assert len(others) > 0
    for j, k in others:
        for step in (1e-5, -1e-5):
            moved = state.phi.copy()
            moved[j, k] = step
            assert objective(problem, penalty, state.precision, fit.G, moved, state.rho) > value(x)


@given(st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_independent_rows_with_a_known_identity_are_plain_regressions(seed: int) -> None:
    _, X, _ = linked_rows(30, 4, 3, seed)
    problem = Problem.of(X, Links(30, np.empty((0, 2), dtype=np.int64)), structure="fixed")
    fit = descend(problem, np.zeros((4, 4)))
    centred = X - X.mean(axis=0)
    for j in range(1, 4):
        expected = np.linalg.lstsq(centred[:, :j], centred[:, j], rcond=None)[0]
        np.testing.assert_allclose(fit.weights[:j, j], expected, atol=2e-3)


@given(st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_lemma_1_without_penalty_the_order_of_columns_does_not_matter(seed: int) -> None:
    _, X, links = linked_rows(48, 5, 3, seed)
    problem = Problem.of(X, links, structure="free", lambda2=0.0)
    orders = (np.arange(5), np.random.default_rng(seed).permutation(5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bcd, "_LASSO_TOLERANCE", 1e-22)
        patch.setattr(bcd, "_MAX_SWEEPS", 100_000)
        fits = [descend(problem.reordered(order), np.zeros((5, 5)), max_iterations=6) for order in orders]
    for one, two in zip(fits[0].precision.correlations, fits[1].precision.correlations, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_with_a_penalty_the_order_of_columns_matters_and_averaging_helps() -> None:
    """What Lemma 1 leaves: Σ is common to all orders, its penalised estimate is not."""
    rng = np.random.default_rng(3)
    dag = simulate.dag(30, n_edges=60, random_state=rng)
    blocks = simulate.clusters("toeplitz", 90, 6, random_state=rng)
    X = simulate.linked(dag, row_covariance=blocks, random_state=rng).to_numpy()
    problem = Problem.of(X / X.std(axis=0), Links.from_groups(np.arange(90) // 6))
    several = [over_permutations(problem, 1, seed) for seed in range(6)]
    apart = [np.abs(one.thetas - several[0].thetas).max() for one in several[1:]]
    assert min(apart) > 1e-3

    def error(precision: RowPrecision) -> float:
        pairs = zip(precision.correlations, blocks, strict=True)
        return float(np.mean([np.abs(found - true).mean() for found, true in pairs]))

    assert error(RowPrecision.mean(several)) < np.mean([error(one) for one in several])


@given(st.integers(0, 10**6))
@example(45)
@settings(max_examples=10, deadline=None)
def test_theorem_2_equivalent_dags_have_the_same_likelihood(seed: int) -> None:
    dag, X, links = linked_rows(60, 5, 3, seed)
    A = dag.adjacency
    other = reversed_covered_edge(A)
    if other is None:
        return
    assert np.array_equal(cpdag(A), cpdag(other))
    problem = Problem.of(X, links)
    known = estimate(problem, LinkedTable.of(X, links), structure="common")
    values = []
    for each in (A, other):
        graph = Graph(each)
        order = [graph.index(name) for name in graph.topological_order()]
        fit, _ = given_dag(problem, each, order, replace(known, family=None))
        values.append(fit.objectives[-1])
    assert values[0] == pytest.approx(values[1], rel=5e-5)  # steps in turns stop a little before the end


def reversed_covered_edge(A: np.ndarray) -> np.ndarray | None:
    """The DAG with one edge whose ends have the same other parents turned round: an equivalent one."""
    for i, j in np.argwhere(A):
        parents = A[:, j].copy()
        parents[i] = False
        if np.array_equal(parents, A[:, i]):
            other = A.copy()
            other[i, j], other[j, i] = False, True
            return other
    return None


def test_means_are_generalised_least_squares() -> None:
    rng = np.random.default_rng(0)
    _, X, links = linked_rows(40, 3, 4, 5)
    z = rng.standard_normal((40, 1))
    precision = common_precision(0.5, links)
    problem = Problem.of(X + 100.0 + 3.0 * z, links, covariates=z)
    G, means = gram(problem, precision)
    Theta = dense(precision)
    Z = np.concatenate([np.ones((40, 1)), z], axis=1)
    Y = X + 100.0 + 3.0 * z
    expected = np.linalg.solve(Z.T @ Theta @ Z, Z.T @ Theta @ Y)
    np.testing.assert_allclose(means, expected, rtol=1e-8)
    centred = Y - Z @ expected
    np.testing.assert_allclose(G, centred.T @ Theta @ centred, rtol=1e-8, atol=1e-7)


def test_the_precision_agrees_with_itself() -> None:
    _, X, links = linked_rows(30, 8, 3, 2, "toeplitz")
    fit = descend(Problem.of(X, links, structure="free"), np.full((8, 8), 10.0))
    precision = fit.precision
    L, Theta, Sigma = (
        m.toarray() for m in (precision.factor(), precision.precision(), precision.correlation())
    )
    np.testing.assert_allclose(L.T @ L, Theta, atol=1e-9)
    np.testing.assert_allclose(Theta @ Sigma, np.eye(30), atol=1e-8)
    np.testing.assert_allclose(precision.whiten(X), L @ X, atol=1e-9)
    assert precision.effective_n == pytest.approx(30**2 / np.sum(Sigma**2))
    assert precision.log_determinant == pytest.approx(np.linalg.slogdet(Theta)[1])
    mean = RowPrecision.mean([precision, precision])
    np.testing.assert_allclose(mean.thetas, precision.thetas, atol=1e-9)


def test_scattered_groups_are_the_same_as_sorted_ones() -> None:
    _, X, links = linked_rows(30, 8, 3, 2)
    mixed = np.random.default_rng(1).permutation(30)
    labels = (np.arange(30) // 3)[mixed]
    one = descend(Problem.of(X, links, lambda2=0.0), np.full((8, 8), 10.0))
    two = descend(Problem.of(X[mixed], Links.from_groups(labels), lambda2=0.0), np.full((8, 8), 10.0))
    expected = one.precision.correlation().toarray()[np.ix_(mixed, mixed)]
    np.testing.assert_allclose(two.precision.correlation().toarray(), expected, atol=1e-4)


def test_one_strength_is_one_correlation_in_groups_of_any_size() -> None:
    links = Links.from_groups([0] * 3 + [1] * 7 + [2])
    Sigma = common_precision(0.3, links).correlation().toarray()
    expected = block_diag(*(np.where(np.eye(m) > 0, 1.0, 0.3) for m in (3, 7, 1)))
    np.testing.assert_allclose(Sigma, expected, atol=1e-10)


def test_threads_change_nothing() -> None:
    _, X, links = linked_rows(60, 9, 3, 4)
    one, two = (descend(Problem.of(X, links, jobs=jobs), np.full((9, 9), 8.0)) for jobs in (1, 2))
    assert np.array_equal(one.precision.thetas, two.precision.thetas)


def test_a_path_begins_empty_and_its_best_is_not_first() -> None:
    _, X, links = linked_rows(90, 12, 3, 6)
    path = lambda_path(Problem.of(X / X.std(axis=0), links), patience=None)
    assert len(path.fits) == 10
    assert not path.fits[0].state.phi.any()
    assert np.count_nonzero(path.fits[1].state.phi) >= 1
    assert path.best > 0
    assert path.lambdas[-1] == pytest.approx(path.lambdas[0] / 100)
    short = lambda_path(Problem.of(X / X.std(axis=0), links))
    assert short.criteria == path.criteria[: len(short.criteria)]


def test_with_more_columns_than_rows_a_tiny_penalty_stops_the_path() -> None:
    _, X, links = linked_rows(20, 40, 2, 8)
    path = lambda_path(Problem.of(X / X.std(axis=0), links), smallest=1e-6, patience=None)
    assert "too many" in path.crowded
    assert np.isfinite(path.criteria).all()
    assert all(
        np.isfinite(fit.state.phi).all() and np.isfinite(fit.precision.thetas).all() for fit in path.fits
    )


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"lambda2": -1.0}, UsageError, "lambda2"),
        ({"covariates": np.ones((12, 1))}, DataError, "constant"),
        ({"covariates": np.ones((5, 1))}, DataError, "rows"),
    ],
)
def test_what_makes_no_problem_is_said(options: dict, error: type[Exception], said: str) -> None:
    X = np.random.default_rng(0).standard_normal((12, 3))
    with pytest.raises(error, match=said):
        Problem.of(X, Links.from_groups(np.arange(12) // 3), **options)


@pytest.mark.parametrize("kind", ["toeplitz", "equi", "star"])
def test_simulated_clusters_are_found_to_a_third_of_ignoring_them(kind: str) -> None:
    """With the links that the clusters have; "ar" has hardly any correlation to find."""
    rng = np.random.default_rng(1)
    dag = simulate.dag(60, n_edges=120, weight_range=(0.1, 1.0), random_state=rng)
    blocks = simulate.clusters(kind, 200, 10, random_state=rng)
    X = simulate.linked(dag, row_covariance=blocks, noise_scale=(0.1, 1.0), random_state=rng).to_numpy()
    links = Links.from_matrix(block_diag(*(np.abs(np.linalg.inv(block)) > 1e-8 for block in blocks)))
    problem = Problem.of(X / X.std(axis=0), links, structure="free")
    Sigma = block_diag(*blocks)
    inside = (Sigma != 0) & ~np.eye(200, dtype=bool)
    order = np.array([dag.index(name) for name in dag.topological_order()])
    path = lambda_path(problem.reordered(order))
    for precision in (path.fits[path.best].precision, over_permutations(problem, 2, 0)):
        found = precision.correlation().toarray()
        assert np.abs(found - Sigma)[inside].mean() < np.abs(Sigma)[inside].mean() / 3
