"""Coefficients of edges and their standard errors, against ordinary least squares on the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag import BOSS, GES, PC, AutoDAG, DiscreteCounts, Graph, Notears, Parties, simulate
from polydag.regression import coefficients
from polydag.stats import GaussianStats, MixedStats, Regimes


def by_rows(X: np.ndarray, parents: list[int], j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ordinary least squares with an intercept: coefficients, standardised ones, standard errors."""
    design = np.column_stack([np.ones(len(X)), X[:, parents]])
    beta, *_ = np.linalg.lstsq(design, X[:, j], rcond=None)
    residual = X[:, j] - design @ beta
    variance = residual @ residual / (len(X) - design.shape[1])
    errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    return beta[1:], beta[1:] * X[:, parents].std(axis=0) / X[:, j].std(), errors[1:]


def partial_correlation(X: np.ndarray, i: int, j: int, given: list[int]) -> float:
    """The correlation of the residuals of both columns on the others."""
    design = np.column_stack([np.ones(len(X)), X[:, given]])
    ends = X[:, [i, j]]
    residuals = ends - design @ np.linalg.lstsq(design, ends, rcond=None)[0]
    return float(np.corrcoef(residuals.T)[0, 1])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_coefficients_are_those_of_least_squares(seed: int, scale: float) -> None:
    dag = simulate.dag(5, expected_edges=6, random_state=seed)
    X = simulate.linear(dag, n=60, random_state=seed).to_numpy() * [1, scale, 1, 1, scale] + 7
    found = coefficients(dag, GaussianStats.from_data(X))
    for j in range(5):
        parents = [int(i) for i in np.flatnonzero(dag.adjacency[:, j])]
        if not parents:
            continue
        for mine, expected in zip(found[:3], by_rows(X, parents, j), strict=True):
            np.testing.assert_allclose(mine[parents, j], expected, rtol=1e-6)
        for i in parents:
            rest = [k for k in parents if k != i]
            np.testing.assert_allclose(
                found.strengths[i, j], abs(partial_correlation(X, i, j, rest)), rtol=1e-6
            )
            assert found.strengths[j, i] == found.strengths[i, j]
    assert np.isnan(found.raw[~dag.adjacency]).all()


def test_standard_errors_are_those_of_repeated_samples() -> None:
    dag = Graph.from_edges("abc", [("a", "c", 1.0), ("b", "c", -0.5), ("a", "b", 0.7)])
    draws = [
        coefficients(dag, GaussianStats.from_data(simulate.linear(dag, n=80, random_state=seed)))
        for seed in range(300)
    ]
    a, c = dag.index("a"), dag.index("c")
    covered = [abs(one.raw[a, c] - dag.weights[a, c]) <= 1.99 * one.standard_errors[a, c] for one in draws]
    assert 0.91 <= np.mean(covered) <= 0.985


def test_a_class_has_coefficients_only_where_all_its_dags_agree() -> None:
    dag = Graph.from_edges("abcdef", [("a", "c", 1.0), ("b", "c", 1.0), ("c", "d", 1.0), ("e", "f", 1.0)])
    X = simulate.linear(dag, n=2000, random_state=1)
    for learner in (GES(), BOSS(), PC(alpha=1e-4), AutoDAG()):
        edges = learner.fit(X).edges_.set_index(["source", "target"])
        assert edges.loc[("a", "c"), "weight"] == pytest.approx(1.0, abs=0.1)
        assert 0.4 < edges.loc[("a", "c"), "standardized"] < 0.8
        assert 0.01 < edges.loc[("a", "c"), "standard_error"] < 0.05
        lines = edges[~edges["directed"]]
        assert len(lines) == 1
        assert lines[["weight", "standardized", "standard_error"]].isna().all(axis=None)
        assert lines["strength"].item() == pytest.approx(abs(X["e"].corr(X["f"])))
    # A neighbour that may or may not be a parent leaves the coefficients of the others open.
    open_ = Graph.from_edges("acd", [("a", "c")], undirected=[("c", "d")])
    assert np.isnan(coefficients(open_, GaussianStats.from_data(X[["a", "c", "d"]])).raw).all()


