"""The best network by branch and cut: against dynamic programming; its cuts against their definition."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag.computing.progress import Step, listening
from polydag.errors import DataError
from polydag.posterior import exact_posterior
from polydag.posterior.best_network import branch_and_cut as optimum
from polydag.posterior.best_network._relaxation_kernels import excess, violated
from polydag.posterior.best_network.branch_and_cut import ACCURACY, best_network
from polydag.posterior.best_network.relaxation import Relaxation
from polydag.posterior.families.sorted_families import dominated
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable, all_others
from polydag.posterior.orders.space import OrderSpace

Index = NDArray[np.int64]


@pytest.fixture(autouse=True, scope="module")
def many_parts() -> Iterator[None]:
    """Tables drawn at random may be flat, and take many divisions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimum, "_MOST_PARTS", 5000)
        yield


def many_rows(n: int, top: int, seed: int, spread: float = 300.0) -> FamilyTable:
    """Scores as many rows give them: every parent gains something, most of it shared between directions."""
    rng = np.random.default_rng(seed)
    gains = rng.exponential(spread, (n, n)) * (rng.random((n, n)) < 0.6)
    gains = np.maximum(gains, gains.T) * rng.uniform(0.9, 1.1, (n, n))
    table = FamilyTable(tuple(f"x{i}" for i in range(n)), all_others(n), top, np.zeros((n, 1)))
    scores = np.empty((n, n_subsets(n - 1, top)))
    for node in range(n):
        for s, members in enumerate(table.members(node)):
            parents = members[members >= 0]
            overlap = rng.uniform(0.5, 1.0) if len(parents) > 1 else 1.0
            scores[node, s] = overlap * gains[parents, node].sum() - 15.0 * len(parents) ** 1.5
    return table.with_scores(scores)


def network_score(table: FamilyTable, order: Index) -> float:
    space = OrderSpace.of(table)
    return float(space.best_families(space.init(order))[1].sum())


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.integers(1, 3), st.integers(0, 10**6), st.sampled_from([3.0, 300.0, 1e5]))
def test_the_best_network_is_that_of_dynamic_programming(n: int, top: int, seed: int, spread: float) -> None:
    table = many_rows(n, min(top, n - 1), seed, spread)
    best = best_network(OrderSpace.of(table), np.random.default_rng(seed))
    assert best is not None
    truth = exact_posterior(table).best_graph()[1]
    assert best.score == pytest.approx(network_score(table, best.state.order), rel=1e-12)
    assert truth - ACCURACY - 1e-9 <= best.score <= truth + 1e-9 * abs(truth)
    assert best.proven
    assert best.bound >= truth - ACCURACY - 1e-9


