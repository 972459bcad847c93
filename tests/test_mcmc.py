"""Chains of orders: states and places against enumeration, moves and chains against exact distributions."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag.checkpoint import saving
from polydag.discovery import (
    bucket,
    chains,
    exact_posterior,
    family_table,
    mcmc,
    mcmc_posterior,
    with_prior,
)
from polydag.discovery.chains import Length, run_chains
from polydag.discovery.diagnostics import diagnose
from polydag.discovery.families import FamilyTable, all_others
from polydag.discovery.orders import Orders
from polydag.discovery.orders.improving import combined
from polydag.discovery.orders.jumps import jumped
from polydag.discovery.orders.jumps.finding import Peak, ways_between
from polydag.discovery.orders.search import FLAT, ONCE, PROVEN, search
from polydag.discovery.orders.walking import OrderSampler, OrderWalker
from polydag.discovery.ranked import rank, undominated
from polydag.discovery.ranked.pairs import pairs
from polydag.discovery.subsets import n_subsets
from polydag.errors import ConvergenceWarning, DataError, UsageError
from polydag.knowledge import Knowledge
from polydag.learners.discovery import BayesianDiscovery
from polydag.posterior import Posterior
from polydag.progress import Step, listening
from polydag.scores import make_score
from polydag.stats import DiscreteCounts

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def random_table(n: int, top: int, seed: int, spread: float = 3.0, impossible: float = 0.0) -> FamilyTable:
    rng = np.random.default_rng(seed)
    scores = spread * rng.standard_normal((n, n_subsets(n - 1, top)))
    scores[rng.random(scores.shape) < impossible] = -np.inf
    return FamilyTable(tuple("abcdefghijklmnop"[:n]), all_others(n), top, scores)


def random_space(
    n: int, size: int, top: int, seed: int, **options: float
) -> tuple[FamilyTable, bucket.BucketOrders, Index]:
    table = random_table(n, min(top, n - 1), seed, **options)
    order = np.random.default_rng(seed + 1).permutation(n).astype(np.int64)
    return table, bucket.BucketOrders(bucket.scaled(table), size), order


@cache
def members(table: FamilyTable) -> list[list[frozenset[int]]]:
    return [[frozenset(table.parents(i, s)) for s in range(len(table.sets))] for i in range(table.n)]


def alpha(table: FamilyTable, node: int, before: frozenset[int]) -> float:
    fitting = [x for x, own in zip(table.scores[node], members(table)[node], strict=True) if own <= before]
    return float(np.logaddexp.reduce(fitting or [-np.inf]))


def linear_orders(order: Index, begin: Index) -> list[tuple[int, ...]]:
    parts = [order[a:b].tolist() for a, b in itertools.pairwise(begin)]
    return [
        sum(choice, ()) for choice in itertools.product(*(itertools.permutations(part) for part in parts))
    ]


def order_weight(table: FamilyTable, order: tuple[int, ...]) -> float:
    return sum(alpha(table, node, frozenset(order[:place])) for place, node in enumerate(order))


def state_weight(table: FamilyTable, order: Index, begin: Index) -> float:
    """The same by enumeration, in logarithms."""
    return float(np.logaddexp.reduce([order_weight(table, one) for one in linear_orders(order, begin)]))


def state_families(table: FamilyTable, order: Index, begin: Index) -> Array:
    """The probability of each family given the state, by enumeration."""
    result = np.zeros(table.scores.shape)
    total = state_weight(table, order, begin)
    for one in linear_orders(order, begin):
        weight = order_weight(table, one) - total
        if weight == -np.inf:
            continue
        for place, node in enumerate(one):
            before = frozenset(one[:place])
            share = weight - alpha(table, node, before)
            for s, own in enumerate(members(table)[node]):
                if own <= before:
                    result[node, s] += math.exp(share + table.scores[node, s])
    return result


SPREADS = [1.0, 100.0, 3000.0, 1e5]


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 6),
    size=st.integers(1, 4),
    top=st.integers(0, 4),
    spread=st.sampled_from(SPREADS),
)
@settings(max_examples=40, deadline=None)
def test_states_against_enumeration(seed: int, n: int, size: int, top: int, spread: float) -> None:
    table, space, order = random_space(n, size, top, seed, spread=spread)
    exact = state_weight(table, order, space.begin)
    assert space.log_weight(order) == pytest.approx(exact, rel=1e-12, abs=1e-12)
    expected = state_families(table, order, space.begin)
    found = np.array([space.families(node, order) for node in range(n)])
    # Sums of large logarithms are themselves only as exact as their last digit.
    tolerance = 1e-12 + 16 * np.spacing(n * np.abs(table.scores).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(space.edges(order), table.edge_sums(expected), rtol=0, atol=tolerance)


@given(seed=st.integers(0, 10**6), spread=st.sampled_from(SPREADS), share=st.sampled_from([0.3, 0.6]))
@settings(max_examples=30, deadline=None)
def test_families_that_are_ruled_out(seed: int, spread: float, share: float) -> None:
    table, space, order = random_space(6, 3, 3, seed, spread=spread, impossible=share)
    exact = state_weight(table, order, space.begin)
    if exact == -np.inf:
        assert space.log_weight(order) == -np.inf
        return
    assert space.log_weight(order) == pytest.approx(exact, rel=1e-12, abs=1e-12)
    tolerance = 1e-12 + 16 * np.spacing(6 * np.abs(table.scores[table.scores > -np.inf]).max())
    expected = table.edge_sums(state_families(table, order, space.begin))
    np.testing.assert_allclose(space.edges(order), expected, rtol=0, atol=tolerance)


def test_candidates_of_their_own() -> None:
    full = random_table(6, 2, 4)
    kept = np.array([[1, 2, 4], [0, 2, 3], [1, 3, 5], [0, 1, 2], [0, 2, 3], [0, 1, 4]])
    pruned = FamilyTable(full.names, kept, 2, np.zeros((6, n_subsets(3, 2))))
    scores = np.full(full.scores.shape, -np.inf)
    for node, s in np.ndindex(pruned.scores.shape):
        where = full.index(node, pruned.parents(node, s))
        pruned.scores[node, s] = scores[node, where] = full.scores[node, where]
    order = np.array([3, 1, 0, 2, 5, 4])
    a, b = (bucket.BucketOrders(bucket.scaled(table), 3) for table in (pruned, full.with_scores(scores)))
    assert a.log_weight(order) == pytest.approx(b.log_weight(order), abs=1e-12)
    np.testing.assert_allclose(a.edges(order), b.edges(order), atol=1e-13)


@given(seed=st.integers(0, 10**6), spread=st.sampled_from([1.0, 3000.0]), size=st.integers(1, 5))
@settings(max_examples=15, deadline=None)
def test_a_permutation_of_variables_permutes_the_answer(seed: int, spread: float, size: int) -> None:
    table, space, order = random_space(7, size, 3, seed, spread=spread)
    rng = np.random.default_rng(seed)
    new = rng.permutation(7)  # where each variable goes
    scores = np.empty_like(table.scores)
    for node, s in np.ndindex(scores.shape):
        parents = [int(new[v]) for v in table.parents(node, s)]
        scores[new[node], table.index(int(new[node]), parents)] = table.scores[node, s]
    moved = bucket.BucketOrders(bucket.scaled(table.with_scores(scores)), size)
    assert moved.log_weight(new[order]) == pytest.approx(space.log_weight(order), rel=1e-13, abs=1e-12)
    tolerance = 1e-12 + 16 * np.spacing(7 * np.abs(scores).max())
    np.testing.assert_allclose(
        moved.edges(new[order])[np.ix_(new, new)], space.edges(order), rtol=0, atol=tolerance
    )
    # The order of the variables of a bucket says nothing.
    inside = np.concatenate([rng.permutation(order[a:b]) for a, b in itertools.pairwise(space.begin)])
    assert space.log_weight(inside) == pytest.approx(space.log_weight(order), rel=1e-13, abs=1e-12)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 6),
    top=st.integers(0, 4),
    spread=st.sampled_from(SPREADS),
    share=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=40, deadline=None)
def test_places_against_enumeration(seed: int, n: int, top: int, spread: float, share: float) -> None:
    table = random_table(n, min(top, n - 1), seed, spread=spread, impossible=share)
    try:
        order = Orders(table).start(np.random.default_rng(seed)).order
    except DataError:
        return
    space = Orders(table)
    total = order_weight(table, tuple(order))
    assert space.state(order).log_weight == pytest.approx(total, rel=1e-12, abs=1e-12)
    for node in range(n):
        rest = [int(v) for v in order if v != node]
        exact = [order_weight(table, (*rest[:p], node, *rest[p:])) for p in range(n)]
        found = space.places(order, node)
        # What is never drawn need not be weighed to the last digit.
        seen = np.array(exact) > max(exact) - 30
        np.testing.assert_allclose(found[seen], np.array(exact)[seen], rtol=1e-12, atol=1e-11)
        assert (found[~seen] < max(exact) - 29).all()


@given(seed=st.integers(0, 10**6), spread=st.sampled_from(SPREADS), share=st.sampled_from([0.0, 0.3]))
@settings(max_examples=20, deadline=None)
def test_sums_stay_right_over_many_moves(seed: int, spread: float, share: float) -> None:
    table = random_table(9, 3, seed, spread=spread, impossible=share)
    space, rng = Orders(table), np.random.default_rng(seed)
    try:
        state = space.start(rng)
    except DataError:
        return
    space.relocate(state, 5000, 1.0, rng, space.room())
    np.testing.assert_allclose(state.logs, space.state(state.order).logs, rtol=1e-12, atol=1e-10)
    assert (state.order[state.place] == np.arange(9)).all()


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 7),
    width=st.integers(1, 6),
    spread=st.sampled_from(SPREADS),
    share=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=25, deadline=None)
def test_families_of_pairs_against_the_table(
    seed: int, n: int, width: int, spread: float, share: float
) -> None:
    rng, width = np.random.default_rng(seed), min(width, n - 1)
    candidates = np.sort(np.array([rng.choice(np.delete(np.arange(n), i), width, False) for i in range(n)]))
    top = min(3, width)
    scores = spread * rng.standard_normal((n, n_subsets(width, top)))
    scores[:, 1:][rng.random((n, scores.shape[1] - 1)) < share] = -np.inf
    table = FamilyTable(tuple("abcdefg"[:n]), candidates, top, scores)
    found = pairs(rank(table))
    exact, count = np.full((n, n), -np.inf), 0
    for u in range(n):
        for k, score in enumerate(scores[u]):
            for v in table.parents(u, k) if score > -np.inf else ():
                exact[u, v] = np.logaddexp(exact[u, v], score)
                count += 1
    np.testing.assert_allclose(found.sums(n), exact, rtol=1e-12, atol=1e-12)
    assert len(found.values) == found.start[-1] == count


@given(seed=st.integers(0, 10**6), spread=st.sampled_from([10.0, 30.0, 1000.0]))
@settings(max_examples=25, deadline=None)
def test_families_that_subsets_outshine_do_not_matter(seed: int, spread: float) -> None:
    table = random_table(6, 4, seed, spread=spread, impossible=0.1)
    kept = undominated(table)
    left_out = (kept.scores == -np.inf) & (table.scores > -np.inf)
    assert left_out.any() or spread < 30
    for node in range(6):
        others = [v for v in range(6) if v != node]
        for size in range(6):
            for before in itertools.combinations(others, size):
                full, few = (alpha(one, node, frozenset(before)) for one in (table, kept))
                assert few == pytest.approx(full, rel=1e-15, abs=1e-12)


def test_linear_orders_are_drawn_by_their_weights() -> None:
    table, space, order = random_space(5, 3, 2, 3, spread=1.0)
    rng = np.random.default_rng(0)
    drawn = [tuple(space.linear_order(order, rng).tolist()) for _ in range(5000)]
    possible = linear_orders(order, space.begin)
    assert set(drawn) <= set(possible)
    total = state_weight(table, order, space.begin)
    expected = np.array([math.exp(order_weight(table, one) - total) for one in possible])
    frequency = np.array([drawn.count(one) for one in possible]) / len(drawn)
    assert np.abs(frequency - expected).max() < 4.5 * math.sqrt(0.25 / len(drawn))


def all_states(n: int, begin: Index) -> dict[bytes, Index]:
    states = {}
    for one in itertools.permutations(range(n)):
        order = np.concatenate([np.sort(one[a:b]) for a, b in itertools.pairwise(begin)])
        states[order.tobytes()] = order
    return states


def path(n: int, along: list[int], rest: list[int]) -> Peak:
    """A peak whose sure edges lead along some variables."""
    edges = np.zeros((n, n))
    edges[along[:-1], along[1:]] = 1.0
    return Peak(np.array([along + rest]), edges[None])


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("move", ["relocate", "arrange", "redraw", "jump", "jump backwards"])
def test_each_move_alone_keeps_the_distribution(
    move: str, power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From orders drawn by weight, one move later they still are."""
    table = random_table(5, 2, 8, spread=1.5)
    space = Orders(table)
    walker = OrderWalker(OrderSampler.of(table, 3))
    turned = path(5, [1, 0], [2, 3, 4])
    turned.edges[0, 1, 2] = 1.0
    ((jump, backwards),) = ways_between(path(5, [0, 1, 2], [3, 4]), turned)
    assert backwards.backwards
    assert not jump.backwards
    orders = list(itertools.permutations(range(5)))
    logs = np.array([order_weight(table, order) for order in orders])
    target = np.exp(power * (logs - logs.max()))
    target /= target.sum()
    rng, room = np.random.default_rng(1), space.room()
    monkeypatch.setattr("polydag.discovery.orders._ARRANGED", 3)
    desk = space.desk()
    place = {order: k for k, order in enumerate(orders)}
    count, after, moved = 8000, np.zeros(len(orders)), 0
    for k in rng.choice(len(orders), count, p=target):
        state = space.state(np.array(orders[k]))
        if move == "relocate":
            space.relocate(state, 1, power, rng, room)
        elif move == "arrange":
            space.arrange(state, 1, power, rng, room, desk)
        elif move.startswith("jump"):
            state = jumped(space, state, jump if move == "jump" else backwards, power, rng)
        else:
            state = walker._redrawn(state, power, rng)
        now = place[tuple(state.order.tolist())]
        assert state.log_weight == pytest.approx(logs[now], abs=1e-11)
        moved += now != k
        after[now] += 1
    assert moved > count / 20
    z = (after - count * target) / np.sqrt(count * target * (1 - target) + 1e-9)
    assert np.abs(z).max() < 4.5


