"""Orders and bucket orders: weights, places and moves against enumeration; the search for the best."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.posterior import exact_posterior
from polydag.posterior.families.families_by_parent import group_by_parent
from polydag.posterior.families.sorted_families import sort_families, without_negligible
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.bucket_orders import BucketOrders
from polydag.posterior.orders.annealing import crossover
from polydag.posterior.orders.mode_jumps.moves import jump
from polydag.posterior.orders.mode_jumps.search import Mode, jumps_between
from polydag.posterior.orders.relocation import place_weights, relocate
from polydag.posterior.orders.sampler import OrderSampler
from polydag.posterior.orders.search import PROVEN, find_starts
from polydag.posterior.orders.space import OrderSpace, random_order
from polydag.posterior.orders.subset_permutation import permute_subsets
from tables import random_table, rugged

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def random_space(
    n: int, size: int, top: int, seed: int, **options: float
) -> tuple[FamilyTable, BucketOrders, Index]:
    table = random_table(n, min(top, n - 1), seed, **options)
    order = np.random.default_rng(seed + 1).permutation(n).astype(np.int64)
    return table, BucketOrders.of(table, size), order


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
    """The log weight by enumeration."""
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
    found = np.array([space.family_probabilities(node, order) for node in range(n)])
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
    a, b = (BucketOrders.of(table, 3) for table in (pruned, full.with_scores(scores)))
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
    moved = BucketOrders.of(table.with_scores(scores), size)
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
@example(seed=150506, n=6, top=3, spread=100.0, share=0.3)  # two families of one size, in blocks far apart
def test_places_against_enumeration(seed: int, n: int, top: int, spread: float, share: float) -> None:
    table = random_table(n, min(top, n - 1), seed, spread=spread, impossible=share)
    try:
        order = random_order(table, np.random.default_rng(seed))
    except DataError:
        return
    space = OrderSpace.of(table)
    total = order_weight(table, tuple(order))
    assert space.init(order).log_weight == pytest.approx(total, rel=1e-12, abs=1e-12)
    for node in range(n):
        rest = [int(v) for v in order if v != node]
        exact = [order_weight(table, (*rest[:p], node, *rest[p:])) for p in range(n)]
        found = place_weights(space, space.init(order), node)
        # What is never drawn need not be weighed to the last digit.
        seen = np.array(exact) > max(exact) - 30
        np.testing.assert_allclose(found[seen], np.array(exact)[seen], rtol=1e-12, atol=1e-11)
        assert (found[~seen] < max(exact) - 29).all()


@given(seed=st.integers(0, 10**6), spread=st.sampled_from(SPREADS), share=st.sampled_from([0.0, 0.3]))
@settings(max_examples=20, deadline=None)
def test_sums_stay_right_over_many_moves(seed: int, spread: float, share: float) -> None:
    table = random_table(9, 3, seed, spread=spread, impossible=share)
    space, rng = OrderSpace.of(table), np.random.default_rng(seed)
    try:
        state = space.init(random_order(table, rng))
    except DataError:
        return
    for move, count in ((relocate, 5000), (permute_subsets, 500)):
        before = state.copy()
        new, _ = move(space, rng, state, count)
        for old, own in zip(before, state, strict=True):
            np.testing.assert_array_equal(old, own)  # a move leaves the state that it is given as it is
        state = new
        expected = space.init(state.order).log_sums
        np.testing.assert_allclose(state.log_sums, expected, rtol=1e-12, atol=1e-10)
    assert (state.order[state.place] == np.arange(9)).all()


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 7),
    width=st.integers(1, 6),
    spread=st.sampled_from(SPREADS),
    share=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=25, deadline=None)
def test_families_by_parent_against_the_table(
    seed: int, n: int, width: int, spread: float, share: float
) -> None:
    rng, width = np.random.default_rng(seed), min(width, n - 1)
    candidates = np.sort(np.array([rng.choice(np.delete(np.arange(n), i), width, False) for i in range(n)]))
    top = min(3, width)
    scores = spread * rng.standard_normal((n, n_subsets(width, top)))
    scores[:, 1:][rng.random((n, scores.shape[1] - 1)) < share] = -np.inf
    table = FamilyTable(tuple("abcdefg"[:n]), candidates, top, scores)
    found = group_by_parent(sort_families(table))
    exact, count = np.full((n, n), -np.inf), 0
    for u in range(n):
        for k, score in enumerate(scores[u]):
            for v in table.parents(u, k) if score > -np.inf else ():
                exact[u, v] = np.logaddexp(exact[u, v], score)
                count += 1
    np.testing.assert_allclose(found.log_sums(n), exact, rtol=1e-12, atol=1e-12)
    assert len(found.values) == found.start[-1] == count


@given(seed=st.integers(0, 10**6), spread=st.sampled_from([10.0, 30.0, 1000.0]))
@settings(max_examples=25, deadline=None)
def test_families_that_are_negligible_do_not_matter(seed: int, spread: float) -> None:
    table = random_table(6, 4, seed, spread=spread, impossible=0.1)
    kept = without_negligible(table)
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
    drawn = [tuple(space.linear_order(rng, order).tolist()) for _ in range(5000)]
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


def path(n: int, along: list[int], rest: list[int]) -> Mode:
    """A mode whose certain edges lead along some variables."""
    edges = np.zeros((n, n))
    edges[along[:-1], along[1:]] = 1.0
    return Mode(np.array([along + rest]), edges[None])


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("move", ["relocate", "permute", "redraw", "jump", "jump backwards"])
def test_each_move_alone_keeps_the_distribution(
    move: str, power: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From orders drawn by weight, one move later they still are."""
    table = random_table(5, 2, 8, spread=1.5)
    sampler = OrderSampler.of(table, 3).configured(moves=1, power=power)
    space = sampler.space
    turned = path(5, [1, 0], [2, 3, 4])
    turned.edges[0, 1, 2] = 1.0
    ((forwards, backwards),) = jumps_between(path(5, [0, 1, 2], [3, 4]), turned)
    assert backwards.backwards
    assert not forwards.backwards
    orders = list(itertools.permutations(range(5)))
    logs = np.array([order_weight(table, order) for order in orders])
    target = np.exp(power * (logs - logs.max()))
    target /= target.sum()
    rng = np.random.default_rng(1)
    monkeypatch.setattr("polydag.posterior.orders.subset_permutation._SIZE", 3)
    place = {order: k for k, order in enumerate(orders)}
    count, after, moved = 8000, np.zeros(len(orders)), 0
    for k in rng.choice(len(orders), count, p=target):
        state = space.init(np.array(orders[k]))
        if move == "relocate":
            state, _ = relocate(space, rng, state, 1, power)
        elif move == "permute":
            state, _ = permute_subsets(space, rng, state, 1, power)
        elif move.startswith("jump"):
            state, _ = jump(space, rng, state, forwards if move == "jump" else backwards, power)
        else:
            state = sampler.redraw_buckets(rng, state)
        now = place[tuple(state.order.tolist())]
        assert state.log_weight == pytest.approx(logs[now], abs=1e-11)
        moved += now != k
        after[now] += 1
    assert moved > count / 20
    z = (after - count * target) / np.sqrt(count * target * (1 - target) + 1e-9)
    assert np.abs(z).max() < 4.5


