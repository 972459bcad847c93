"""The exact posterior uniform over DAGs: enumeration, sums by layers, known counts, draws, refusals."""

from __future__ import annotations

import itertools
import math
from functools import cache

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles import all_dags, as_networkx
from polydag.computing.progress import listening
from polydag.embedded import asia
from polydag.errors import DataError, UsageError
from polydag.knowledge import Knowledge
from polydag.learners import BayesianDiscovery
from polydag.posterior import dag_posterior, family_table, with_prior
from polydag.posterior.dags import exact_uniform
from polydag.posterior.dags.exact_uniform import ExactDagPosterior, draw_dags, exact_dag_posterior
from polydag.posterior.families.table import FamilyTable
from polydag.scores import make_score
from polydag.stats import DiscreteCounts
from tables import random_table
from test_dag_samples import log_scores, uniform_over_dags
from test_draws_and_score_gaps import counts, edge_frequencies_agree, gapped_table, gaps, greedy_table

Array = NDArray[np.float64]


def agrees_with_enumeration(table: FamilyTable) -> None:
    """Evidence, edges and families; scores themselves are only as exact as their last digit."""
    posterior = exact_dag_posterior(table)
    tolerance = 1e-12 + 64 * np.spacing(np.where(table.scores > -np.inf, np.abs(table.scores), 0.0).max())
    logs, chance, dags = log_scores(table), uniform_over_dags(table), np.array(all_dags(table.n))
    total = logs.max() + math.log(np.exp(logs - logs.max()).sum())
    assert posterior.log_evidence == pytest.approx(total, rel=1e-13, abs=1e-10)
    expected = np.tensordot(chance, dags, 1)
    np.testing.assert_allclose(posterior.probabilities, expected, rtol=0, atol=tolerance)
    for node in range(table.n):
        own = posterior.families_of(node)
        for s in range(len(own)):
            parents = np.isin(np.arange(table.n), table.parents(node, s))
            share = chance[(dags[:, :, node] == parents).all(axis=1)].sum()
            assert own[s] == pytest.approx(share, abs=tolerance)


@given(seed=st.integers(0, 10**6), gap=gaps, n=st.integers(1, 4), greedy=st.booleans())
@settings(max_examples=60, deadline=None)
def test_enumeration_of_all_dags(seed: int, gap: float, n: int, greedy: bool) -> None:
    make = greedy_table if greedy else gapped_table
    agrees_with_enumeration(make(n, min(3, n - 1), seed, gap))


@pytest.mark.parametrize("gap", [0.0, 1.0, 710.0, 1e4, 1e5])
def test_enumeration_of_all_dags_of_five_variables(gap: float) -> None:
    agrees_with_enumeration(greedy_table(5, 4, 1, gap))
    agrees_with_enumeration(gapped_table(5, 2, 2, gap))


@given(seed=st.integers(0, 10**6), gap=gaps)
@settings(max_examples=60, deadline=None)
def test_families_ruled_out(seed: int, gap: float) -> None:
    table = gapped_table(4, 3, seed, gap)
    absent = np.random.default_rng(seed).random(table.scores.shape) < 0.5
    table = table.with_scores(np.where(absent, -np.inf, table.scores))
    if log_scores(table).max() > -np.inf:
        agrees_with_enumeration(table)
    else:
        with pytest.raises(DataError, match=r"No order of the variables|No parent set"):
            exact_dag_posterior(table)


def by_layers(table: FamilyTable) -> float:
    """The logarithm of the sum over DAGs by ordered partitions: all terms are positive, none is scaled."""
    n = table.n
    full = (1 << n) - 1
    masks = [[sum(1 << v for v in table.parents(i, s)) for s in range(len(table.sets))] for i in range(n)]

    @cache
    def families(i: int, before: int, last: int) -> float:
        """Parents in earlier layers, one of them in the last."""
        fitting = [
            score
            for score, mask in zip(table.scores[i], masks[i], strict=True)
            if not mask & ~before and (mask & last or not last)
        ]
        return float(np.logaddexp.reduce(fitting or [-np.inf]))

    @cache
    def rest(before: int, last: int) -> float:
        if before == full:
            return 0.0
        left = [i for i in range(n) if not before >> i & 1]
        terms = []
        for size in range(1, len(left) + 1):
            for layer in itertools.combinations(left, size):
                bits = sum(1 << i for i in layer)
                terms.append(sum(families(i, before, last) for i in layer) + rest(before | bits, bits))
        return float(np.logaddexp.reduce(terms))

    return rest(0, 0)