def rugged() -> FamilyTable:
    """Scores of many rows: hundreds of logarithms between one family and another."""
    rng = np.random.default_rng(2)
    z = rng.standard_normal((40_000, 9))
    for j in range(1, 9):
        z[:, j] += sum(0.6 * z[:, k] for k in rng.choice(j, min(j, 3), replace=False))
    frame = pd.DataFrame(np.digitize(z / z.std(axis=0), [-1, 0, 1]), columns=list("abcdefghi"))
    frame = frame[[*"gbfiahced"]]
    return with_prior(family_table(make_score("k2", DiscreteCounts.from_data(frame)), 2))


def test_the_search_finds_the_best_network() -> None:
    table = rugged()
    space = Orders(table)
    best = exact_posterior(table).best_graph()[1]
    for seed in range(3):
        found = search(OrderSampler.of(table), 2, random_state=seed)
        reached = [float(space.best_families(space.state(order))[1].sum()) for order in found.orders]
        assert max(reached) == pytest.approx(best, abs=1e-6)
        assert min(reached) > best - 10 - 9 * math.log(37)
        assert found.peak == PROVEN
    again = search(OrderSampler.of(table), 2, random_state=seed, n_jobs=2)
    np.testing.assert_array_equal(found.orders, again.orders)


def test_what_is_known_of_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    assert search(OrderSampler.of(fifteen()[0]), 2, random_state=0).peak == FLAT
    monkeypatch.setattr("polydag.discovery.orders.search.best_network", lambda space, rng: None)
    assert search(OrderSampler.of(rugged()), 1, random_state=0).peak == ONCE
    chain = mcmc_posterior(rugged(), n_chains=1, random_state=0)
    assert chain.peak == ONCE
    assert not chain.mixed
    assert "only one search" in replace(chain, history=chain.history.assign(mixed=True)).disagreement()


