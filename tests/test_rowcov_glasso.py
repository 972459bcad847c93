"""The graphical lasso on a given support, against scikit-learn, a general solver, and its own conditions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.covariance import graphical_lasso

from polydag.errors import DataError
from polydag.rowcov import Links, constrained_glasso
from polydag.rowcov import _kernels as kernels


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
    assert kernels.factor(A, C)
    kernels.invert(C, W)
    np.testing.assert_allclose(C, np.linalg.cholesky(A), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(W @ A, np.eye(m), atol=1e-8)


@pytest.mark.parametrize("m", [2, 70, 400])
def test_an_indefinite_matrix_has_no_factor(m: int) -> None:
    A = np.eye(m)
    A[0, -1] = A[-1, 0] = 1.5
    assert not kernels.factor(A, np.empty((m, m)))


def test_a_factor_of_several_panels() -> None:
    A = np.random.default_rng(0).standard_normal((600, 600))
    A = A @ A.T + 600 * np.eye(600)
    C = np.empty_like(A)
    assert kernels.factor(A, C)
    np.testing.assert_allclose(C, np.linalg.cholesky(A), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("penalty", [0.02, 0.1, 0.4])
def test_without_zeros_it_is_the_usual_graphical_lasso(penalty: float) -> None:
    S = sample_covariance(12, 3)
    Theta = constrained_glasso(S, np.ones((12, 12)), penalty)
    _, expected = graphical_lasso(S, alpha=penalty, tol=5e-4, enet_tol=1e-9, max_iter=500)
    np.testing.assert_allclose(Theta, expected, atol=1e-3)


@given(st.integers(2, 9), st.integers(0, 10**6), st.floats(0.1, 0.9), st.sampled_from([0.0, 0.03, 0.2]))
@settings(max_examples=40, deadline=None)
def test_the_optimality_conditions_hold(m: int, seed: int, share: float, penalty: float) -> None:
    S, A = sample_covariance(m, seed), random_support(m, seed, share)
    lam = np.random.default_rng(seed).uniform(0.5, 1.5, (m, m)) * penalty
    lam = np.sqrt(lam * lam.T)
    Theta = constrained_glasso(S, A, lam)
    W = np.linalg.inv(Theta)
    assert not Theta[~A & ~np.eye(m, dtype=bool)].any()
    np.testing.assert_allclose(W.diagonal(), S.diagonal(), atol=1e-3)
    active = A & (Theta != 0)
    np.testing.assert_allclose((W - S)[active], (lam * np.sign(Theta))[active], atol=1e-3)
    assert (np.abs(W - S)[A] <= lam[A] + 1e-3).all()


def test_a_general_solver_finds_nothing_better() -> None:
    S, A = sample_covariance(5, 1), random_support(5, 2, 0.5)
    lam = 0.1
    rows, columns = np.nonzero(np.tril(A | np.eye(5, dtype=bool)))

    def unpack(x: np.ndarray) -> np.ndarray:
        Theta = np.zeros((5, 5))
        Theta[rows, columns] = x
        Theta[columns, rows] = x
        return Theta

    def value(Theta: np.ndarray) -> float:
        sign, log = np.linalg.slogdet(Theta)
        off = np.abs(Theta).sum() - np.abs(Theta.diagonal()).sum()
        return float(-log + np.sum(S * Theta) + lam * off) if sign > 0 else 1e9

    found = minimize(
        lambda x: value(unpack(x)),
        np.eye(5)[rows, columns],
        method="Nelder-Mead",
        options={"maxiter": 40_000, "maxfev": 40_000, "xatol": 1e-7, "fatol": 1e-10, "adaptive": True},
    )
    Theta = constrained_glasso(S, A, lam)
    assert value(Theta) <= found.fun + 1e-7
    np.testing.assert_allclose(value(Theta), found.fun, atol=1e-4)


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
