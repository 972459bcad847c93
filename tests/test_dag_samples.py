"""DAGs drawn from orders, what is read off them, weights for the posterior uniform over DAGs."""

from __future__ import annotations

import itertools
import math
import re

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

import oracles
from oracles import all_dags, as_networkx, markov_key
from polydag.errors import DataError, UsageError
from polydag.graph import Graph
from polydag.learners import BayesianDiscovery
from polydag.posterior import dag_posterior, exact_posterior, family_table, mcmc_posterior, with_prior
from polydag.posterior.dags import DagSamples, dags_by_buckets, dags_by_orders, exact_uniform, weighted
from polydag.posterior.dags.partition_posterior import PartitionPosterior
from polydag.posterior.dags.weighted import WeightedPosterior
from polydag.posterior.exact import linear_extensions as extensions
from polydag.posterior.exact.linear_extensions import log_extension_counts, log_extensions
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.bucket_orders import BucketOrders
from polydag.posterior.mcmc.chains import Chains
from polydag.posterior.mcmc.draws import BucketDraws
from polydag.scores import make_score
from polydag.stats import DiscreteCounts
from tables import random_table
from test_exact_posterior import enumerated, orders_of

Mask = NDArray[np.bool_]


def log_scores(table: FamilyTable) -> NDArray[np.float64]:
    """The log scores of all DAGs, in the order of `all_dags`."""
    n = table.n
    result = np.zeros(len(all_dags(n)))
    bits = np.array(all_dags(n)).transpose(0, 2, 1) @ (1 << np.arange(n))
    for node in range(n):
        own = np.full(1 << n, -np.inf)
        for s, members in enumerate(table.members(node)):
            own[sum(1 << v for v in members if v >= 0)] = table.scores[node, s]
        result += own[bits[:, node]]
    return result


def uniform_over_dags(table: FamilyTable) -> NDArray[np.float64]:
    """The probabilities of all DAGs, each counted once."""
    logs = log_scores(table)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def all_orders(n: int) -> NDArray[np.int64]:
    """How many orders agree with each DAG."""
    dags, count = np.array(all_dags(n)), np.zeros(len(all_dags(n)), dtype=np.int64)
    for order in itertools.permutations(range(n)):
        count += ~(dags[:, order][:, :, order] & np.tri(n, dtype=bool)).any(axis=(1, 2))
    return count


def test_draws_from_orders_agree_with_the_exact_posterior() -> None:
    """Independent draws, so that standard errors are those of shares."""
    table = random_table(5, 3, 0, 2.0)
    samples = dags_by_orders(table, 20_000, random_state=1)
    expected = exact_posterior(table).probabilities
    error = np.sqrt(expected * (1 - expected) / len(samples))
    assert (np.abs(samples.edges.to_numpy() - expected) <= 4 * error + 1e-12).all()
    assert samples.effective_size == pytest.approx(len(samples))
    assert samples.over == "orders"


def test_non_modular_features_by_enumeration() -> None:
    table = random_table(4, 3, 3, 1.5)
    dags, chance, _ = enumerated(table)
    samples = dags_by_orders(table, 20_000, random_state=2)
    paths = [nx.to_numpy_array(nx.transitive_closure_dag(as_networkx(dag))) for dag in dags]
    expected = sum(p * path for p, path in zip(chance, paths, strict=True))
    assert np.abs(samples.ancestors.to_numpy() - expected).max() < 0.015
    assert samples.path("a", "c") == pytest.approx(samples.ancestors.loc["a", "c"])
    by_class: dict[object, float] = {}
    for p, dag in zip(chance, dags, strict=True):
        by_class[markov_key(dag)] = by_class.get(markov_key(dag), 0.0) + p
    classes = samples.classes()
    assert sum(one.probability for one in classes) == pytest.approx(1.0)
    assert sum(one.n_dags for one in classes) == len(samples)
    assert [one.probability for one in classes] == sorted((one.probability for one in classes), reverse=True)
    found = {markov_key(one.graph.to_dag().adjacency): one.probability for one in classes}
    assert all(found.get(key, 0.0) == pytest.approx(p, abs=0.015) for key, p in by_class.items())
    assert samples.classes(2) == classes[:2]