def test_parts_that_are_better_are_taken_over() -> None:
    """Two halves without any edge between them, each right in one of two orders."""
    table = random_table(8, 1, 0)
    scores = np.where(table.sizes == 0, 0.0, -500.0) * np.ones((8, 1))
    for child, parent in ((1, 0), (2, 1), (3, 2), (5, 4), (6, 5), (7, 6)):
        scores[child, table.index(child, [parent])] = 300.0
        scores[parent, table.index(parent, [child])] = 200.0
    space = Orders(table.with_scores(scores))
    one, other = (space.state(np.array(o)) for o in ([0, 1, 2, 3, 7, 6, 5, 4], [3, 2, 1, 0, 4, 5, 6, 7]))
    assert one.log_weight == pytest.approx(1500) == other.log_weight
    assert combined(space, one, other).log_weight == pytest.approx(1800)
    assert combined(space, other, one).log_weight == pytest.approx(1800)


@cache
def fifteen() -> tuple[FamilyTable, Posterior]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((300, 15))
    for j in range(1, 15):
        z[:, j] += 0.8 * z[:, j - 1] * (j % 3 > 0) + 0.5 * z[:, rng.integers(0, j)]
    counts = DiscreteCounts.from_data(pd.DataFrame((z > 0).astype(int), columns=list("abcdefghijklmno")))
    table = with_prior(family_table(make_score("bdeu", counts), 3))
    return table, exact_posterior(table)


