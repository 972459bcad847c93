"""Solvers, compared with finite differences, brute force and optimality conditions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag import orientation, simulate
from polydag.acyclicity import ACYCLICITY
from polydag.errors import DataError
from polydag.knowledge import Knowledge, Masks
from polydag.losses import LeastSquares
from polydag.optimize._penalised_kernels import elastic_net_columns, predicted_change, quadratic_and_lasso
from polydag.optimize.notears import follow_path, lambda_path, lasso_rates, order_start, solve, solve_path
from polydag.optimize.penalised import Penalty, descend
from polydag.optimize.pruning import prune
from polydag.optimize.variance_order import conditional_variance_order, predecessors
from polydag.regression import extended_bic_penalty, fit_graph, select_parents
from polydag.stats import GaussianStats, Regimes

pytestmark = pytest.mark.portable

Array = NDArray[np.float64]
quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def random_loss(rng: np.random.Generator, d: int, n: int = 60) -> LeastSquares:
    return LeastSquares.from_stats(GaussianStats.from_data(rng.normal(size=(n, d)) @ rng.normal(size=(d, d))))


def free(d: int) -> Masks:
    return Knowledge().masks([f"x{i}" for i in range(d)])


@pytest.mark.parametrize("name", ACYCLICITY)
@quick
@given(seeds)
def test_acyclicity_gradient_is_the_finite_difference(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    measure = ACYCLICITY[name]()
    V = rng.uniform(0, 0.15, (4, 4))
    _, gradient = measure.value_and_grad(V)
    step = 1e-6
    for i, j in itertools.product(range(4), range(4)):
        E = np.zeros((4, 4))
        E[i, j] = step
        slope = (measure.value_and_grad(V + E)[0] - measure.value_and_grad(V - E)[0]) / (2 * step)
        assert gradient[i, j] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("name", ACYCLICITY)
@quick
@given(seeds, st.integers(2, 8))
def test_acyclicity_is_zero_exactly_on_dags(name: str, seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    measure = ACYCLICITY[name]()
    V = np.triu(rng.uniform(0, 3, (d, d)), 1)
    shuffled = rng.permutation(d)
    assert measure.value_and_grad(V[np.ix_(shuffled, shuffled)])[0] == pytest.approx(0, abs=1e-10)
    V[1, 0] = 0.01
    V[0, 1] = 0.5
    assert measure.value_and_grad(V)[0] > 1e-3


def test_acyclicity_is_infinite_outside_its_domain() -> None:
    beyond = np.array([[0.0, 2.0], [2.0, 0.0]])
    assert ACYCLICITY["logdet"]().value_and_grad(beyond)[0] == np.inf
    assert ACYCLICITY["logdet"]().value_and_grad(beyond / 2)[0] == np.inf  # on the boundary: singular
    assert ACYCLICITY["expm"]().value_and_grad(beyond * 1e3)[0] == np.inf


@quick
@given(seeds, st.integers(2, 8), st.sampled_from([0.5, 1.0, 2.0, 4.0]))
def test_the_log_determinant_does_not_depend_on_units(seed: int, d: int, size: float) -> None:
    """Units are a diagonal similarity of V; squared weights of 10⁹ and more must not cost the domain."""
    rng = np.random.default_rng(seed)
    measure = ACYCLICITY["logdet"]()
    V = size * rng.uniform(0, 1 / d, (d, d)) * (rng.random((d, d)) < rng.uniform(0.2, 1.0))
    np.fill_diagonal(V, 0.0)
    V[0, -1] = max(V[0, -1], 0.1)
    units = 10.0 ** rng.uniform(-3, 3, d)
    units[0], units[-1] = 1e-3, 1e3
    ratio = (units / units[:, None]) ** 2
    radius = np.abs(np.linalg.eigvals(V)).max()
    assume(abs(radius - 1) > 1e-3)
    value, gradient = measure.value_and_grad(V)
    scaled, slope = measure.value_and_grad(V * ratio)
    assert np.isfinite(value) == np.isfinite(scaled) == (radius < 1)
    if radius < 1:
        assert scaled == pytest.approx(value, abs=1e-9)
        np.testing.assert_allclose(slope * ratio, gradient, rtol=0, atol=1e-9 * gradient.max())
    dag = np.triu(rng.uniform(0, 3, (d, d)), 1)
    dag[0, -1] = 1.0
    shuffled = rng.permutation(d)
    acyclic = (dag * ratio)[np.ix_(shuffled, shuffled)]
    assert measure.value_and_grad(acyclic)[0] == pytest.approx(0, abs=1e-12)


@quick
@given(seeds)
def test_loss_is_that_of_the_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 4)) + 5
    W = rng.normal(size=(4, 4))
    loss = LeastSquares.from_stats(GaussianStats.from_data(X))
    centred = X - X.mean(axis=0)
    value, gradient = loss.value_and_grad(W)
    assert value == pytest.approx(0.5 / 30 * ((centred - centred @ W) ** 2).sum())
    assert value == pytest.approx(loss.value(W))
    assert gradient == pytest.approx(-centred.T @ (centred - centred @ W) / 30)


def test_loss_of_regimes_scores_a_variable_by_the_rows_that_did_not_set_it() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    targets = [() if i < 20 else ("x1",) for i in range(40)]
    loss = LeastSquares.from_stats(Regimes.from_data(X, targets, GaussianStats.from_data))
    assert len(loss.grams) == 2
    assert loss.gram(0) == pytest.approx(np.cov(X.T, bias=True))
    assert loss.gram(1) == pytest.approx(np.cov(X[:20].T, bias=True))
    assert loss.n.tolist() == [40, 20, 40]


@quick
@given(seeds, st.floats(0.0, 1.0))
def test_coordinate_descent_meets_the_optimality_conditions(seed: int, rate: float) -> None:
    rng = np.random.default_rng(seed)
    d = 6
    loss = random_loss(rng, d)
    lasso = np.where(rng.random((d, d)) < 0.2, -1.0, rate)
    np.fill_diagonal(lasso, -1.0)
    ridge = rng.uniform(0, 1, (d, d))
    W = np.zeros((d, d))
    R = loss.residual_covariance(W)
    elastic_net_columns(loss.grams, loss.group, W, R, lasso, ridge, 1e-12, 100_000)
    assert np.allclose(R, loss.residual_covariance(W.T), rtol=0, atol=1e-7)
    slope = R - ridge * W
    scale = max(1.0, np.abs(loss.grams).max())
    inside, out = (W != 0), (W == 0) & (lasso >= 0)
    assert slope[inside] == pytest.approx((lasso * np.sign(W))[inside], abs=1e-6 * scale)
    assert (np.abs(slope[out]) <= lasso[out] + 1e-6 * scale).all()
    assert (W[lasso < 0] == 0).all()


@quick
@given(seeds)
def test_one_pass_kernels_equal_their_numpy_twins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    W, R, C, T, ridge, cost = rng.normal(size=(6, 6, 6))
    cost = np.abs(cost)
    expected = 0.5 * ((C - W) * R).sum() + (cost * np.abs(W)).sum()
    assert quadratic_and_lasso(W, R, C, cost) == pytest.approx(expected)
    slope = ((ridge * W - R) * (T - W)).sum() + (cost * (np.abs(T) - np.abs(W))).sum()
    assert predicted_change(W, R, T, ridge, cost) == pytest.approx(slope)


@pytest.mark.parametrize("name", ACYCLICITY)
@quick
@given(seeds)
def test_every_step_descends_and_the_end_is_stationary(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, rate, mu = 5, 0.1, 0.05
    loss = random_loss(rng, d)
    lasso = lasso_rates(rate, free(d))
    measure = ACYCLICITY[name]()
    penalty = Penalty(lambda h: h / mu, lambda h: 1 / mu)
    W = np.zeros((d, d))
    before = np.inf
    for _ in range(15):
        point = descend(loss, lasso, measure, penalty, W, max_iter=1)
        assert point.objective <= before + 1e-12
        before, W = point.objective, point.W
    point = descend(loss, lasso, measure, penalty, W, tolerance=1e-14, max_iter=20_000)
    h, slope = measure.value_and_grad(point.W**2)
    assert point.objective == pytest.approx(loss.value(point.W) + rate * np.abs(point.W).sum() + h / mu)
    gradient = loss.value_and_grad(point.W)[1] + 2 * slope * point.W / mu
    inside = point.W != 0
    close = 2e-3 * max(1.0, np.abs(loss.grams).max())
    assert gradient[inside] == pytest.approx(-rate * np.sign(point.W)[inside], abs=close)
    rest = ~inside & (lasso >= 0)
    assert (np.abs(gradient[rest]) <= rate + close).all()


def test_a_start_outside_the_domain_is_refused() -> None:
    loss = random_loss(np.random.default_rng(0), 2)
    penalty = Penalty(lambda h: h, lambda h: 1.0)
    with pytest.raises(ValueError, match="outside the domain"):
        descend(loss, lasso_rates(0.1, free(2)), ACYCLICITY["logdet"](), penalty, np.full((2, 2), 2.0))


def best_subset(S: Array, j: int, candidates: list[int], n: float, penalty: float) -> float:
    scores = []
    for size in range(len(candidates) + 1):
        for chosen in itertools.combinations(candidates, size):
            c = list(chosen)
            left = S[j, j] - S[j, c] @ np.linalg.solve(S[np.ix_(c, c)], S[c, j]) if c else S[j, j]
            scores.append(n * np.log(left) + penalty * size)
    return min(scores)


@quick
@given(seeds)
def test_elimination_gives_least_squares_and_rarely_misses_the_best_subset(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, n = 6, 200
    X = rng.normal(size=(n, d))
    X[:, 5] += X[:, :2] @ [1.0, -0.7]
    S = np.cov(X.T, bias=True)
    candidates = np.arange(d) < 5
    penalty = extended_bic_penalty(n, d)
    family = select_parents(S, 5, candidates, np.zeros(d, dtype=bool), n, penalty)
    chosen = np.flatnonzero(family.coefficients)
    expected = np.linalg.lstsq(X[:, chosen] - X[:, chosen].mean(0), X[:, 5] - X[:, 5].mean(), rcond=None)
    assert family.coefficients[chosen] == pytest.approx(expected[0], abs=1e-9)
    assert family.variance == pytest.approx(expected[1][0] / n)
    reached = n * np.log(family.variance) + penalty * len(chosen)
    assert reached == pytest.approx(best_subset(S, 5, list(range(5)), n, penalty), abs=1e-6)


def test_elimination_keeps_what_it_must_and_never_more_than_half_the_rows() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(10, 9))
    S = np.cov(X.T, bias=True)
    keep = np.arange(9) == 3
    family = select_parents(S, 8, np.arange(9) < 8, keep, 10, 5.0)
    assert family.coefficients[3] != 0
    assert np.count_nonzero(family.coefficients) <= 5
    assert np.isfinite(family.coefficients).all()


def test_the_order_is_exact_on_the_population_with_equal_variances() -> None:
    for seed in range(20):
        dag = simulate.dag(12, expected_edges=20, random_state=seed)
        inverse = np.linalg.inv(np.eye(12) - dag.weights)
        loss = LeastSquares.from_stats(GaussianStats.from_covariance(inverse.T @ inverse, n=1e6))
        order, sound = conditional_variance_order(loss, free(12))
        assert sound
        assert not (dag.adjacency & ~predecessors(order)).any()


def test_the_order_follows_knowledge() -> None:
    rng = np.random.default_rng(0)
    loss = random_loss(rng, 4)
    names = list(loss.names)
    tiers = Knowledge(tiers=[["x3"], ["x1", "x2"], ["x0"]]).masks(names)
    order, _ = conditional_variance_order(loss, tiers)
    assert order[0] == 3
    assert order[3] == 0
    circle = [
        ("x0", "x1"),
        ("x1", "x2"),
        ("x2", "x0"),
    ]  # preferences that form a cycle, and one required edge
    wishes = Knowledge(forbidden=circle, required=[("x3", "x0")]).masks(names)
    order, _ = conditional_variance_order(loss, wishes)
    assert sorted(order) == [0, 1, 2, 3]
    assert order.index(3) < order.index(0)


def brute_force_objective(loss: LeastSquares, rate: float) -> float:
    """The lowest objective over all orders, with a lasso of each variable on its predecessors."""
    d = loss.d
    best = np.inf
    for order in itertools.permutations(range(d)):
        lasso = np.where(predecessors(list(order)), rate, -1.0).T.copy()
        W = np.zeros((d, d))
        R = loss.residual_covariance(W)
        elastic_net_columns(loss.grams, loss.group, W, R, lasso, np.zeros((d, d)), 1e-9, 10_000)
        best = min(best, loss.value(W.T) + rate * np.abs(W).sum())
    return best


@pytest.mark.parametrize("name", ACYCLICITY)
def test_the_path_ends_near_the_best_of_all_orders(name: str) -> None:
    measure = ACYCLICITY[name]()
    gaps = []
    for seed in range(10):
        dag = simulate.dag(5, expected_edges=6, random_state=seed)
        loss = LeastSquares.from_stats(
            GaussianStats.from_data(simulate.linear(dag, n=200, random_state=seed))
        )
        solution = solve(loss, 0.1, measure, free(5))
        assert solution.converged
        gaps.append(solution.objective / brute_force_objective(loss, 0.1) - 1)
    assert max(gaps) < 0.05
    assert np.median(gaps) < 0.001


def test_the_penalties_follow_the_units_and_warm_starts_help() -> None:
    dag = simulate.dag(8, expected_edges=10, random_state=0)
    X = simulate.linear(dag, n=300, random_state=0)
    loss = LeastSquares.from_stats(GaussianStats.from_data(X))
    path = lambda_path(loss)
    assert path == sorted(path, reverse=True)
    assert lambda_path(LeastSquares.from_stats(GaussianStats.from_data(X * 10))) == pytest.approx(
        [value * 100 for value in path]
    )
    measure = ACYCLICITY["logdet"]()
    for solution in solve_path(loss, path, measure, free(8)):
        start = order_start(loss, solution.lambda_, free(8))
        alone = follow_path(loss, solution.lambda_, measure, free(8), start, "order", 1e-2)
        assert solution.objective <= alone.objective + 1e-12


@quick
@given(seeds, st.sampled_from([0.3, "ebic"]))
def test_pruning_always_gives_a_dag_with_the_required_edges(seed: int, threshold: float | str) -> None:
    rng = np.random.default_rng(seed)
    d = 6
    loss = random_loss(rng, d)
    W = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.7)
    masks = Knowledge(required=[("x0", "x1"), ("x1", "x4")], forbidden=[("x2", "x3")]).masks(loss.names)
    W[masks.forbidden] = 0.0
    result = prune(loss, W, masks, threshold)  # type: ignore[arg-type]
    graph = (result.weights != 0) | masks.required
    assert orientation.topological_order(graph) is not None
    assert not (graph & masks.forbidden).any()
    gone = {(i, j) for i, j, _ in result.removed}
    assert gone == {(int(i), int(j)) for i, j in np.argwhere(((W != 0) | masks.required) & ~graph)}
    assert result.weights == pytest.approx(fit_graph(loss, graph, masks.required, None)[0], abs=1e-8)


def test_a_required_cycle_cannot_be_kept() -> None:
    ring = np.roll(np.eye(3, dtype=bool), 1, axis=1)
    loss = random_loss(np.random.default_rng(0), 3)
    with pytest.raises(DataError):
        prune(loss, np.zeros((3, 3)), Masks(ring, np.eye(3, dtype=bool)), "ebic")
