"""The graphical lasso on a given support, against scikit-learn, a general solver, and its own conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array, issparse
from sklearn.covariance import graphical_lasso

from polydag.errors import DataError
from polydag.rows import Links, _precision_kernels, constrained_glasso
from polydag.rows.descent import _glasso_kernels


def sample_covariance(m: int, seed: int, extra: int = 20) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((m + extra, m)) @ (np.eye(m) + 0.3 * rng.standard_normal((m, m)))
    S = np.cov(rows.T)
    sd = np.sqrt(S.diagonal())
    return S / np.outer(sd, sd)


def random_support(m: int, seed: int, share: float) -> np.ndarray:
    A = np.random.default_rng(seed).random((m, m)) < share
    A = np.triu(A, 1)
    return A | A.T


@given(st.integers(1, 150), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_factor_and_inverse_are_those_of_numpy(m: int, seed: int) -> None:
    A = np.random.default_rng(seed).standard_normal((m, m))
    A = A @ A.T + m * np.eye(m)
    C, W = np.empty((m, m)), np.empty((m, m))
    assert _precision_kernels.factor(A, C)
    _precision_kernels.invert(C, W)
    np.testing.assert_allclose(C, np.linalg.cholesky(A), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(W @ A, np.eye(m), atol=1e-8)


@pytest.mark.parametrize("m", [2, 70, 400])
def test_an_indefinite_matrix_has_no_factor(m: int) -> None:
    A = np.eye(m)
    A[0, -1] = A[-1, 0] = 1.5
    assert not _precision_kernels.factor(A, np.empty((m, m)))


def test_a_factor_of_several_panels() -> None:
    A = np.random.default_rng(0).standard_normal((600, 600))
    A = A @ A.T + 600 * np.eye(600)
    C = np.empty_like(A)
    assert _precision_kernels.factor(A, C)
    np.testing.assert_allclose(C, np.linalg.cholesky(A), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("penalty", [0.02, 0.1, 0.4])
def test_without_zeros_it_is_the_usual_graphical_lasso(penalty: float) -> None:
    S = sample_covariance(12, 3)
    Theta = constrained_glasso(S, np.ones((12, 12)), penalty)
    _, expected = graphical_lasso(S, alpha=penalty, tol=1e-10, enet_tol=1e-12, max_iter=2000)
    np.testing.assert_allclose(Theta, expected, atol=1e-6)


@given(st.integers(2, 9), st.integers(0, 10**6), st.floats(0.1, 0.9), st.sampled_from([0.0, 0.03, 0.2]))
@settings(max_examples=40, deadline=None)
def test_the_optimality_conditions_hold(m: int, seed: int, share: float, penalty: float) -> None:
    S, A = sample_covariance(m, seed), random_support(m, seed, share)
    lam = np.random.default_rng(seed).uniform(0.5, 1.5, (m, m)) * penalty
    lam = np.sqrt(lam * lam.T)
    Theta = constrained_glasso(S, A, lam)
    W = np.linalg.inv(Theta)
    assert not Theta[~A & ~np.eye(m, dtype=bool)].any()
    np.testing.assert_allclose(W.diagonal(), S.diagonal(), atol=1e-6)
    active = A & (Theta != 0)
    np.testing.assert_allclose((W - S)[active], (lam * np.sign(Theta))[active], atol=1e-6)
    assert (np.abs(W - S)[A] <= lam[A] + 1e-6).all()


@pytest.mark.parametrize(("m", "seed", "lam"), [(5, 1, 0.1), (8, 2, 0.03), (6, 3, 0.0)])
def test_a_general_convex_solver_finds_the_same(m: int, seed: int, lam: float) -> None:
    """With θ = u − v, u and v not negative, the problem is smooth, and L-BFGS-B a fair judge."""
    S, A = sample_covariance(m, seed), random_support(m, seed + 1, 0.5)
    rows, columns = np.nonzero(np.tril(A | np.eye(m, dtype=bool)))
    twice = np.where(rows == columns, 1.0, 2.0)
    cost = np.where(rows == columns, 0.0, lam) * twice

    def unpack(x: np.ndarray) -> np.ndarray:
        Theta = np.zeros((m, m))
        Theta[rows, columns] = Theta[columns, rows] = x[: len(rows)] - x[len(rows) :]
        return Theta

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        Theta = unpack(x)
        sign, log = np.linalg.slogdet(Theta)
        if sign <= 0 or np.linalg.eigvalsh(Theta)[0] <= 0:
            return 1e9, np.zeros_like(x)
        slope = twice * (S - np.linalg.inv(Theta))[rows, columns]
        length = cost @ (x[: len(rows)] + x[len(rows) :])
        return float(-log + np.sum(S * Theta) + length), np.concatenate([slope + cost, cost - slope])

    start = np.concatenate([np.eye(m)[rows, columns], np.zeros(len(rows))])
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-10}
    bounds = [(0.0, None)] * len(start)
    found = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    Theta = constrained_glasso(S, A, lam)
    ours = Theta[rows, columns]
    assert value(np.concatenate([np.maximum(ours, 0), np.maximum(-ours, 0)]))[0] <= found.fun + 1e-10
    np.testing.assert_allclose(Theta, unpack(found.x), atol=2e-5)


@given(st.integers(2, 8), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_the_slope_is_that_of_finite_differences(m: int, seed: int) -> None:
    """The kernels' own value and first-order change, in a random direction on the support."""
    S, A = sample_covariance(m, seed), random_support(m, seed, 0.5)
    Theta = constrained_glasso(S, A, 0.02) + 0.1 * np.eye(m)
    rows, columns = np.nonzero(np.tril(A | np.eye(m, dtype=bool)))
    lam = np.where(rows == columns, 0.0, 0.02)
    direction = np.random.default_rng(seed).standard_normal(len(rows))
    direction[Theta[rows, columns] == 0] = 0.0

    def value(size: float) -> float:
        moved, C = Theta.copy(), np.empty((m, m))
        moved[rows, columns] += size * direction
        moved[columns, rows] = moved[rows, columns]
        assert _precision_kernels.factor(moved, C)
        return float(_glasso_kernels.glasso_value(S, moved, C, rows, columns, lam))

    small = 1e-7
    slope = _glasso_kernels.promised_change(
        S, Theta, np.linalg.inv(Theta), rows, columns, lam, small * direction
    )
    assert (value(small) - value(-small)) / 2 == pytest.approx(slope, rel=1e-3, abs=1e-11)