def agreeing(found: Any, exact: Posterior) -> float:
    """The share of edges within three standard errors, or 0.005."""
    frame = found.diagnostics
    where = [[exact.names.index(name) for name in frame[end]] for end in ("source", "target")]
    off = np.abs(found.probabilities - exact.probabilities)[tuple(where)]
    return float((off <= np.maximum(3 * frame["mcse"].to_numpy(), 0.005)).mean())


def test_fifteen_variables_against_the_exact_posterior() -> None:
    table, exact = fifteen()
    found = mcmc_posterior(table, random_state=1)
    assert found.mixed
    assert agreeing(found, exact) >= 0.99
    assert np.abs(found.probabilities - exact.probabilities).max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size", [10, 5])
def test_fifteen_variables_over_many_seeds(seed: int, size: int) -> None:
    table, exact = fifteen()
    found = mcmc_posterior(table, random_state=seed, bucket_size=size)
    assert found.mixed
    # Standard errors from some hundred effective draws are themselves uncertain.
    assert agreeing(found, exact) >= 0.97


def test_tempered_chains_have_the_same_posterior() -> None:
    table, exact = fifteen()
    sampler = OrderSampler(Orders(table), bucket.scaled(table), 8)
    parallel = run_with(sampler, chains._Plan(1, 1000, 10, 5))
    off = np.abs(parallel["edges"].mean(axis=(0, 1)) - exact.probabilities)
    error = diagnose(parallel["edges"]).mcse
    assert (off <= np.maximum(3.5 * error, 0.01)).mean() >= 0.99