@settings(max_examples=20, deadline=None)
@given(st.integers(3, 7), st.integers(1, 2), st.integers(0, 10**6))
def test_what_is_ruled_out_stays_out(n: int, top: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = many_rows(n, top, seed)
    scores = np.where(rng.random(table.scores.shape) < 0.4, -np.inf, table.scores)
    scores[0, 0] = table.scores[0, 0]  # something can be first
    table = table.with_scores(scores)
    try:
        truth = exact_posterior(table).best_graph()[1]
    except DataError:
        with pytest.raises(DataError, match="allowed"):
            best_network(OrderSpace.of(table), rng)
        return
    best = best_network(OrderSpace.of(table), rng)
    assert best is not None
    assert best.proven
    assert best.score == pytest.approx(truth, abs=ACCURACY + 1e-9)


def test_every_relaxation_is_an_upper_bound_and_cuts_lower_it() -> None:
    table = many_rows(9, 2, 5)
    truth = exact_posterior(table).best_graph()[1]
    relaxation = Relaxation(table)
    every = np.ones(len(relaxation.child), dtype=bool)
    values = []
    while True:
        found = relaxation.solve(every)
        assert found is not None
        values.append(found.value)
        if not relaxation.cut(found.x):
            break
    assert len(values) > 2
    assert all(before >= after - 1e-6 for before, after in itertools.pairwise(values))
    assert values[-1] >= truth - 1e-6
    # A family lowers the bound by its loss, at least, if it is asked for.
    for f in np.flatnonzero(found.x < 1e-9)[:20]:
        forced = every & ((relaxation.child != relaxation.child[f]) | (np.arange(len(every)) == f))
        changed = relaxation.solve(forced)
        assert changed is None or changed.value <= found.value - found.losses[f] + 1e-6


def test_dominated_families_are_left_out() -> None:
    table = many_rows(6, 3, 1)
    left_out = dominated(table)
    for node in range(6):
        sets = [frozenset(table.parents(node, s)) for s in range(len(table.sets))]
        for s, own in enumerate(sets):
            worse = any(
                t < own and table.scores[node, k] >= table.scores[node, s] for k, t in enumerate(sets)
            )
            assert left_out[node, s] == worse
    assert len(Relaxation(table).child) == (~left_out).sum()


families = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def drawn(rng: np.random.Generator, n: int, count: int) -> tuple[Index, Index]:
    """Children, and parents filled up with -1."""
    child = rng.integers(0, n, count)
    parents = np.full((count, 3), -1)
    for f in range(count):
        others = np.delete(np.arange(n), child[f])
        chosen = rng.choice(others, min(rng.integers(0, 4), n - 1), replace=False)
        parents[f, : len(chosen)] = chosen
    return child, parents


@settings(max_examples=40, deadline=None)
@given(families, st.integers(4, 9), st.integers(1, 3))
def test_clusters_are_contradicted_as_much_as_is_said(rng: np.random.Generator, n: int, k: int) -> None:
    child, parents = drawn(rng, n, 4 * n)
    x = rng.random(4 * n) * (rng.random(4 * n) < 0.7)
    x /= np.maximum(np.bincount(child, x, n), 1e-9)[child]
    clusters, amounts = np.zeros((500, n), dtype=bool), np.zeros(500)
    count = violated(child, parents, x, n, k, 0.01, clusters, amounts)
    for cluster, amount in zip(clusters[:count], amounts[:count], strict=True):
        inside = np.array([sum(p >= 0 and cluster[p] for p in own) for own in parents])
        expected = x[cluster[child] & (inside >= k)].sum() - cluster.sum() + k
        assert amount == pytest.approx(expected, abs=1e-9)
        assert amount == pytest.approx(excess(child, parents, x, k, cluster), abs=1e-9)
        assert amount > 0.01
        assert cluster.sum() > k


@settings(max_examples=60, deadline=None)
@given(families, st.integers(3, 9))
def test_whole_choices_are_contradicted_exactly_when_they_have_a_cycle(
    rng: np.random.Generator, n: int
) -> None:
    _, parents = drawn(rng, n, n)
    child = np.arange(n)
    parents = np.where(parents == child[:, None], -1, parents)
    graph = nx.DiGraph([(int(p), int(v)) for v in child for p in parents[v] if p >= 0])
    clusters, amounts = np.zeros((500, n), dtype=bool), np.zeros(500)
    found = [violated(child, parents, np.ones(n), n, k, 0.01, clusters, amounts) for k in (1, 2, 3)]
    if nx.is_directed_acyclic_graph(graph):
        assert found == [0, 0, 0]
    else:
        assert found[0] > 0


def test_too_many_families_and_too_many_parts_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    space = OrderSpace.of(many_rows(9, 2, 3))
    monkeypatch.setattr(optimum, "_MOST_PARTS", 0)
    best = best_network(space, np.random.default_rng(0))
    truth = exact_posterior(space.table).best_graph()[1]
    assert best is not None
    assert best.bound >= truth - 1e-6
    assert best.score <= truth + 1e-6
    monkeypatch.setattr(optimum, "_MOST_FAMILIES", 5)
    assert best_network(space, np.random.default_rng(0)) is None


def test_progress_tells_both_bounds() -> None:
    told: list[Step] = []
    with listening(told.append):
        best_network(OrderSpace.of(many_rows(9, 2, 5)), np.random.default_rng(0))
    assert {step.task for step in told} == {"bound of networks", "best network"}
    bounds = [float(step.note.split()[-1]) for step in told if step.task == "bound of networks"]
    assert bounds[0] >= bounds[-1]
    assert not math.isnan(bounds[-1])