def test_the_search_finds_the_best_network() -> None:
    table = rugged()
    space = OrderSpace.of(table)
    best = exact_posterior(table).best_graph()[1]
    for seed in range(3):
        found = find_starts(OrderSampler.of(table), 2, random_state=seed)
        reached = [float(space.best_families(space.init(order))[1].sum()) for order in found.orders]
        assert max(reached) == pytest.approx(best, abs=1e-6)
        assert min(reached) > best - 10 - 9 * math.log(37)
        assert found.mode_search == PROVEN
    again = find_starts(OrderSampler.of(table), 2, random_state=seed, n_jobs=2)
    np.testing.assert_array_equal(found.orders, again.orders)


def test_parts_that_are_better_are_taken_over() -> None:
    """Two halves without any edge between them, each right in one of two orders."""
    table = random_table(8, 1, 0)
    scores = np.where(table.sizes == 0, 0.0, -500.0) * np.ones((8, 1))
    for child, parent in ((1, 0), (2, 1), (3, 2), (5, 4), (6, 5), (7, 6)):
        scores[child, table.index(child, [parent])] = 300.0
        scores[parent, table.index(parent, [child])] = 200.0
    space = OrderSpace.of(table.with_scores(scores))
    one, other = (space.init(np.array(o)) for o in ([0, 1, 2, 3, 7, 6, 5, 4], [3, 2, 1, 0, 4, 5, 6, 7]))
    assert one.log_weight == pytest.approx(1500) == other.log_weight
    assert crossover(space, one, other).log_weight == pytest.approx(1800)
    assert crossover(space, other, one).log_weight == pytest.approx(1800)