@pytest.mark.parametrize("gap", [0.0, 800.0, 1e5])
def test_sums_by_layers(gap: float) -> None:
    """Six variables; the probability of an edge from the sums with and without it."""
    table = greedy_table(6, 2, 5, gap)
    posterior = exact_dag_posterior(table)
    total = by_layers(table)
    assert posterior.log_evidence == pytest.approx(total, rel=1e-13)
    for i, j in [(0, 1), (1, 0), (2, 5), (4, 3)]:
        has = (table.members(j) == i).any(axis=1)
        scores = table.scores.copy()
        scores[j, has] = -np.inf
        without = math.exp(by_layers(table.with_scores(scores)) - total)
        assert posterior.probabilities[i, j] == pytest.approx(1 - without, abs=1e-8 if gap > 1e4 else 1e-10)


@cache
def number_of_dags(n: int) -> int:
    """Robinson's recurrence in whole numbers."""
    return n == 0 or sum(
        (-1) ** (k + 1) * math.comb(n, k) * 2 ** (k * (n - k)) * number_of_dags(n - k)
        for k in range(1, n + 1)
    )


@pytest.mark.parametrize("n", [2, 3, 5, 8, 11])
def test_the_number_of_dags(n: int) -> None:
    table = random_table(n, n - 1, 0, 0.0)
    posterior = exact_dag_posterior(table)
    assert posterior.log_evidence == pytest.approx(math.log(number_of_dags(n)), rel=1e-12)
    assert posterior.family_probabilities is not None
    np.testing.assert_allclose(posterior.family_probabilities.sum(axis=1), 1.0, atol=1e-10)
    apart = posterior.probabilities[~np.eye(n, dtype=bool)]
    np.testing.assert_allclose(apart, apart[0], atol=1e-10)


@pytest.mark.parametrize("gap", [0.0, 800.0])
def test_pairs_of_variables_without_interaction(gap: float) -> None:
    """Fourteen variables in pairs: each pair has the posterior that it has alone, whatever the signs cost."""
    pair = random_table(2, 1, 3)
    pair = pair.with_scores(pair.scores + gap * np.array([0.0, 1.0]))
    table = random_table(14, 1, 0)
    scores = np.full(table.scores.shape, -np.inf)
    for first in range(0, 14, 2):
        for node in (0, 1):
            own = first + node
            scores[own, 0] = pair.scores[node, 0]
            scores[own, table.index(own, [first + 1 - node])] = pair.scores[node, 1]
    found = exact_dag_posterior(table.with_scores(scores)).probabilities
    expected = np.tensordot(uniform_over_dags(pair), all_dags(2), 1)
    np.testing.assert_allclose(found, np.kron(np.eye(7), expected), atol=1e-10)


def test_a_permutation_of_variables_permutes_the_answer() -> None:
    table = random_table(7, 3, 11, 5.0)
    order = [2, 0, 3, 6, 1, 5, 4]
    moved = np.empty_like(table.scores)
    for node, s in np.ndindex(moved.shape):
        parents = [order[v] for v in table.parents(node, s)]
        moved[node, s] = table.scores[order[node], table.index(order[node], parents)]
    names = tuple(table.names[v] for v in order)
    found = exact_dag_posterior(FamilyTable(names, table.candidates, 3, moved)).edges
    own = exact_dag_posterior(table).edges
    np.testing.assert_allclose(found.loc[list(table.names), list(table.names)], own, atol=1e-12)


def test_features_by_enumeration() -> None:
    table = random_table(4, 3, 3, 1.5)
    posterior = exact_dag_posterior(table)
    chance, dags = uniform_over_dags(table), np.array(all_dags(4))
    alone = float(chance[~dags[:, :, 1].any(axis=1)].sum())
    found = posterior.feature(lambda node, parents: node != "b" or not parents)
    assert found == pytest.approx(alone, abs=1e-12)
    assert posterior.feature(lambda node, parents: bool(parents)) == 0.0  # some node has none
    vees = posterior.v_structures(at_least=0.0).set_index(["parent", "child", "other"])["probability"]
    for a, c, b in [(0, 1, 2), (1, 3, 2)]:
        has = dags[:, a, c] & dags[:, b, c] & ~dags[:, a, b] & ~dags[:, b, a]
        assert vees[table.names[a], table.names[c], table.names[b]] == pytest.approx(chance[has].sum())
    assert posterior.best_graph()[1] == pytest.approx(log_scores(table).max())