def run_with(sampler: OrderSampler, plan: chains._Plan) -> dict[str, Any]:
    seeds = np.random.SeedSequence(3).spawn(3)
    walker = sampler.walker()
    parts = []
    for seed in seeds:
        start = walker.pack(walker.start(np.random.default_rng(seed)))
        parts.append(chains._block(sampler, [start], plan, seed))
    assert all(part["at"].shape == (plan.temperatures, sampler.n) for part in parts)
    return {key: np.stack([part[key] for part in parts]) for key in parts[0]}


def test_one_bucket_is_exact() -> None:
    table = random_table(6, 3, 2)
    exact, found = exact_posterior(table), mcmc_posterior(table, random_state=0)
    np.testing.assert_allclose(found.probabilities, exact.probabilities, atol=1e-12)
    assert found.mixed
    assert exact.family_probabilities is not None
    for node in range(6):
        np.testing.assert_allclose(found.families_of(node), exact.family_probabilities[node], atol=1e-12)
    assert found.feature(lambda node, parents: node != "a" or not parents) == pytest.approx(
        exact.feature(lambda node, parents: node != "a" or not parents), abs=1e-12
    )
    pd.testing.assert_frame_equal(found.v_structures(0.2), exact.v_structures(0.2), atol=1e-10)
    assert found.log_evidence is None