def test_labels_have_no_coefficients_and_sums_have_the_same() -> None:
    labels = pd.DataFrame(np.random.default_rng(1).integers(0, 2, (200, 2)), columns=["a", "b"]).astype(str)
    graph = Graph.from_edges("ab", [("a", "b")])
    found = coefficients(graph, DiscreteCounts.from_data(labels))
    assert all(np.isnan(array).all() for array in found[:3])
    X = simulate.linear(simulate.dag(5, n_edges=5, random_state=2), n=300, random_state=2)
    alone = Notears(lambda_=0.1).fit(X).edges_
    parties = Parties([X[:100], X[100:220], X[220:]], site_effects="none")
    together = Notears(lambda_=0.1).fit(parties).edges_
    pd.testing.assert_frame_equal(alone, together, rtol=1e-6)


def test_rows_in_which_a_variable_was_set_do_not_count_for_it() -> None:
    rng = np.random.default_rng(3)
    a = rng.normal(size=400)
    b = np.where(np.arange(400) < 200, 2 * a + rng.normal(size=400), rng.normal(size=400))
    X = np.column_stack([a, b])
    parts = Regimes({frozenset(): _stats(X[:200]), frozenset({"b"}): _stats(X[200:])})
    found = coefficients(Graph.from_edges("ab", [("a", "b")]), parts)
    beta, _, errors = by_rows(X[:200], [0], 1)
    assert found.raw[0, 1] == pytest.approx(beta[0])
    assert found.standard_errors[0, 1] == pytest.approx(errors[0])


def test_a_second_fit_has_coefficients_of_its_own() -> None:
    rng = np.random.default_rng(7)
    a = rng.normal(size=200)
    model = BOSS()
    for slope in (1.0, 3.0):
        X = pd.DataFrame({"a": a, "b": slope * a + rng.normal(size=200)})
        found = model.fit(X).coefficients_
        expected = coefficients(model.graph_, GaussianStats.from_data(X))
        for mine, right in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, right)


def _stats(X: np.ndarray) -> GaussianStats:
    return GaussianStats.from_data(pd.DataFrame(X, columns=["a", "b"]))


def test_the_strength_of_labels_is_their_information() -> None:
    rng = np.random.default_rng(5)
    b, c = rng.integers(0, 3, 500), rng.integers(0, 2, 500)
    a = (b + c + rng.integers(0, 2, 500)) % 3
    labels = pd.DataFrame({"a": a, "b": b, "c": c}).astype(str)
    graph = Graph.from_edges("abc", [("b", "a"), ("c", "a")])
    found = coefficients(graph, DiscreteCounts.from_data(labels)).strengths

    def entropy(*names: str) -> float:
        shares = labels.value_counts(list(names)) / len(labels)
        return float(-(shares * np.log(shares)).sum())

    information = entropy("b", "c") + entropy("a", "c") - entropy("c") - entropy("a", "b", "c")
    assert found[1, 0] == found[0, 1] == pytest.approx(np.sqrt(1 - np.exp(-2 * information)))
    assert np.isnan(found[1, 2])


def test_the_strength_between_a_label_and_a_number_is_that_of_the_label_s_columns() -> None:
    rng = np.random.default_rng(6)
    label = rng.integers(0, 3, 400)
    x = np.array([0.0, 1.0, -1.0])[label] + rng.normal(size=400)
    X = pd.DataFrame({"label": label.astype(str), "x": x})
    between = X.groupby("label")["x"].transform("mean")
    explained = between.var() / X["x"].var()
    for graph in (
        Graph.from_edges(["label", "x"], [("label", "x")]),
        Graph.from_edges(["label", "x"], [("x", "label")]),
    ):
        found = coefficients(graph, MixedStats.from_data(X, {"label": ("0", "1", "2")})).strengths
        assert found[0, 1] == found[1, 0] == pytest.approx(np.sqrt(explained))