def of_partial_correlations(x: np.ndarray, where: tuple[np.ndarray, np.ndarray], m: int) -> np.ndarray:
    """Θ whose inverse has a unit diagonal, written out."""
    Omega = np.eye(m)
    Omega[where] = x
    Omega.T[where] = x
    d = np.sqrt(np.linalg.inv(Omega).diagonal())
    return Omega * np.outer(d, d)


@pytest.mark.parametrize(("m", "seed", "lam"), [(3, 0, 0.0), (6, 1, 0.05), (7, 5, 0.2), (9, 2, 0.0)])
def test_a_unit_diagonal_against_a_general_optimiser(m: int, seed: int, lam: float) -> None:
    scales = np.random.default_rng(seed).uniform(0.7, 1.5, m)
    S, A = sample_covariance(m, seed) * np.outer(scales, scales), random_support(m, seed, 0.6)
    Theta = constrained_glasso(S, A, lam, unit_diagonal=True)
    np.testing.assert_allclose(np.linalg.inv(Theta).diagonal(), 1.0, atol=1e-10)
    where = np.nonzero(np.tril(A, -1))
    count = len(where[0])

    def value(x: np.ndarray) -> float:
        Omega = np.eye(m)
        Omega[where] = x
        Omega.T[where] = x
        if np.linalg.eigvalsh(Omega)[0] <= 1e-9:
            return 1e6
        T = of_partial_correlations(x, where, m)
        return float(-np.linalg.slogdet(T)[1] + np.sum(S * T) + 2 * lam * np.abs(T[where]).sum())

    found = Theta[where] / np.sqrt(Theta.diagonal()[where[0]] * Theta.diagonal()[where[1]])
    np.testing.assert_allclose(of_partial_correlations(found, where, m), Theta, atol=1e-10)
    # Each |x| is divided into two parts that are not negative.
    others = [
        minimize(
            lambda parts: value(parts[:count] - parts[count:]),
            np.random.default_rng(start).uniform(0, 0.2, 2 * count),
            bounds=[(0.0, 1.0)] * (2 * count),
            method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 10**6, "ftol": 1e-13, "gtol": 1e-8},
        ).fun
        for start in range(2)
    ]
    assert value(found) <= min(others) + 1e-7
    # Stationary: no step along one coordinate gains more than its square would.
    for e in range(count):
        for step in (1e-4, -1e-4):
            moved = found.copy()
            moved[e] += step
            assert value(moved) > value(found) - 2e-6 * abs(step)
    scaled = np.linalg.inv(constrained_glasso(S, A, lam))
    sd = np.sqrt(scaled.diagonal())
    start = np.linalg.inv(scaled / np.outer(sd, sd))
    assert (
        value(found)
        <= value(start[where] / np.sqrt(start.diagonal()[where[0]] * start.diagonal()[where[1]])) + 1e-9
    )


def test_sparse_matrices_and_threads_change_nothing() -> None:
    groups = np.arange(60) // 6
    mask = groups[:, None] == groups[None, :]
    S = np.where(mask, sample_covariance(60, 6), 0.0)
    lam = np.where(mask, 0.05, 0.0)
    links = Links.from_groups(groups)
    dense = constrained_glasso(S, links, lam)
    sparse = constrained_glasso(csr_array(S), links, csr_array(lam), n_jobs=2)
    assert issparse(sparse)
    assert sparse.nnz <= mask.sum()
    assert np.array_equal(sparse.toarray(), dense)


def test_components_are_solved_apart() -> None:
    S = sample_covariance(9, 4)
    groups = np.array([0, 1, 2] * 3)
    together = constrained_glasso(S, Links.from_groups(groups), 0.05)
    for group in range(3):
        own = np.ix_(groups == group, groups == group)
        np.testing.assert_allclose(
            together[own], constrained_glasso(S[own], np.ones((3, 3)), 0.05), atol=1e-8
        )


@pytest.mark.parametrize(
    ("S", "penalty", "said"),
    [
        (np.ones((2, 3)), 0.1, "symmetric"),
        (np.zeros((3, 3)), 0.1, "variance"),
        (np.eye(3), -0.1, "not negative"),
    ],
)
def test_what_cannot_be_solved_is_said(S: np.ndarray, penalty: float, said: str) -> None:
    with pytest.raises(DataError, match=said):
        constrained_glasso(S, np.ones((3, 3)), penalty)
