"""Draws of families and DAGs where scores differ by anything from nothing to 100,000 nats.

With many rows the best families of a node lead all others by hundreds of nats, and an order may rule them
out. Exponentials of such differences overflow one way and underflow the other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles import all_dags
from polydag.embedded import asia
from polydag.errors import DataError
from polydag.posterior import dag_posterior, exact_posterior, family_table, with_prior
from polydag.posterior.dags import dags_by_orders
from polydag.posterior.dags.partitions import PartitionSampler
from polydag.posterior.families._sorted_families_kernels import (
    draw_family,
    log_sum,
    order_constraint,
    parent_probabilities,
)
from polydag.posterior.families.sorted_families import sort_families
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.bucket_orders import BucketOrders
from polydag.posterior.mcmc.chains import Chains
from polydag.posterior.orders.relocation import relocate
from polydag.posterior.orders.space import OrderSpace, random_order
from polydag.posterior.orders.subset_permutation import permute_subsets
from polydag.posterior.transfer.weights import Averaged, log_hyp2f1
from polydag.scores import make_score
from polydag.stats import DiscreteCounts, GaussianStats
from tables import random_table
from test_dag_samples import uniform_over_dags

Array = NDArray[np.float64]
gaps = st.sampled_from([0.0, 1.0, 30.0, 600.0, 709.0, 710.0, 745.0, 1500.0, 1e4, 1e5])


class Fixed(NamedTuple):
    """A generator of one number."""

    value: float

    def random(self) -> float:
        return self.value


def gapped_table(n: int, top: int, seed: int, gap: float) -> FamilyTable:
    """Random scores, with families of each node that lead the others by multiples of a gap."""
    rng = np.random.default_rng(seed)
    table = random_table(n, top, seed, 1.5)
    steps = rng.integers(0, 3, table.scores.shape)
    return table.with_scores(table.scores + gap * steps - 1000.0 * rng.random())


def edge_frequencies_agree(found: Array, expected: Array, draws: float) -> None:
    """Within three standard errors; rare edges may have come up once."""
    error = np.sqrt(np.clip(expected * (1 - expected), 0.0, None) / draws)
    assert (np.abs(found - expected) <= 3 * error + 1 / draws).all()


@given(
    seed=st.integers(0, 10**6),
    gap=gaps,
    n=st.integers(2, 7),
    u=st.floats(0.0, 1 - 1e-8),
)
@settings(max_examples=150, deadline=None)
def test_a_family_is_drawn_by_its_quantile(seed: int, gap: float, n: int, u: float) -> None:
    """The compiled walk inverts the distribution function of the allowed families, best family first."""
    table = gapped_table(n, min(3, n - 1), seed, gap)
    families = sort_families(table)
    place = np.random.default_rng(seed).permutation(n)
    node = int(np.random.default_rng(seed + 1).integers(n))
    excluded, required = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    order_constraint(families.candidates, node, place, place[node], excluded, required)
    total = log_sum(families, node, excluded, required)
    family = draw_family.py_func(families, node, excluded, required, total, Fixed(u))
    members = table.members(node)
    fits = (np.where(members < 0, -1, place[members]) < place[node]).all(axis=1)
    own = np.where(fits, table.scores[node], -np.inf)
    chance = np.exp(own - own.max())
    chance /= chance.sum()
    drawn = families.number[family]
    assert fits[drawn]
    assert total == pytest.approx(own.max() + np.log(np.exp(own - own.max()).sum()), rel=1e-13)
    order = np.argsort(-table.scores[node], kind="stable")
    before = chance[order[: int(np.flatnonzero(order == drawn)[0])]].sum()
    assert before - 1e-9 <= u <= before + chance[drawn] + 1e-9
    # The same families give the probability of each edge.
    result = np.empty(n)
    parent_probabilities(families, node, excluded, required, total, result)
    has = np.array([(members == v).any(axis=1) for v in range(n)])
    np.testing.assert_allclose(result, has @ chance, rtol=0, atol=1e-9)


def test_a_remainder_of_rounding_goes_to_the_best_family() -> None:
    table = gapped_table(4, 3, 0, 800.0)
    families = sort_families(table)
    place = np.array([1, 0, 2, 3])
    excluded, required = np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    order_constraint(families.candidates, 2, place, 2, excluded, required)
    total = log_sum(families, 2, excluded, required)
    # A total that is too large by rounding leaves part of the unit interval to no family.
    family = draw_family.py_func(families, 2, excluded, required, total + 1e-9, Fixed(1 - 1e-12))
    fits = [set(table.parents(2, s)) <= {0, 1} for s in range(len(table.sets))]
    assert families.number[family] == np.argmax(np.where(fits, table.scores[2], -np.inf))


def greedy_table(n: int, top: int, seed: int, gap: float) -> FamilyTable:
    """Every further parent is worth a gap: each node wants more parents than an order may give it."""
    table = random_table(n, top, seed, 1.5)
    return table.with_scores(table.scores + gap * table.sizes)


@pytest.mark.parametrize("gap", [0.0, 30.0, 709.0, 1500.0, 1e4, 1e5])
def test_drawn_dags_agree_with_both_exact_posteriors(gap: float) -> None:
    table = greedy_table(5, 3, 3, gap)
    samples = dags_by_orders(table, 5000, random_state=1)
    edge_frequencies_agree(samples.edges.to_numpy(), exact_posterior(table).probabilities, 5000)
    uniform = samples.over_dags()
    expected = np.tensordot(uniform_over_dags(table), all_dags(5), 1)
    edge_frequencies_agree(uniform.edges.to_numpy(), expected, uniform.effective_size)


@pytest.mark.parametrize("gap", [0.0, 709.0, 1e4, 1e5])
def test_drawn_dags_of_a_partition(gap: float) -> None:
    table = greedy_table(5, 3, 3, gap)
    space = PartitionSampler.of(table)
    state = space.init(np.array([1, 0, 2, 1, 3]))
    rng = np.random.default_rng(0)
    drawn = np.mean([space.draw_dag(rng, state.level) for _ in range(3000)], axis=0)
    edge_frequencies_agree(drawn, space.edges(state), 3000)


def counts(rows: int, seed: int, n: int = 6) -> DiscreteCounts:
    """Counts of a network of up to six binary variables, of any number of rows."""
    rng = np.random.default_rng(seed)
    cells = np.array(list(np.ndindex(*(2,) * n)))
    parents: list[list[int]] = [[], [0], [0, 1], [2], [1, 3], []]
    chance = np.ones(len(cells))
    for node, own in enumerate(parents[:n]):
        strength = 0.5 + 0.4 * np.sin(1.0 + cells[:, own] @ np.arange(1, len(own) + 1))
        chance *= np.where(cells[:, node] == 1, strength, 1 - strength)
    weights = rng.multinomial(rows, chance / chance.sum())
    names = list("abcdef"[:n])
    levels = dict.fromkeys(names, (0, 1))
    return DiscreteCounts.from_data(pd.DataFrame(cells, columns=names), weights=weights, levels=levels)


@pytest.mark.parametrize("rows", [10, 100, 1000, 10_000, 100_000, 1_000_000])
@pytest.mark.parametrize("kind", ["k2", "bdeu"])
def test_drawn_dags_agree_with_the_exact_posterior_for_any_number_of_rows(kind: str, rows: int) -> None:
    table = with_prior(family_table(make_score(kind, counts(rows, 1)), 3))
    posterior = exact_posterior(table)
    samples = posterior.sample_dags(5000, random_state=2)
    edge_frequencies_agree(samples.edges.to_numpy(), posterior.probabilities, 5000)


def test_paths_of_asia_with_many_rows() -> None:
    """Five thousand rows leave no doubt that smoking leads to dyspnoea, in whatever way."""
    score = make_score("bdeu", DiscreteCounts.from_data(asia().sample(5000, random_state=0)))
    posterior = exact_posterior(with_prior(family_table(score, 3)))
    samples = posterior.sample_dags(2000, random_state=0)
    edge_frequencies_agree(samples.edges.to_numpy(), posterior.probabilities, 2000)
    assert samples.path("smoke", "dysp") > 0.99


def ruled_out(table: FamilyTable, seed: int, share: float) -> FamilyTable:
    """Some families of some nodes are impossible, the empty ones among them."""
    absent = np.random.default_rng(seed).random(table.scores.shape) < share
    return table.with_scores(np.where(absent, -np.inf, table.scores))


def possible(table: FamilyTable) -> bool:
    """Whether some order allows a family of every node."""
    try:
        random_order(table, np.random.default_rng(0))
    except DataError:
        return False
    return True


def log_sums(scores: Array) -> float:
    return float(np.logaddexp.reduce(scores, initial=-np.inf))


@given(seed=st.integers(0, 10**6), gap=st.sampled_from([0.0, 300.0, 600.0, 800.0, 1000.0, 1e4, 1e5]))
@settings(max_examples=80, deadline=None)
def test_one_bucket_is_the_exact_posterior(seed: int, gap: float) -> None:
    """Where families are ruled out, orders that cannot be must not turn into infinities times zero."""
    table = ruled_out(gapped_table(5, 3, seed, gap), seed, 0.4)
    if not possible(table):
        return
    exact = exact_posterior(table)
    orders = BucketOrders.of(table, 5)
    edges, log_weight = orders.edges_and_weight(np.arange(5))
    tolerance = 1e-11 + 1e-15 * gap
    np.testing.assert_allclose(edges, exact.probabilities, rtol=0, atol=tolerance)
    assert log_weight == pytest.approx(exact.log_evidence, rel=1e-13, abs=1e-10)
    assert exact.family_probabilities is not None
    families = [orders.family_probabilities(node, np.arange(5)) for node in range(5)]
    np.testing.assert_allclose(families, exact.family_probabilities, rtol=0, atol=tolerance)


@given(seed=st.integers(0, 10**6), gap=gaps, share=st.sampled_from([0.0, 0.3]))
@settings(max_examples=60, deadline=None)
def test_weights_of_orders_and_partitions_after_moves(seed: int, gap: float, share: float) -> None:
    """What chains keep up to date is what sums over all families give."""
    table = ruled_out(gapped_table(5, 3, seed, gap), seed, share)
    if not possible(table):
        return
    rng = np.random.default_rng(seed)
    space = OrderSpace.of(table)
    state = space.init(random_order(table, rng))
    for power in (1.0, 0.1, 1.0):
        state, _ = relocate(space, rng, state, 10, power)
        state, _ = permute_subsets(space, rng, state, 5, power)
        expected = 0.0
        for node in range(5):
            members = table.members(node)
            fits = (np.where(members < 0, -1, state.place[members]) < state.place[node]).all(axis=1)
            expected += log_sums(table.scores[node, fits])
        assert state.log_weight == pytest.approx(expected, rel=1e-13, abs=1e-10)
    sampler = PartitionSampler.of(table)
    parts = sampler.init(sampler.random_position(rng))
    for power in (1.0, 0.1, 1.0):
        parts, _ = sampler.configured(moves=50, power=power).step(rng, parts)
        own = [log_sums(table.scores[v, sampler.allowed_families(v, parts.level)]) for v in range(5)]
        assert parts.log_weight == pytest.approx(sum(own), rel=1e-13, abs=1e-10)


@pytest.mark.parametrize("gap", [0.0, 709.0, 1e4, 1e5])
def test_chains_of_partitions_agree_with_enumeration(gap: float) -> None:
    """Their moves draw families as well."""
    table = greedy_table(4, 3, 3, gap)
    found = dag_posterior(table, method="mcmc", chains=Chains(n_steps=40_000), random_state=1)
    expected = np.tensordot(uniform_over_dags(table), all_dags(4), 1)
    assert np.abs(found.probabilities - expected).max() < 0.03


def test_priors_of_thousands_of_variables() -> None:
    """2F1 grows as (4/3)^u, beyond what a number can hold from u = 2470 on; c itself has the logarithm."""
    for u in (1, 10, 1000, 3000, 6000):
        assert log_hyp2f1(u, 1, 2) == pytest.approx(_log_one_two(u), rel=1e-12)
        assert np.isfinite(Averaged().subsets(u, 3)[np.tril_indices(4)]).all()


def _log_one_two(u: int) -> float:
    """`2F1(u, 1; 2; z) = ((1 - z)^(1 - u) - 1) / ((u - 1) z)`, or `-log(1 - z) / z` for u = 1; z is 1/4."""
    if u == 1:
        return math.log(-4 * math.log(0.75))
    power = (u - 1) * math.log(4 / 3)
    return power + math.log1p(-math.exp(-power)) - math.log((u - 1) / 4)


@pytest.mark.parametrize("rows", [100, 10_000])
def test_linearly_dependent_columns(rows: int) -> None:
    """On a large scale the prior vanishes beside the data, and with it what keeps determinants positive."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 4))
    X[:, 3] = X[:, 0] + X[:, 2]
    stats = GaussianStats.from_data(1e9 * X, names="abcd")
    assert np.isfinite(family_table(make_score("bge", stats.standardized()), 3).scores).all()
    with pytest.raises(DataError, match="Columns a, c, d are linearly dependent"):
        family_table(make_score("bge", stats), 3)