def test_draws_and_what_is_made_of_them() -> None:
    table, exact = fifteen()
    found = mcmc_posterior(table, n_chains=3, n_steps=400, bucket_size=6, random_state=0)
    draws = found.draws
    assert draws.buckets.shape == (3, 20, 15)
    assert (draws.n_chains, draws.n_draws) == (3, 20)
    for chain, draw in itertools.product(range(3), (0, 19)):
        state = draws.buckets[chain, draw]
        assert np.bincount(state).tolist() == [6, 6, 3]
        space = bucket.BucketOrders(bucket.scaled(table), 6)
        order = np.argsort(state, kind="stable")
        assert space.log_weight(order) == pytest.approx(draws.log_weights[chain, draw], abs=1e-9)
    sums = found.parents("c").set_index("parents")["probability"]
    assert sums.sum() == pytest.approx(1.0)
    with_b = sum(p for parents, p in sums.items() if "b" in parents)
    assert with_b == pytest.approx(found.edges.loc["b", "c"], abs=1e-9)
    graph, score = found.best_graph()
    assert graph.is_dag
    best = exact.best_graph()[1]  # type: ignore[attr-defined]
    assert score <= best + 1e-9
    own = [table.scores[j, table.index(j, np.flatnonzero(graph.adjacency[:, j]))] for j in range(15)]
    assert sum(own) == pytest.approx(score)
    assert "Posterior (mcmc)" in repr(found)
    feature = found.feature(lambda node, parents: node != "c" or "b" in parents)
    assert feature == pytest.approx(found.edges.loc["b", "c"], abs=1e-9)


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.draws.buckets, other.draws.buckets)
    np.testing.assert_array_equal(one.draws.log_weights, other.draws.log_weights)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)


def test_processes_change_nothing() -> None:
    table, _ = fifteen()
    options: dict[str, Any] = {"n_steps": 200, "bucket_size": 5, "random_state": 3, "n_chains": 2}
    one = mcmc_posterior(table, **options)
    same(one, mcmc_posterior(table, n_jobs=2, **options))
    with joblib.parallel_config(backend="threading"):
        same(one, mcmc_posterior(table, n_jobs=2, **options))


