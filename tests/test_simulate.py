"""Simulation: structure and size of graphs, moments of data compared with formulas, and seeds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit

from polydag import Graph, simulate
from polydag.embedded import asia
from polydag.errors import DataError, UsageError
from polydag.simulate.sem import NOISES
from polydag.simulate.series import spectral_radius


@given(st.integers(1, 25), st.floats(0, 1), st.sampled_from(["er", "sf"]), st.booleans(), st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_dags_are_acyclic_with_the_edges_asked_for(
    d: int, share: float, kind: str, exact: bool, seed: int
) -> None:
    asked = share * d * (d - 1) / 2
    amount = {"n_edges": int(asked)} if exact else {"expected_edges": asked}
    graph = simulate.dag(d, **amount, kind=kind, weight_range=(0.1, 1.0), random_state=seed)
    assert graph.is_dag
    assert graph.names == tuple(f"x{i}" for i in range(d))
    sizes = np.abs(graph.weights[graph.adjacency])
    assert ((sizes >= 0.1) & (sizes <= 1.0)).all()
    if exact:
        assert graph.n_edges == int(asked)
    elif kind == "sf":
        assert abs(graph.n_edges - asked) < 1
    assert graph == simulate.dag(d, **amount, kind=kind, weight_range=(0.1, 1.0), random_state=seed)


def test_er_graphs_have_the_expected_count_and_no_preferred_place() -> None:
    rng = np.random.default_rng(0)
    total = np.zeros((6, 6))
    signs = []
    for _ in range(2000):
        graph = simulate.dag(6, expected_edges=6, random_state=rng)
        total += graph.adjacency
        signs += np.sign(graph.weights[graph.adjacency]).tolist()
    off = ~np.eye(6, dtype=bool)
    # Each ordered pair has probability 6 / 15 / 2; the tolerance is five standard errors.
    assert np.abs(total[off] / 2000 - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / 2000)
    assert abs(np.mean(signs)) < 5 / np.sqrt(len(signs))


def test_scale_free_graphs_have_hubs() -> None:
    def largest(kind: str) -> float:
        graphs = [simulate.dag(100, expected_edges=200, kind=kind, random_state=s) for s in range(10)]
        return float(np.mean([g.adjacency.sum(axis=0).max() for g in graphs]))

    assert largest("sf") > 2 * largest("er")


def test_dag_usage_errors() -> None:
    for wrong in ({}, {"expected_edges": 1, "n_edges": 1}):
        with pytest.raises(UsageError, match="either expected_edges or n_edges"):
            simulate.dag(5, **wrong)
    with pytest.raises(UsageError, match="between 0 and 10 edges; got 11"):
        simulate.dag(5, n_edges=11)
    with pytest.raises(UsageError, match='"er" or "sf"'):
        simulate.dag(5, n_edges=1, kind="ba")
    with pytest.raises(UsageError, match="0 < low <= high"):
        simulate.dag(5, n_edges=1, weight_range=(2.0, 1.0))


def test_weights_keep_the_graph_and_need_directions() -> None:
    graph = simulate.dag(10, n_edges=20, names="abcdefghij", random_state=0)
    other = simulate.weights(graph, 0.1, 0.2, random_state=0)
    assert other.names == graph.names
    assert np.array_equal(other.adjacency, graph.adjacency)
    assert np.abs(other.weights).max() <= 0.2
    with pytest.raises(DataError, match="undirected"):
        simulate.weights(Graph.from_edges(["a", "b"], undirected=[("a", "b")]))


def implied_covariance(graph: Graph, variances: np.ndarray) -> np.ndarray:
    inverse = np.linalg.inv(np.eye(graph.n_nodes) - graph.weights)
    return inverse.T @ np.diag(variances) @ inverse


def close_to_covariance(X: np.ndarray, expected: np.ndarray, rows: float) -> bool:
    """All entries are within 5.5 standard errors of a Gaussian covariance (twice that for heavy tails)."""
    error = np.sqrt((np.outer(expected.diagonal(), expected.diagonal()) + expected**2) / rows)
    return bool((np.abs(np.cov(X.T) - expected) < 2 * 5.5 * error).all())


@pytest.mark.parametrize("noise", list(NOISES))
def test_linear_covariance(noise: str) -> None:
    graph = simulate.dag(8, n_edges=12, random_state=1)
    scales = np.linspace(0.5, 2.0, 8)
    X = simulate.linear(graph, n=20_000, noise=noise, noise_scale=scales, random_state=2)
    assert list(X.columns) == list(graph.names)
    assert close_to_covariance(X.to_numpy(), implied_covariance(graph, scales**2), 20_000)
    errors = X.to_numpy() @ (np.eye(8) - graph.weights)
    assert np.abs(errors.mean(axis=0) / scales).max() < 5 / np.sqrt(20_000)
    shape = {
        "gaussian": stats.norm(),
        "exponential": stats.expon(loc=-1),
        "gumbel": stats.gumbel_r(loc=-np.euler_gamma * np.sqrt(6) / np.pi, scale=np.sqrt(6) / np.pi),
        "uniform": stats.uniform(-np.sqrt(3), 2 * np.sqrt(3)),
        "laplace": stats.laplace(scale=np.sqrt(0.5)),
    }[noise]
    assert stats.kstest((errors / scales).ravel()[:20_000], shape.cdf).pvalue > 1e-4


def test_linear_options() -> None:
    graph = simulate.dag(6, n_edges=9, random_state=0)
    X = simulate.linear(graph, n=500, standardize=True, random_state=1)
    np.testing.assert_allclose(X.mean(), 0, atol=1e-12)
    np.testing.assert_allclose(X.std(ddof=0), 1, rtol=1e-12)
    X = simulate.linear(graph, n=5000, noise_scale=(0.1, 1.0), random_state=1)
    sd = (X.to_numpy() @ (np.eye(6) - graph.weights)).std(axis=0)
    assert sd.min() > 0.09
    assert sd.max() < 1.05
    assert np.ptp(sd) > 0.2
    for wrong in (0.0, (2.0, 1.0), [1.0, 2.0], -np.ones(6)):
        with pytest.raises(UsageError, match="noise_scale"):
            simulate.linear(graph, n=5, noise_scale=wrong)
    with pytest.raises(UsageError, match="noise must be one of gaussian"):
        simulate.linear(graph, n=5, noise="cauchy")
    with pytest.raises(UsageError, match="at least 1"):
        simulate.linear(graph, n=0)
    with pytest.raises(DataError, match="directed cycle"):
        simulate.linear(Graph([[0, 1, 0], [0, 0, 1], [1, 0, 0]]), n=5)


def test_mlp_is_a_sigmoid_network_of_the_parents() -> None:
    graph = Graph.from_edges(["z", "x", "y"], [("x", "z"), ("y", "z")])
    X = simulate.mlp(graph, n=4000, hidden=3, noise_scale=0.01, random_state=0)
    assert list(X.columns) == ["z", "x", "y"]
    inputs, output = X[["x", "y"]].to_numpy(), X["z"].to_numpy()
    # Roots are pure noise; the child is bounded by the sum of its outer weights.
    assert X[["x", "y"]].std().to_numpy() == pytest.approx([0.01, 0.01], rel=0.1)
    assert np.abs(output).max() < 3 * 2 + 0.1
    # With one hidden unit the function has three unknowns: after fitting them, only noise remains.
    single = simulate.mlp(graph, n=4000, hidden=1, noise_scale=[0.1, 1.0, 1.0], random_state=0)
    from scipy.optimize import least_squares

    inputs, output = single[["x", "y"]].to_numpy(), single["z"].to_numpy()

    def residual(v: np.ndarray) -> np.ndarray:
        return expit(inputs @ v[:2]) * v[2] - output

    fits = [least_squares(residual, start) for start in ([1, 1, 1], [1, -1, 1], [1, 1, -1], [1, -1, -1])]
    best = min(fits, key=lambda fit: fit.cost)
    assert np.std(best.fun) == pytest.approx(0.1, rel=0.1)
    assert ((np.abs(best.x) > 0.45) & (np.abs(best.x) < 2.05)).all()


def test_lagged_covariances_solve_the_model() -> None:
    sample = simulate.lagged(4, n_steps=30_000, n_lags=2, noise_scale=(0.5, 1.0), random_state=3)
    X = sample.data[list(sample.instantaneous.names)].to_numpy()
    W, (A1, A2) = sample.instantaneous.weights, sample.lags
    errors = X[2:] @ (np.eye(4) - W) - X[1:-1] @ A1 - X[:-2] @ A2
    covariance = np.cov(errors.T)
    sd = np.sqrt(covariance.diagonal())
    assert ((sd > 0.49) & (sd < 1.02)).all()
    # The residuals are noise: uncorrelated across variables, over time, and with past values.
    past = np.hstack([errors[1:], errors[:-1], X[1:-2], X[:-3]])
    correlation = np.corrcoef(past.T)
    assert np.abs(correlation[:4, :4] - np.eye(4)).max() < 5 / np.sqrt(30_000)
    assert np.abs(correlation[:4, 4:]).max() < 5 / np.sqrt(30_000)


@given(st.integers(1, 8), st.integers(1, 3), st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_lagged_models_are_stationary_and_tables_are_long(d: int, n_lags: int, seed: int) -> None:
    sample = simulate.lagged(d, n_steps=7, n_lags=n_lags, n_realisations=2, random_state=seed)
    assert list(sample.data.columns[:2]) == ["realisation", "t"]
    assert sample.data["realisation"].tolist() == [0] * 7 + [1] * 7
    assert sample.data["t"].tolist() == [*range(7)] * 2
    assert sample.instantaneous.is_dag
    assert spectral_radius(sample.instantaneous.weights, sample.lags) <= 0.95 + 1e-9
    within = np.abs(sample.instantaneous.weights[sample.instantaneous.adjacency])
    assert ((within >= 0.3) & (within <= 0.8)).all()
    assert all(np.abs(lag).max() <= 0.8 for lag in sample.lags)


def test_lagged_sizes_and_reserved_names() -> None:
    draws = [simulate.lagged(30, n_steps=1, random_state=s) for s in range(20)]
    assert np.mean([s.instantaneous.n_edges for s in draws]) == pytest.approx(30, abs=6)
    assert np.mean([np.count_nonzero(s.lags[0]) for s in draws]) == pytest.approx(30, abs=6)
    assert all(np.abs(s.lags[0][s.lags[0] != 0]).min() >= 0.3 for s in draws)
    with pytest.raises(UsageError, match="cannot be called t"):
        simulate.lagged(2, n_steps=5, names=["t", "u"])
    with pytest.raises(UsageError, match="at least 1"):
        simulate.lagged(2, n_steps=0)


def test_row_covariances_are_those_of_the_paper() -> None:
    toeplitz = simulate.row_covariance("toeplitz", 12)
    assert toeplitz[0, 10] == pytest.approx(0.3**2)
    assert simulate.row_covariance("toeplitz", 12, base=0.7)[3, 8] == pytest.approx(0.7)
    # A Markov chain: the inverse is tridiagonal.
    assert np.abs(np.triu(np.linalg.inv(toeplitz), 2)).max() < 1e-9
    star = simulate.row_covariance("star", 6, random_state=0)
    assert 0.3 <= star[0, 3] <= 0.5
    assert star[2, 4] == pytest.approx(star[0, 3] ** 2)
    assert np.abs(np.triu(np.linalg.inv(star)[1:, 1:], 1)).max() < 1e-12
    precision = np.linalg.inv(simulate.row_covariance("ar", 20))
    apart = np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    assert np.abs(precision[apart > 5]).max() < 1e-9
    scale = np.sqrt(precision.diagonal())
    np.testing.assert_allclose((precision / np.outer(scale, scale))[apart == 3], 0.7**3)
    for kind in ("toeplitz", "equi", "star", "ar"):
        Sigma = simulate.row_covariance(kind, 30, random_state=0)
        np.testing.assert_array_equal(Sigma, Sigma.T)
        np.testing.assert_array_equal(Sigma.diagonal(), 1)
        assert np.linalg.eigvalsh(Sigma)[0] > 0
    with pytest.raises(UsageError, match="At size 10"):
        simulate.row_covariance("ar", 10)
    with pytest.raises(UsageError, match="toeplitz, equi, star or ar"):
        simulate.row_covariance("exchangeable", 10)


@pytest.mark.parametrize("kind", ["toeplitz", "equi", "star", "ar"])
def test_clusters_cover_the_rows(kind: str) -> None:
    blocks = simulate.clusters(kind, 100, 30, random_state=0)
    assert [len(block) for block in blocks] == [30, 30, 30, 10]
    assert all(np.linalg.eigvalsh(block)[0] > 0 for block in blocks)
    if kind == "star":
        assert len({block[0, 1] for block in blocks}) == 4


@given(st.integers(1, 12), st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_network_precision_has_the_links_and_unit_variances(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    links = np.triu(rng.random((n, n)) < 0.3, 1)
    Theta = simulate.network_precision(links, random_state=seed)
    assert np.array_equal(Theta != 0, links | links.T | np.eye(n, dtype=bool))
    np.testing.assert_array_equal(Theta, Theta.T)
    assert np.linalg.eigvalsh(Theta)[0] > 0
    np.testing.assert_allclose(np.linalg.inv(Theta).diagonal(), 1, rtol=1e-9)
    assert np.array_equal(Theta, simulate.network_precision(Graph(links), random_state=seed))


def test_linked_rows_have_both_covariances() -> None:
    graph = simulate.dag(6, n_edges=9, weight_range=(0.1, 1.0), random_state=0)
    Sigma = [simulate.row_covariance("toeplitz", 4), simulate.row_covariance("equi", 3)]
    omega = np.linspace(0.3, 1.0, 6)
    rng = np.random.default_rng(1)
    draws = np.array(
        [
            simulate.linked(graph, row_covariance=Sigma, noise_scale=omega, random_state=rng)
            for _ in range(1000)
        ]
    )
    errors = draws @ (np.eye(6) - graph.weights) / omega
    by_row = errors.transpose(0, 2, 1).reshape(-1, 7)
    expected = np.zeros((7, 7))
    expected[:4, :4], expected[4:, 4:] = Sigma
    assert close_to_covariance(by_row, expected, len(by_row))
    assert close_to_covariance(draws[:, 5], implied_covariance(graph, omega**2), 1000)


def test_linked_takes_one_matrix_or_blocks_and_checks_them() -> None:
    graph = simulate.dag(3, n_edges=2, random_state=0)
    Sigma = simulate.row_covariance("equi", 5)
    one = simulate.linked(graph, row_covariance=Sigma, random_state=0)
    assert one.equals(simulate.linked(graph, row_covariance=[Sigma], random_state=0))
    assert one.equals(simulate.linked(graph, row_covariance=Sigma.tolist(), random_state=0))
    identity = simulate.linked(graph, row_covariance=np.eye(5), random_state=0)
    assert identity.equals(simulate.linear(graph, n=5, random_state=0))
    for wrong, message in (
        (2 * np.eye(3), "unit diagonal"),
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ([[1.0, 0.5], [0.0, 1.0]], "symmetric"),
    ):
        with pytest.raises(DataError, match=message):
            simulate.linked(graph, row_covariance=wrong)


def test_the_same_seed_gives_the_same_data() -> None:
    graph = simulate.dag(5, n_edges=6, random_state=0)
    draws = {
        "linear": lambda s: simulate.linear(graph, n=20, noise="gumbel", noise_scale=(1, 2), random_state=s),
        "mlp": lambda s: simulate.mlp(graph, n=20, random_state=s),
        "lagged": lambda s: simulate.lagged(3, n_steps=20, random_state=s).data,
        "discrete": lambda s: simulate.discrete(asia(), n=20, random_state=s),
        "linked": lambda s: simulate.linked(
            graph, row_covariance=simulate.clusters("star", 20, 10, random_state=7), random_state=s
        ),
    }
    for name, draw in draws.items():
        first = draw(1)
        assert isinstance(first, pd.DataFrame)
        pd.testing.assert_frame_equal(first, draw(1))
        pd.testing.assert_frame_equal(first, draw(np.random.default_rng(1)), obj=name)
        assert not first.equals(draw(2)), name
