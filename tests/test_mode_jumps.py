"""Modes that small moves do not connect: found one after the other, visited in proportion to their weight."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracles import all_dags
from polydag.arrays import Index
from polydag.posterior import exact_posterior, mcmc_posterior
from polydag.posterior.best_network import branch_and_cut as optimum
from polydag.posterior.best_network.branch_and_cut import another_network, best_network
from polydag.posterior.dags.partition_posterior import partition_posterior
from polydag.posterior.families.sorted_families import dominated
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable, all_others
from polydag.posterior.mcmc.chains import Chains
from polydag.posterior.orders import search
from polydag.posterior.orders.mode_jumps._proposals_kernels import insert_part
from polydag.posterior.orders.mode_jumps.moves import Layout, ModeJump
from polydag.posterior.orders.mode_jumps.proposals import fit_proposals
from polydag.posterior.orders.mode_jumps.search import Mode, find_jumps, jumps_between, rare_switches
from polydag.posterior.orders.sampler import OrderSampler
from polydag.posterior.orders.space import OrderSpace


@cache
def two_ways(n: int = 12, along: int = 9) -> FamilyTable:
    """A path that may lead either way, but must begin at an end: its middle alone costs 200 nats."""
    scores = np.random.default_rng(0).normal(0.0, 1.0, (n, n_subsets(n - 1, 2)))
    table = FamilyTable(tuple(f"x{i}" for i in range(n)), all_others(n), 2, scores)
    scores[:, table.sizes > 0] -= 5.0 * table.sizes[table.sizes > 0]
    for v in range(along):
        near = [u for u in (v - 1, v + 1) if 0 <= u < along]
        if len(near) == 2:
            scores[v] -= 200.0
        for u in near:
            scores[v, table.index(v, [u])] = 300.0 + (0.4 if u > v else 0.0) / along
    return table.with_scores(scores)


def test_both_modes_are_found_and_weighed() -> None:
    table = two_ways()
    exact = exact_posterior(table)
    modes, known = search.find_modes(OrderSampler.of(table, 3), np.random.default_rng(0))
    assert known == search.PROVEN
    ways = {bool(mode.edges[0, 0, 1] > 0.5) for mode in modes}
    assert ways == {True, False}
    found = mcmc_posterior(table, chains=Chains(bucket_size=3), random_state=0)
    assert found.mode_search == search.PROVEN
    assert found.mixed
    assert 0.1 < exact.probabilities[0, 1] < 0.9
    assert np.abs(found.probabilities - exact.probabilities).max() < 0.06
    assert found.best_graph()[1] == pytest.approx(exact.best_graph()[1], abs=0.1)


def test_without_jumps_no_chain_reaches_the_other_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "find_jumps", lambda space, rng, modes: ())
    monkeypatch.setattr("polydag.posterior.mcmc.driver.ROUNDS", 2)
    stuck = mcmc_posterior(two_ways(), chains=Chains(bucket_size=3), random_state=0)
    assert not stuck.mixed
    assert stuck.history["r_hat"].iloc[-1] > 1.5
    # Partitions have no jumps, and say so by R-hat.
    assert not partition_posterior(two_ways(), random_state=0).mixed


def test_modes_that_may_be_missing_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_MODES", 1)
    starts = search.find_starts(OrderSampler.of(two_ways(), 3), 2, random_state=0)
    assert starts.mode_search == search.BEST


@settings(max_examples=30, deadline=None)
@example(502, 0.5, 30.0)  # an edge that is decided must not divide networks
@given(st.integers(0, 10**6), st.floats(0.2, 0.95), st.sampled_from([1.0, 30.0]))
def test_the_best_network_with_something_new_against_enumeration(
    seed: int, share: float, spread: float
) -> None:
    rng = np.random.default_rng(seed)
    table = FamilyTable(tuple("abcd"), all_others(4), 3, spread * rng.normal(0.0, 1.0, (4, 8)))
    best = best_network(OrderSpace.of(table), rng)
    assert best is not None
    seen = rng.random((4, 4)) < share
    lost = dominated(table)
    scores = []
    for dag in all_dags(4):
        own = [table.index(v, np.flatnonzero(dag[:, v])) for v in range(4)]
        counts = (dag & ~seen).any() and not any(lost[v, s] for v, s in enumerate(own))
        scores.append(table.scores[range(4), own].sum() if counts else -math.inf)
    least = best.score - 2 * spread
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimum, "_MOST_PARTS", 5000)  # of a flat table there are many
        found = another_network(best.relaxation, seen, least)
    assert found.complete
    assert (found.edges is not None) == (max(scores) > least)
    if found.edges is not None and found.order is not None:
        np.testing.assert_array_equal(found.edges, all_dags(4)[int(np.argmax(scores))])
        place = np.argsort(found.order)
        assert all(place[u] < place[v] for u, v in np.argwhere(found.edges))


def outcomes(layout: Layout, n: int) -> Counter[tuple[int, ...]]:
    rng, line, places = np.random.default_rng(0), np.empty(n, dtype=np.int64), np.empty((n, 2))
    drawn: Counter[tuple[int, ...]] = Counter()
    for _ in range(6000):
        insert_part(np.arange(n), layout, True, rng, line, places)
        drawn[tuple(line.tolist())] += 1
    return drawn


def a_jump(n: int, edges: list[tuple[int, int]], reverse: list[tuple[int, int]]) -> tuple[ModeJump, ModeJump]:
    modes = []
    for own in (edges, reverse):
        sure = np.zeros((n, n))
        for u, v in own:
            sure[u, v] = 1.0
        order = next(
            np.array(o)
            for o in itertools.permutations(range(n))
            if all(o.index(u) < o.index(v) for u, v in own)
        )
        modes.append(Mode(order[None], sure[None]))
    ((below, above),) = jumps_between(*modes)
    assert (below.backwards, above.backwards) == (False, True)
    return below, above


@pytest.mark.parametrize(
    ("edges", "reverse"),
    [
        ([(0, 1), (1, 2)], [(2, 1), (1, 0)]),
        ([(0, 1), (0, 2), (2, 3)], [(1, 0), (0, 2), (2, 3)]),
        ([(0, 2), (1, 2), (2, 3)], [(0, 2), (2, 1), (2, 3)]),
    ],
)
def test_chances_of_places_are_what_is_drawn(
    edges: list[tuple[int, int]], reverse: list[tuple[int, int]]
) -> None:
    n = 5
    jumps = a_jump(n, edges, reverse)
    layouts = [
        (jump.backwards, *pair) for jump in jumps for pair in zip(jump.layouts, (edges, reverse), strict=True)
    ]
    for backwards, layout, given_edges in layouts:
        # Orders are read from their end where a jump goes backwards.
        own = [(v, u) if backwards else (u, v) for u, v in given_edges]
        own = [(u, v) for u, v in own if v in layout.sequence]
        drawn, total = outcomes(layout, n), 0.0
        line, places = np.empty(n, dtype=np.int64), np.empty((n, 2))
        rest = [v for v in range(n) if v not in layout.sequence]
        for order in itertools.permutations(range(n)):
            chance = insert_part(np.array(order), layout, False, np.random.default_rng(0), line, places)
            fits = all(order.index(u) < order.index(v) for u, v in own)
            assert (chance > -math.inf) == fits
            if not fits:
                continue
            assert tuple(line.tolist()) == order
            if [v for v in order if v in rest] == rest:
                total += math.exp(chance)
                assert drawn[order] / 6000 == pytest.approx(math.exp(chance), abs=0.03)
        assert total == pytest.approx(1.0, abs=1e-9)
        if all(sum(v == w for _, w in own) < 2 for _, v in own):  # a forest: all orders alike
            assert len({round(count / 6000 * len(drawn), 0) for count in drawn.values()}) == 1


def test_what_descends_from_a_part_moves_with_it() -> None:
    moved = [
        sorted(jump.layouts[0].sequence.tolist())
        for jump in a_jump(6, [(0, 1), (1, 2), (2, 3)], [(1, 0), (1, 2), (2, 3)])
    ]
    assert moved == [[0, 1, 2, 3], [0, 1]]  # with what is below the edge that turns, with what is above
    moved = [
        sorted(jump.layouts[1].sequence.tolist())
        for jump in a_jump(6, [(5, 4), (4, 0), (0, 1)], [(5, 4), (4, 0), (1, 0)])
    ]
    assert moved == [[0, 1], [0, 1, 4, 5]]
    assert not [*jumps_between(*[Mode(np.arange(3)[None], np.zeros((1, 3, 3), np.float32))] * 2)]


def log_likelihood(layout: Layout, orders: list[Index]) -> float:
    line, places = np.empty_like(orders[0]), np.empty((len(layout.sequence), 2))
    rng = np.random.default_rng(0)
    return sum(insert_part(order, layout, False, rng, line, places) for order in orders)


def test_fitted_places_are_likelier_than_those_that_orders_were_drawn_with() -> None:
    n, rng = 9, np.random.default_rng(4)
    jump, _ = a_jump(n, [(0, 1), (1, 2)], [(2, 1), (1, 0)])
    one, other = jump.layouts
    drawn_with = one._replace(shapes=rng.uniform(0.4, 6.0, one.shapes.shape))
    orders = []
    for _ in range(400):
        line = np.empty(n, dtype=np.int64)
        insert_part(rng.permutation(n), drawn_with, True, rng, line, np.empty((3, 2)))
        orders.append(line)
    found = fit_proposals(ModeJump((drawn_with, other), False), np.array(orders)).layouts
    start = fit_proposals(jump, np.array(orders)).layouts
    assert log_likelihood(found[0], orders) >= log_likelihood(drawn_with, orders)
    # From another start to nearly the same; the other layout, which no order has, stays as it is.
    assert log_likelihood(start[0], orders) == pytest.approx(log_likelihood(found[0], orders), abs=4.0)
    assert log_likelihood(start[0], orders) > log_likelihood(one, orders) + 40.0
    np.testing.assert_array_equal(found[1].shapes, other.shapes)


def test_edges_that_seldom_come_and_go_are_switches() -> None:
    n, count = 4, 60
    rng = np.random.default_rng(0)
    orders = np.tile(np.arange(n), (count, 1))
    edges = np.zeros((count, n, n), dtype=np.float32)
    edges[:20, 0, 1] = edges[20:, 1, 0] = 1.0  # seldom
    edges[:, 2, 3] = rng.random(count) < 0.5  # often
    edges[:, 1, 2] = 0.5  # never sure
    ((here, there),) = rare_switches([Mode(orders, edges)])
    assert {len(here.orders), len(there.orders)} == {20, 40}
    assert not [*rare_switches([Mode(orders, np.zeros_like(edges))])]


def test_no_modes_no_jumps() -> None:
    assert find_jumps(OrderSpace.of(two_ways()), np.random.default_rng(0), []) == ()