def test_weights_give_the_posterior_uniform_over_dags() -> None:
    table = random_table(5, 4, 1, 1.0)
    chance = uniform_over_dags(table)
    expected = np.tensordot(chance, all_dags(5), 1)
    samples = dags_by_orders(table, 20_000, random_state=3).over_dags()
    assert samples.over == "dags"
    error = np.sqrt(expected * (1 - expected) / samples.effective_size)
    assert (np.abs(samples.edges.to_numpy() - expected) <= 4 * error + 1e-12).all()
    # The expected square of weights is known, too: Kish's size to a few percent.
    by_order = chance * all_orders(5)
    kish = 1 / ((chance**2 / by_order).sum() * by_order.sum())
    assert samples.effective_size / len(samples) == pytest.approx(kish, rel=0.05)
    assert samples.over_dags() is samples


def test_draws_from_bucket_orders() -> None:
    """All states of buckets of two, each as often as it is probable: then draws have the exact posterior."""
    table = random_table(4, 3, 5, 1.5)
    orders = BucketOrders.of(table, 2)
    pairs = [list(pair) for pair in itertools.combinations(range(4), 2)]
    states = [np.array(pair + sorted(set(range(4)) - set(pair))) for pair in pairs]
    logs = np.array([orders.log_weight(state) for state in states])
    chance = np.exp(logs - logs.max())
    rng = np.random.default_rng(0)
    picked = rng.choice(len(states), size=(2, 5000), p=chance / chance.sum())
    buckets = np.array([orders.bucket_of(state) for state in states])[picked]
    samples = dags_by_buckets(table, BucketDraws(buckets, logs[picked]), 10_000, random_state=1)
    expected = exact_posterior(table).probabilities
    error = np.sqrt(expected * (1 - expected) / len(samples))
    assert (np.abs(samples.edges.to_numpy() - expected) <= 4 * error + 1e-12).all()


def test_wide_ranges_and_impossible_families() -> None:
    table = random_table(6, 3, 7, 3000.0)
    scores = table.scores.copy()
    scores[2, 0] = -np.inf  # c must have a parent
    table = table.with_scores(scores)
    samples = dags_by_orders(table, 500, random_state=0)
    expected = exact_posterior(table).probabilities
    assert np.abs(samples.edges.to_numpy() - expected).max() < 0.1
    assert samples.adjacency[:, :, 2].any(axis=1).all()
    assert all(samples.graph(k).is_dag for k in range(0, 500, 50))


def test_a_permutation_of_variables_permutes_the_answer() -> None:
    """Random numbers meet other variables then, so that only the distribution can be the same."""
    table = random_table(4, 3, 11, 1.0)
    order = [2, 0, 3, 1]
    moved = np.empty_like(table.scores)
    for node, s in np.ndindex(moved.shape):
        parents = [order[v] for v in table.parents(node, s)]
        moved[node, s] = table.scores[order[node], table.index(order[node], parents)]
    names = tuple(table.names[v] for v in order)
    other = dags_by_orders(FamilyTable(names, table.candidates, 3, moved), 20_000, random_state=1)
    own = dags_by_orders(table, 20_000, random_state=1)
    difference = own.ancestors - other.ancestors.loc[list(table.names), list(table.names)]
    assert np.abs(difference.to_numpy()).max() < 0.02


@given(dag=oracles.dags(max_nodes=6))
@settings(max_examples=60, deadline=None)
def test_linear_extensions_by_brute_force(dag: Mask) -> None:
    assert math.exp(log_extensions(dag)) == pytest.approx(orders_of(dag), rel=1e-12)


def chain(n: int) -> Mask:
    return np.eye(n, k=1, dtype=bool)