def test_resumed_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after some blocks of the second round, and gone on with."""
    table, _ = fifteen()
    options: dict[str, Any] = {"bucket_size": 5, "random_state": 3, "n_chains": 2}
    monkeypatch.setattr(chains, "ROUNDS", 2)
    monkeypatch.setattr(mcmc, "_FIRST_EACH", 20)
    monkeypatch.setattr(mcmc, "_FIRST", 20)
    whole = mcmc_posterior(table, **options)
    block, left = chains._block, iter(range(2 * 14))

    def until_stopped(*arguments: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return block(*arguments)

    monkeypatch.setattr(chains, "_block", until_stopped)
    with saving(tmp_path, {"seed": "3"}), pytest.raises(KeyboardInterrupt):
        mcmc_posterior(table, **options)
    searched = len(list(tmp_path.glob("*.npz"))) - 14
    assert 1 <= searched <= 16
    counted: list[int] = []

    def counting(*arguments: Any) -> Any:
        counted.append(1)
        return block(*arguments)

    monkeypatch.setattr(chains, "_block", counting)
    with saving(tmp_path, {"seed": "3"}):
        resumed = mcmc_posterior(table, **options)
    same(whole, resumed)
    assert len(counted) == 2 * (30 - 14)
    with saving(tmp_path, {"seed": "3"}):
        same(whole, mcmc_posterior(table, **options))
    assert len(counted) == 2 * (30 - 14)


def test_the_length_is_as_asked() -> None:
    table, _ = fifteen()
    found = mcmc_posterior(table, n_steps=300, burn_in=100, bucket_size=5, random_state=0)
    last = found.history.iloc[-1]
    assert (last["burn_in"], last["steps"], last["draws"]) == (100, 200, 20)
    assert found.n_steps == 300


def divided_table() -> FamilyTable:
    """Five variables want two of the other five before them, and the other way round."""
    table = random_table(10, 2, 0)
    scores = np.zeros(table.scores.shape)
    for node in range(10):
        scores[node, table.index(node, (5, 6) if node < 5 else (0, 1))] = 10.0
    return table.with_scores(scores)


def test_chains_that_disagree_get_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "BEFORE_TEMPERING", 1)
    monkeypatch.setattr(mcmc, "_FIRST_EACH", 50)
    monkeypatch.setattr(mcmc, "_FIRST", 50)
    monkeypatch.setattr(OrderWalker, "_redrawn", lambda _, state, *__: state)  # which would need none
    table = divided_table()
    found = mcmc_posterior(table, bucket_size=5, random_state=1)  # whose searches end on both peaks
    first, *others = found.history["temperatures"].tolist()
    assert first == 1
    assert set(others) == {chains.TEMPERATURES}
    assert found.history["r_hat"].iloc[0] > 1.05
    assert found.mixed
    assert agreeing(found, exact_posterior(table)) >= 0.99


def test_not_mixed_is_said_by_the_estimator() -> None:
    table, _ = fifteen()
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (100, 15)), columns=list(table.names))
    model = BayesianDiscovery(
        method="mcmc", max_parents=2, n_steps=20, n_chains=2, bucket_size=4, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match=r"have not mixed after 20 steps: R-hat is up to .*n_steps"):
        model.fit(frame)
    assert not model.converged_
    assert model.n_iter_ == 20
    assert model.log_evidence_ is None
    assert not model.history_["mixed"].iloc[-1]


def test_the_estimator_by_chains() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.integers(0, 2, (200, 12)), columns=list("abcdefghijkl"))
    for one, other in itertools.pairwise("abcdef"):
        frame[other] = np.where(rng.random(200) < 0.85, frame[one], frame[other])
    known = Knowledge(required=[("l", "k")], forbidden=[("a", "b")], tiers=[["c"], ["d"]])
    settings_ = {"score": "bdeu", "max_parents": 2, "knowledge": known, "random_state": 0}
    exact = BayesianDiscovery(method="exact", **settings_).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BayesianDiscovery(method="mcmc", bucket_size=7, **settings_).fit(frame)
    assert model.converged_
    edges = model.posterior_.edges
    assert edges.loc["l", "k"] == pytest.approx(1.0)
    assert edges.loc["a", "b"] == edges.loc["d", "c"] == 0.0
    assert agreeing(model.posterior_, exact.posterior_) >= 0.99
    assert model.graph_.is_dag
    assert list(model.posterior_.diagnostics.columns) == ["source", "target", "r_hat", "ess", "mcse"]
    few = BayesianDiscovery(score="bdeu", max_parents=2, memory=1e-6, random_state=0, n_steps=400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert few.fit(frame).posterior_.method == "mcmc"
    assert BayesianDiscovery(score="bdeu", max_parents=2).fit(frame).posterior_.method == "exact"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_chains": 0}, "n_chains must be at least 1"),
        ({"n_steps": 5}, "n_steps must be at least 20"),
        ({"burn_in": -1}, "burn_in must not be negative"),
        ({"n_steps": 100, "burn_in": 95}, "burn_in = 95 leaves nothing of n_steps = 100"),
        ({"bucket_size": 0}, "bucket_size must lie between 1 and 16"),
        ({"bucket_size": 17}, "bucket_size must lie between 1 and 16"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        mcmc_posterior(random_table(6, 2, 0), **options)


def test_knowledge_that_no_order_satisfies() -> None:
    table = random_table(4, 1, 0)
    chance = np.full((4, 4), 0.5)
    chance[0, 1] = chance[1, 0] = 1.0
    with pytest.raises(DataError, match="No order of the variables"):
        mcmc_posterior(with_prior(table, edge_prior=chance), bucket_size=2)
    nothing = table.with_scores(np.where(np.arange(4)[:, None] == 1, -np.inf, table.scores))
    with pytest.raises(DataError, match="No parent set of b is allowed"):
        mcmc_posterior(nothing)


def test_progress_is_told() -> None:
    steps: list[Step] = []
    with listening(steps.append):
        mcmc_posterior(random_table(8, 2, 0), n_steps=200, bucket_size=4, random_state=0)
    assert {step.task for step in steps} == {"chains, round 1", "chains, round 2"}
    assert "R-hat" in steps[-1].note


def test_diagnostics_of_known_traces() -> None:
    rng = np.random.default_rng(0)
    edges = np.zeros((4, 200, 3, 3))
    edges[..., 0, 1] = rng.random((4, 200))
    edges[..., 1, 2] = 0.3
    edges[:2, :, 2, 0] = 1.0  # two chains say yes, two say no
    found = diagnose(edges)
    assert found.r_hat[0, 1] == pytest.approx(1.0, abs=0.02)
    assert found.mcse[0, 1] == pytest.approx(math.sqrt(1 / 12 / 800), rel=0.2)
    assert np.isnan(found.r_hat[1, 2])
    assert found.mcse[1, 2] == pytest.approx(0.0, abs=1e-12)
    assert found.r_hat[2, 0] > 1.5
    assert not found.mixed
    edges[..., 2, 0] = 0.0
    assert diagnose(edges).mixed
    short = diagnose(edges[:, :3])
    assert not short.mixed
    frame = found.frame(("a", "b", "c"))
    assert len(frame) == 6
    assert diagnose(np.zeros((2, 10, 3, 3))).mixed


def test_runs_of_any_sampler_need_a_length() -> None:
    table = random_table(5, 2, 0)
    sampler = OrderSampler(Orders(table), bucket.scaled(table), 2)
    run = run_chains(sampler, Length(n_chains=2, n_steps=100), random_state=0)
    assert run.states.shape == (2, 5, 5)
    assert run.edges.shape == (2, 5, 5, 5)
    assert len(run.history) == 1