@pytest.mark.parametrize("gap", [0.0, 30.0, 709.0, 1e4, 1e5])
@pytest.mark.parametrize("greedy", [False, True])
def test_drawn_dags(gap: float, greedy: bool) -> None:
    """Not the edges alone: every DAG comes up as often as it should, by the chi-squared distribution."""
    from scipy.stats import chi2

    table = (greedy_table if greedy else gapped_table)(4, 3, 7, gap)
    chance, dags = uniform_over_dags(table), np.array(all_dags(4))
    samples = draw_dags(table, 5000, random_state=3)
    assert samples.over == "dags"
    edge_frequencies_agree(samples.edges.to_numpy(), np.tensordot(chance, dags, 1), 5000)
    codes = {dag.tobytes(): k for k, dag in enumerate(dags)}
    seen = np.bincount([codes[dag.tobytes()] for dag in samples.adjacency], minlength=len(dags))
    often = chance * 5000 >= 5
    seen, expected = (np.append(values[often], values[~often].sum()) for values in (seen, chance * 5000))
    if expected[-1] < 5:
        assert seen[-1] < 20
        seen, expected = seen[:-1], expected[:-1]
    statistic = ((seen - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(0.999, max(len(seen) - 1, 1))
    paths = np.array([nx.to_numpy_array(nx.transitive_closure_dag(as_networkx(dag))) for dag in dags])
    edge_frequencies_agree(samples.ancestors.to_numpy(), np.tensordot(chance, paths, 1), 5000)


def test_the_same_seed_the_same_dags() -> None:
    posterior = exact_dag_posterior(random_table(6, 3, 0))
    first, again = (posterior.sample_dags(300, random_state=7).bits for _ in range(2))
    assert np.array_equal(first, again)


@pytest.mark.parametrize("rows", [10, 1000, 100_000, 1_000_000])
def test_any_number_of_rows(rows: int) -> None:
    """The estimator against enumeration, and draws against the estimator."""
    stats = counts(rows, 1, 5)
    model = BayesianDiscovery(criterion="bdeu", equivalent_sample_size=1.0, over="dags", method="exact").fit(
        stats
    )
    table = with_prior(family_table(make_score("bdeu", stats), 3))
    expected = np.tensordot(uniform_over_dags(table), all_dags(5), 1)
    assert isinstance(model.posterior_, ExactDagPosterior)
    np.testing.assert_allclose(model.posterior_.probabilities, expected, rtol=0, atol=1e-8)
    samples = model.posterior_.sample_dags(5000, random_state=1)
    edge_frequencies_agree(samples.edges.to_numpy(), expected, 5000)
    assert model.converged_
    assert model.log_evidence_ == model.posterior_.log_evidence


def test_asia_with_many_rows_by_all_three_ways() -> None:
    """Exact sums, weighted draws and partition chains agree, five thousand rows or not."""
    score = make_score("bdeu", DiscreteCounts.from_data(asia().sample(5000, random_state=0)))
    table = with_prior(family_table(score, 3))
    exact = dag_posterior(table, method="exact")
    assert isinstance(exact, ExactDagPosterior)
    assert exact.sample_dags(2000, random_state=0).path("smoke", "dysp") > 0.99
    weighted = dag_posterior(table, method="weighted", random_state=1)
    assert np.abs(weighted.probabilities - exact.probabilities).max() < 0.04
    sampled = dag_posterior(table, method="mcmc", random_state=1)
    assert np.abs(sampled.probabilities - exact.probabilities).max() < 0.04


def test_knowledge_that_no_dag_satisfies() -> None:
    table = random_table(3, 1, 0)
    masks = Knowledge(required=[("a", "b")]).masks(table.names)
    assert exact_dag_posterior(with_prior(table, masks=masks)).edges.loc["a", "b"] == pytest.approx(1.0)
    chance = np.full((3, 3), 0.5)
    chance[0, 1] = chance[1, 0] = 1.0
    with pytest.raises(DataError, match="No order of the variables"):
        exact_dag_posterior(with_prior(table, edge_prior=chance))
    with pytest.raises(DataError, match="No order of the variables"):
        draw_dags(with_prior(table, edge_prior=chance), 10)


def test_too_many_variables_are_refused_with_what_fits() -> None:
    with pytest.raises(
        UsageError,
        match=r"over DAGs of 30 variables .* needs .* GB; 1.0 GB can be used. Up to 22 variables fit",
    ):
        exact_uniform.require_fit(30, limit=1e9)
    with pytest.raises(
        UsageError, match=r"over DAGs of 25 .* takes too long. Up to 23 variables fit \(1.8 GB"
    ):
        exact_uniform.require_fit(25, limit=1e11)
    exact_uniform.require_fit(20, limit=1e9)
    assert exact_uniform.fits(15, 1e9)
    assert not exact_uniform.fits(15, 1e6)
    assert not exact_uniform.fits(22, 1e12)
    with pytest.raises(UsageError, match="8 variables"):
        exact_dag_posterior(random_table(8, 1, 0), memory=1000.0)
    with pytest.raises(UsageError, match="must be positive; got 0"):
        draw_dags(random_table(3, 1, 0), 0)


def test_progress_is_reported() -> None:
    steps = []
    with listening(steps.append):
        exact_dag_posterior(random_table(5, 1, 0)).sample_dags(20, random_state=0)
    assert {step.task for step in steps} == {"sum over DAGs", "layers of DAGs"}
    assert all(step.done <= (step.total or 0) for step in steps)