def tree(n: int) -> Mask:
    """Each node has the parent (v - 1) // 2."""
    dag = np.zeros((n, n), dtype=bool)
    dag[(np.arange(1, n) - 1) // 2, np.arange(1, n)] = True
    return dag


def hooks(n: int) -> float:
    """The hook length formula of that tree, as a logarithm."""
    sizes = [1] * n
    for v in range(n - 1, 0, -1):
        sizes[(v - 1) // 2] += sizes[v]
    return math.lgamma(n + 1) - sum(math.log(size) for size in sizes)


def test_linear_extensions_by_formulas() -> None:
    assert log_extensions(np.zeros((70, 70), dtype=bool)) == pytest.approx(math.lgamma(71))
    assert log_extensions(chain(64)) == pytest.approx(0.0, abs=1e-12)
    # Two chains side by side: shuffles.
    two = np.kron(np.eye(2), chain(40)).astype(bool)
    assert log_extensions(two) == pytest.approx(math.log(math.comb(80, 40)))
    for n in (15, 31, 63):
        assert log_extensions(tree(n)) == pytest.approx(hooks(n))
        assert log_extensions(tree(n).T) == pytest.approx(hooks(n))
    # Euler's zigzag numbers, of fences a < b > c < d …
    zigzag = {3: 2, 5: 16, 7: 272, 9: 7936, 11: 353792}
    for n, count in zigzag.items():
        fence = np.zeros((n, n), dtype=bool)
        for v in range(0, n - 1):
            fence[(v, v + 1) if v % 2 == 0 else (v + 1, v)] = True
        assert math.exp(log_extensions(fence)) == pytest.approx(count, rel=1e-12)
    # A grid of 3 rows: standard Young tableaux of a rectangle.
    down, right = np.kron(chain(3), np.eye(5)), np.kron(np.eye(3), chain(5))
    grid = (down + right) > 0
    assert log_extensions(grid) == pytest.approx(math.log(6006))
    # Edges that others imply change nothing.
    full = np.triu(np.ones((20, 20), dtype=bool), 1)
    assert log_extensions(full) == pytest.approx(0.0, abs=1e-12)


def test_too_many_linear_extensions_are_refused() -> None:
    rng = np.random.default_rng(0)
    tangled = np.zeros((40, 40), dtype=bool)
    tangled[:20, 20:] = rng.random((20, 20)) < 0.3
    with pytest.raises(UsageError, match="too many linear extensions"):
        log_extensions(tangled, most_sets=10_000)
    with pytest.raises(UsageError, match="at most 64 connected"):
        log_extensions(chain(65))


def test_equal_dags_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    counted = extensions._log_count
    monkeypatch.setattr(extensions, "_log_count", lambda *given: calls.append(1) or counted(*given))
    dags = np.array([chain(4), tree(4), chain(4)])
    np.testing.assert_allclose(log_extension_counts(dags), [0.0, math.log(3), 0.0], atol=1e-12)
    assert len(calls) == 2


def test_features_are_weighted() -> None:
    dags = np.array([chain(3), chain(3).T, np.zeros((3, 3), dtype=bool)])
    samples = DagSamples(
        ("x", "y", "z"), DagSamples.pack(("x", "y", "z"), dags, "dags").bits, np.log([1.0, 2.0, 5.0]), "dags"
    )
    assert samples.feature(lambda graph: graph.n_edges) == pytest.approx(6 / 8)
    assert samples.path("x", "z") == pytest.approx(1 / 8)
    assert samples.ancestors.loc["z", "x"] == pytest.approx(2 / 8)
    assert samples.effective_size == pytest.approx(64 / 30)
    assert samples.graph(0) == Graph.from_edges("xyz", ["xy", "yz"])
    assert [(one.probability, one.n_dags) for one in samples.classes()] == [(5 / 8, 1), (3 / 8, 2)]
    pd.testing.assert_frame_equal(samples.edges, samples._frame(np.tensordot(samples.weights, dags, 1)))
    assert repr(samples) == "<DagSamples: 3 DAGs of 3 variables, uniform over dags>"
    with pytest.raises(DataError, match="'w' is not a variable"):
        samples.path("w", "x")


def test_what_cannot_be_drawn() -> None:
    table = random_table(3, 2, 0)
    with pytest.raises(UsageError, match="must be positive; got 0"):
        dags_by_orders(table, 0)
    with pytest.raises(UsageError, match="can be used"):
        dags_by_orders(table, 1, memory=10.0)
    scores = table.scores.copy()
    scores[:, 0] = -np.inf
    with pytest.raises(DataError, match="No order"):
        dags_by_orders(table.with_scores(scores), 1)


def test_the_same_seed_the_same_dags() -> None:
    table = random_table(6, 3, 0)
    first, again = (dags_by_orders(table, 300, random_state=7).bits for _ in range(2))
    assert np.array_equal(first, again)


def test_posteriors_draw_dags() -> None:
    table = random_table(5, 3, 2, 1.5)
    exact = exact_posterior(table)
    samples = exact.sample_dags(5000, random_state=1)
    assert np.abs(samples.edges - exact.edges).to_numpy().max() < 0.04
    assert np.abs(exact.ancestors - samples.ancestors).to_numpy().max() < 0.08
    sampled = mcmc_posterior(table, chains=Chains(n_chains=2, n_steps=2000, bucket_size=3), random_state=0)
    assert np.abs(sampled.sample_dags(2000, random_state=1).edges - exact.edges).to_numpy().max() < 0.08


def test_posterior_by_weights() -> None:
    table = random_table(4, 3, 1, 2.0)
    posterior = dag_posterior(table, method="weighted", random_state=0)
    assert isinstance(posterior, WeightedPosterior)
    chance, dags = uniform_over_dags(table), np.array(all_dags(4))
    expected = np.tensordot(chance, dags, 1)
    assert posterior.diagnostics is not None
    error = np.zeros((4, 4))
    error[~np.eye(4, dtype=bool)] = posterior.diagnostics["mcse"]
    assert (np.abs(posterior.probabilities - expected) <= 4 * error + 1e-12).all()
    assert posterior.mixed
    assert posterior.history.loc[0, "effective_size"] == pytest.approx(posterior.effective_size)
    alone = float(chance[~dags[:, :, 0].any(axis=1)].sum())
    own = posterior.parents("a").set_index("parents")["probability"]
    assert own.sum() == pytest.approx(1.0)
    assert own.get((), 0.0) == pytest.approx(alone, abs=0.03)
    assert posterior.feature(lambda node, parents: node != "a" or not parents) == pytest.approx(
        own.get((), 0.0)
    )
    assert posterior.best_graph()[1] == pytest.approx(log_scores(table).max())
    assert posterior.sample_dags(10, random_state=0).over == "dags"


def test_too_few_effective_draws_go_to_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    table = random_table(4, 3, 1, 2.0)
    monkeypatch.setattr(exact_uniform, "fits", lambda n, memory: False)
    assert isinstance(dag_posterior(table, random_state=0), WeightedPosterior)
    monkeypatch.setattr(weighted, "MIN_EFFECTIVE", 9000.0)
    sampled = dag_posterior(table, chains=Chains(n_chains=2, n_steps=400), random_state=0)
    assert isinstance(sampled, PartitionPosterior)
    refused = dag_posterior(table, method="weighted", random_state=0)
    assert isinstance(refused, WeightedPosterior)
    assert not refused.mixed
    assert re.search(r"10000 weighted .* effective sample size of \d{4} \(", refused.disagreement())


def test_extensions_that_cannot_be_counted_go_to_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(dags: Mask) -> None:
        raise UsageError("too many")

    monkeypatch.setattr(extensions, "log_extension_counts", refuse)
    monkeypatch.setattr(exact_uniform, "fits", lambda n, memory: False)
    table = random_table(4, 3, 1, 2.0)
    assert isinstance(
        dag_posterior(table, chains=Chains(n_chains=2, n_steps=400), random_state=0), PartitionPosterior
    )


def test_the_estimator_over_dags() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (60, 4)), columns=list("abcd"))
    frame["b"] = frame["a"] ^ (np.random.default_rng(1).random(60) < 0.1)
    table = with_prior(family_table(make_score("bdeu", DiscreteCounts.from_data(frame)), 3), "fair")
    expected = np.tensordot(uniform_over_dags(table), all_dags(4), 1)
    methods = (("exact", "exact"), ("weighted", "weighted"), ("mcmc", "mcmc"), ("auto", "exact"))
    for method, told in methods:
        model = BayesianDiscovery(
            criterion="bdeu", equivalent_sample_size=1.0, over="dags", method=method, random_state=0
        ).fit(frame)
        assert model.posterior_.method == told  # repeats the run where "auto" has chosen
        assert model.converged_
        error = 1e-12 if told == "exact" else 0.03
        assert np.abs(model.posterior_.probabilities - expected).max() < error
    with pytest.raises(UsageError, match="over must be one of orders, dags; got 'trees'"):
        BayesianDiscovery(over="trees").fit(frame)
    with pytest.raises(UsageError, match="is for over='dags'"):
        BayesianDiscovery(method="weighted").fit(frame)
    with pytest.raises(UsageError, match=r"posterior over DAGs of 4 variables .* can be used"):
        BayesianDiscovery(over="dags", method="exact", memory=1e-6).fit(frame)
