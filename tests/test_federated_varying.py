"""Parties that differ: a shared graph, each party's own coefficients; votes at a penalty chosen together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from over_parties import learned
from polydag import GaussianStats, Graph, Knowledge, Regimes, metrics, simulate
from polydag.errors import DataError, UsageError
from polydag.federated.methods.varying_party import VaryingParty, family_losses, ridge_weights

quick = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**31 - 1)


def different(seed: int, d: int = 8, k: int = 5, n: int = 60) -> tuple[Graph, list[pd.DataFrame]]:
    """Parties with one graph, and with weights of any sign and means of their own."""
    rng = np.random.default_rng(seed)
    dag = simulate.dag(d, expected_edges=d, random_state=rng)
    tables = []
    for _ in range(k):
        size = rng.uniform(0.5, 2, (d, d)) * rng.choice([-1, 1], (d, d))
        own = Graph.from_weights(np.where(dag.adjacency, size, 0.0), dag.names)
        tables.append(simulate.linear(own, n=n, random_state=rng) + rng.normal(size=d) * 3)
    return dag, tables


@quick
@given(seeds)
def test_ridge_weights_are_the_minimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = 4
    X = rng.normal(size=(9, d)) @ rng.normal(size=(d, d))
    S = X.T @ X / 9
    ridge = rng.uniform(0, 1, (d, d))
    ridge[rng.random((d, d)) < 0.3] = np.inf
    np.fill_diagonal(ridge, np.inf)
    W = ridge_weights(S, ridge)
    assert not W[np.isinf(ridge)].any()
    for j in range(d):
        free = np.flatnonzero(np.isfinite(ridge[:, j]))

        def cost(w: np.ndarray, j: int = j, free: np.ndarray = free) -> float:
            full = -np.eye(d)[j]
            full[free] += w
            return float(0.5 * full @ S @ full + 0.5 * (ridge[free, j] * w**2).sum())

        if len(free):
            best = minimize(cost, np.zeros(len(free)), options={"gtol": 1e-9})
            assert cost(W[free, j]) <= best.fun + 1e-8


@quick
@given(seeds)
def test_losses_of_families_are_those_of_regression(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 5)) @ rng.normal(size=(5, 5))
    X -= X.mean(axis=0)
    targets = rng.integers(0, 5, 6)
    parents = rng.random((6, 5)) < 0.5
    parents[np.arange(6), targets] = False
    found = family_losses(X.T @ X, targets, parents)
    for loss, j, own in zip(found, targets, parents, strict=True):
        rest = X[:, j] - X[:, own] @ np.linalg.lstsq(X[:, own], X[:, j], rcond=None)[0]
        assert loss == pytest.approx(rest @ rest, rel=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_one_graph_where_pooling_would_mix_up_the_signs(seed: int) -> None:
    dag, tables = different(seed)
    model = learned(tables, method="varying")
    pooled = learned(tables, method="moments")
    assert metrics.shd(true=dag, estimate=model.graph_) <= 1
    assert metrics.shd(true=dag, estimate=pooled.graph_) > 3
    assert model.converged_
    assert model.graph_.is_dag
    for table, (name, own) in zip(tables, model.party_weights_.items(), strict=True):
        assert name in set(model.disclosure_["site"])
        assert not own[~model.graph_.adjacency].any()
        centred = (table - table.mean()).to_numpy()
        for j in range(len(dag.names)):
            parents = model.graph_.adjacency[:, j]
            expected = np.linalg.lstsq(centred[:, parents], centred[:, j], rcond=None)[0]
            assert own[parents, j] == pytest.approx(expected, abs=1e-6)
    sizes = np.array([len(table) for table in tables], dtype=float)
    mean = np.einsum("k,kij->ij", sizes / sizes.sum(), np.array(list(model.party_weights_.values())))
    assert model.weights_ == pytest.approx(mean)


def test_what_leaves_a_party_that_differs() -> None:
    _, tables = different(3, d=5, k=3)
    ledger = learned(tables, method="varying", lambda_=0.2, privacy="none").disclosure_
    assert set(ledger["name"]) == {
        "rows", "squares", "log_scales", "squared weights", "residual squares", "weights"
    }  # fmt: skip
    assert (ledger["name"] == "weights").sum() == len(tables)  # the mean coefficients, once
    ledger = learned(tables, method="varying", privacy="none").disclosure_
    assert (ledger["name"] == "scatter").sum() == len(tables)  # for one more candidate, once


@pytest.mark.parametrize("method", ["varying", "voting"])
@pytest.mark.parametrize("seed", [1700, 1708])
def test_parties_that_are_alike_lose_little_by_learning_apart(method: str, seed: int) -> None:
    """Each has local optima of its own: with these data six and three edges were wrong."""
    dag = simulate.dag(15, expected_edges=30, random_state=seed)
    rows = simulate.linear(dag, n=480, random_state=seed + 10_000)
    model = learned([rows.iloc[part] for part in np.array_split(np.arange(480), 6)], method=method)
    assert metrics.shd_cpdag(true=dag, estimate=model.graph_) <= 1
    assert model.converged_


@pytest.mark.filterwarnings("ignore:Only set has rows in which b was set")
def test_parties_that_differ_and_have_set_variables() -> None:
    names = ["a", "b", "c"]
    rng = np.random.default_rng(0)
    parts = {}
    for k, weight in enumerate((1.5, -1.5, 1.0)):
        truth = Graph.from_edges(names, [("a", "b", weight), ("b", "c", -weight)])
        parts[f"watched {k}"] = GaussianStats.from_data(simulate.linear(truth, n=200, random_state=rng))
    cut = Graph.from_edges(names, [("b", "c", 1.0)])
    for k in range(3):  # fewer would be shown by the sums of such rows
        rows = simulate.linear(cut, n=200, noise_scale=np.array([1.0, 3.0, 1.0]), random_state=rng)
        parts[f"set {k}"] = Regimes({frozenset({"b"}): GaussianStats.from_data(rows)})
    model = learned(parts, method="varying")
    assert {(edge.source, edge.target) for edge in model.graph_.edges()} == {("a", "b"), ("b", "c")}
    assert model.party_weights_["watched 1"][0, 1] == pytest.approx(-1.5, abs=0.2)


@pytest.mark.parametrize("method", ["admm", "moments", "varying"])
def test_a_variable_that_was_always_set_is_told(method: str) -> None:
    rng = np.random.default_rng(0)
    parts = {
        f"site {k}": Regimes(
            {frozenset({"b"}): GaussianStats.from_data(rng.normal(size=(30, 2)), names=["a", "b"])}
        )
        for k in range(3)
    }
    with pytest.raises(DataError, match="b was set in every row of every party"):
        learned(parts, method=method)


def test_knowledge_goes_with_parties_that_differ() -> None:
    dag, tables = different(1)
    edge = dag.edges()[0]
    known = Knowledge(forbidden=[(edge.source, edge.target)], required=[(edge.target, edge.source)])
    found = learned(tables, method="varying", knowledge=known).graph_
    pairs = {(e.source, e.target) for e in found.edges()}
    assert (edge.target, edge.source) in pairs
    assert (edge.source, edge.target) not in pairs
    assert found.is_dag


def test_a_site_without_rows_for_a_variable_adds_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 3))
    local = VaryingParty(Regimes({frozenset({"b"}): GaussianStats.from_data(rows, names=list("abc"))}))
    covariance = local.own_covariance(np.array([0, 1, 0]))
    assert not covariance[1].any()
    assert covariance[0] == pytest.approx(np.cov(rows.T, bias=True))


def test_votes_at_a_penalty_that_the_sum_of_losses_chooses() -> None:
    dag = simulate.dag(8, expected_edges=8, random_state=1)
    rows = simulate.linear(dag, n=300, random_state=2)
    parts = [rows.iloc[part] for part in np.array_split(np.arange(len(rows)), 4)]
    model = learned(parts, method="voting", privacy="none")
    assert metrics.shd(true=dag, estimate=model.graph_) <= 3
    assert sorted(set(model.history_["lambda_"])) == pytest.approx(
        sorted(model.history_["lambda_"].max() / 2**k for k in range(5))
    )
    assert model.lambda_used_ in set(model.history_["lambda_"])
    assert set(model.disclosure_["name"]) == {
        "rows",
        "mass",
        "sums",
        "rank",
        "log_scales",
        "squares",
        "edges",
        "weights",
        "families",
    }
    fixed = learned(parts, method="voting", lambda_=model.lambda_used_, privacy="none")
    assert np.array_equal(fixed.votes_, model.votes_)
    assert fixed.n_rounds_ == 1
    assert fixed.lambda_used_ == model.lambda_used_
    setting = {"method": "voting", "lambda_": "stability", "privacy": "none", "random_state": 0}
    stable = learned(parts, **setting)
    assert stable.lambda_used_ in set(model.history_["lambda_"])


def test_a_learner_of_its_own_chooses_its_own_penalty() -> None:
    from polydag import EqualVariance

    _, tables = different(0, d=4, k=4)
    with pytest.raises(UsageError, match="stability"):
        learned(tables, method="voting", learner=EqualVariance(), lambda_="stability", privacy="none")
