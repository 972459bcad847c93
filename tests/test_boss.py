"""BOSS: the oracle, all orders by brute force, twins of the kernels, knowledge, interventions, bad input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag import orientation, simulate
from polydag.errors import DataError, UsageError
from polydag.formats import read_network
from polydag.graph import Graph
from polydag.knowledge import Knowledge, Masks
from polydag.learners.boss import BOSS
from polydag.scores import Score, make_score, total_score
from polydag.search.boss import BOSSResult, _Orders, boss
from polydag.search.boss import _kernels as trees
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

Mask = NDArray[np.bool_]
Array = NDArray[np.float64]
LARGE = 1e12
seeds = st.integers(0, 100_000)


def population(dag: Graph, scales: Array, targets: frozenset[int] = frozenset()) -> Array:
    """The covariance of a linear model whose targets were set to independent noise of another variance."""
    W = dag.weights.copy()
    variance = scales**2
    for node in targets:
        W[:, node] = 0.0
        variance[node] *= 2.0
    total = np.linalg.inv(np.eye(len(W)) - W)
    return np.asarray(total.T @ np.diag(variance) @ total)


def random_model(seed: int, largest: int = 10) -> tuple[Graph, Array]:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, largest + 1))
    edges = int(rng.integers(1, min(2 * d, d * (d - 1) // 2) + 1))
    dag = simulate.dag(d, n_edges=edges, weight_range=(0.1, 1.0), random_state=rng)
    return dag, rng.uniform(0.1, 1.0, d)


def sample(seed: int, d: int, n: int, edges: int) -> Array:
    dag = simulate.dag(d, n_edges=edges, weight_range=(0.3, 1.0), random_state=seed)
    return np.array(simulate.linear(dag, n=n, random_state=seed + 1))


def check_oracle(number: int) -> None:
    for seed in range(number):
        dag, scales = random_model(seed)
        result = boss(GaussianStats.from_covariance(population(dag, scales), LARGE))
        np.testing.assert_array_equal(
            result.adjacency, orientation.cpdag(dag.adjacency), err_msg=f"seed {seed}"
        )


def test_the_population_gives_the_exact_cpdag() -> None:
    check_oracle(60)


@pytest.mark.slow
def test_the_population_gives_the_exact_cpdag_500() -> None:
    check_oracle(500)


@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_the_order_of_columns_changes_nothing_on_the_population(seed: int) -> None:
    dag, scales = random_model(seed)
    covariance = population(dag, scales)
    place = np.random.default_rng(seed).permutation(len(covariance))
    here = boss(GaussianStats.from_covariance(covariance, LARGE)).adjacency
    there = boss(GaussianStats.from_covariance(covariance[np.ix_(place, place)], LARGE)).adjacency
    np.testing.assert_array_equal(here[np.ix_(place, place)], there)


# --- twins: growing and shrinking by definition, family by family ---


@cache
def family(score: Score, v: int, parents: tuple[int, ...]) -> float:
    return round(score.local_score(v, parents), 9)  # so that equals are equal


def grow_shrink(score: Score, v: int, before: Sequence[int], required: frozenset[int]) -> list[int]:
    """Add the best predecessor while that gains, then take out the worst while that gains."""

    def value(parents: Sequence[int]) -> float:
        return family(score, v, tuple(sorted(parents)))

    parents = sorted(required)
    while others := [u for u in sorted(before) if u not in parents]:
        best = max(others, key=lambda u: value([*parents, u]))
        if value([*parents, best]) - value(parents) <= 1e-9:
            break
        parents.append(best)
    while loose := [u for u in parents if u not in required]:
        rest = {u: [w for w in parents if w != u] for u in loose}
        worst = max(loose, key=lambda u: value(rest[u]))
        if value(rest[worst]) - value(parents) <= 1e-9:
            break
        parents = rest[worst]
    return sorted(parents)


def order_score(score: Score, order: Sequence[int], masks: Masks | None = None) -> float:
    dag = order_dag(score, order, masks)
    return sum(family(score, v, tuple(np.flatnonzero(dag[:, v]).tolist())) for v in order)


def order_dag(score: Score, order: Sequence[int], masks: Masks | None = None) -> Mask:
    d = len(order)
    dag = np.zeros((d, d), dtype=bool)
    for place, v in enumerate(order):
        before = [u for u in order[:place] if masks is None or not masks.forbidden[u, v]]
        required = () if masks is None else np.flatnonzero(masks.required[:, v]).tolist()
        dag[grow_shrink(score, v, before, frozenset(required)), v] = True
    return dag


@pytest.mark.parametrize("name", ["bic", "bge", "bdeu"])
@given(seed=seeds, d=st.integers(2, 9), n=st.integers(12, 200), informed=st.booleans())
@settings(max_examples=10, deadline=None)
def test_the_order_has_the_dag_and_the_score_of_its_twin(
    name: str, seed: int, d: int, n: int, informed: bool
) -> None:
    """Whatever moves led there, the trees hold what growing and shrinking give for the final order."""
    score = make_score(name, statistics(name, seed, d, n))
    masks = random_knowledge(seed, d) if informed else None
    search = _Orders(score, masks, False)
    search.run()
    order = search.order.sequence.tolist()
    assert sorted(order) == list(range(d))
    np.testing.assert_array_equal(search.dag(), order_dag(score, order, masks))
    assert search.trace[-1].score == pytest.approx(total_score(score, search.dag()), rel=1e-9)


def statistics(name: str, seed: int, d: int, n: int) -> GaussianStats | DiscreteCounts:
    X = sample(seed, d, n, edges=min(2 * d, d * (d - 1) // 2))
    if name in ("bic", "bge"):
        return GaussianStats.from_data(X).standardized()
    return DiscreteCounts.from_data((np.median(X, axis=0) < X).astype(int))


@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_the_kernel_shrinks_as_its_twin(seed: int) -> None:
    """From parents that were not grown, so that several go."""
    score = make_score("bic", GaussianStats.from_data(sample(seed, 8, 60, edges=12)))
    search = _Orders(score, None, False)
    assert search._gaussian is not None
    parents = np.random.default_rng(seed).permutation(7) + 1
    fixed = np.zeros((8, 8), dtype=bool)
    fixed[parents[:2], 0] = True
    search.required = fixed
    ours = trees.gaussian_shrink(search._gaussian, 0, parents, 2, 1e-9)
    theirs = search.shrink(0, parents)
    assert ours[0].tolist() == theirs[0].tolist()
    before, after = (score.local_score(0, kept.tolist()) for kept in (parents, ours[0]))
    assert ours[1] == pytest.approx(theirs[1])
    assert ours[1] == pytest.approx(after - before, abs=1e-8)
    assert set(parents[:2]) <= set(ours[0])


@given(seed=seeds, informed=st.booleans())
@settings(max_examples=15, deadline=None)
def test_no_single_move_gains(seed: int, informed: bool) -> None:
    d = 7
    score = make_score("bic", GaussianStats.from_data(sample(seed, d, 50, edges=12)))
    masks = random_knowledge(seed, d) if informed else None
    search = _Orders(score, masks, False)
    search.run()
    order = search.order.sequence.tolist()
    for x in range(d):
        rest = [v for v in order if v != x]
        for position in range(d):
            moved = [*rest[:position], x, *rest[position:]]
            if masks is None or follows(moved, masks.required):
                assert order_score(score, moved, masks) <= search.trace[-1].score + 1e-6


def follows(order: Sequence[int], required: Mask) -> bool:
    return not np.tril(required[np.ix_(order, order)]).any()


def test_small_searches_mostly_end_at_the_best_of_all_orders() -> None:
    reached = 0
    for seed in range(40):
        d = 4 + seed % 2
        score = make_score("bic", GaussianStats.from_data(sample(seed, d, 60, edges=d + 1)))
        best = max(order_score(score, order) for order in permutations(range(d)))
        found = boss(score).score
        reached += found >= best - 1e-6
    assert reached >= 30  # moves of one variable at a time may end at a local optimum


def class_score(score: Score, adjacency: Mask) -> float:
    extension = orientation.consistent_extension(adjacency)
    assert extension is not None
    return total_score(score, extension)


def check_result(result: BOSSResult, score: Score) -> None:
    """What must hold of every result: sweeps do not lose, and the score is that of the graph.

    Families that fit almost perfectly (as many parents as rows allow) have only half of the digits.
    """
    scores = [sweep.score for sweep in result.trace]
    assert (np.diff(scores) >= -1e-9).all()
    assert result.score >= scores[-1] - 1e-6 - 1e-4 * abs(scores[-1])
    assert result.score == pytest.approx(class_score(score, result.adjacency), rel=1e-4, abs=1e-6)


@given(seed=seeds, d=st.integers(2, 40), n=st.integers(10, 200), screen=st.sampled_from([None, False, True]))
@settings(max_examples=20, deadline=None)
def test_the_score_is_that_of_the_graph(seed: int, d: int, n: int, screen: bool | None) -> None:
    score = make_score("bic", statistics("bic", seed, d, n))
    result = boss(score, screen=screen)
    check_result(result, score)
    extension = orientation.consistent_extension(result.adjacency)
    assert extension is not None
    np.testing.assert_array_equal(orientation.cpdag(extension), result.adjacency)


def random_knowledge(seed: int, d: int) -> Masks:
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    names = [f"x{i}" for i in range(d)]
    required, forbidden = [], []
    for a in range(d):
        for b in range(a + 1, d):
            u, v = names[order[a]], names[order[b]]
            draw = rng.random()
            if draw < 0.1:
                required.append((u, v))
            elif draw < 0.3:
                forbidden.append((u, v))
            if 0.2 < draw < 0.5:
                forbidden.append((v, u))
    return Knowledge(required=required, forbidden=forbidden).masks(names)


@given(seed=seeds, d=st.integers(3, 15), tiers=st.booleans())
@settings(max_examples=25, deadline=None)
def test_knowledge_is_honoured(seed: int, d: int, tiers: bool) -> None:
    masks = random_knowledge(seed, d)
    if tiers:
        names = [f"x{i}" for i in range(d)]
        masks = Knowledge(tiers=[names[: d // 3], names[d // 3 : d // 2], names[d // 2 :]]).masks(names)
    score = make_score("bic", statistics("bic", seed, d, 60))
    result = boss(score, knowledge=masks)
    A = result.adjacency
    assert not (A & masks.forbidden).any()
    assert ((A & ~A.T) | ~masks.required).all()
    assert follows(result.order, masks.required)
    np.testing.assert_array_equal(orientation.meek(A), A)
    check_result(result, score)


def test_knowledge_that_is_true_gives_the_truth_with_its_arrows() -> None:
    for seed in range(25):
        dag, scales = random_model(seed, largest=9)
        order = dag.topological_order()
        cut = len(order) // 2
        masks = Knowledge(tiers=[order[:cut], order[cut:]]).masks(dag.names)
        result = boss(GaussianStats.from_covariance(population(dag, scales), LARGE), knowledge=masks)
        truth = orientation.cpdag(dag.adjacency)
        np.testing.assert_array_equal(
            result.adjacency, orientation.meek(truth & ~(masks.forbidden & truth.T)), err_msg=f"seed {seed}"
        )


def test_interventions_orient_edges_on_the_population() -> None:
    more = 0
    for seed in range(25):
        dag, scales = random_model(seed, largest=7)
        rng = np.random.default_rng(seed)
        sets = [frozenset[int](), frozenset({int(rng.integers(dag.n_nodes))})]
        parts = {
            frozenset(dag.names[i] for i in targets): GaussianStats.from_covariance(
                population(dag, scales, targets), LARGE, names=dag.names
            )
            for targets in sets
        }
        truth = orientation.cpdag(dag.adjacency)
        inside = np.isin(np.arange(dag.n_nodes), list(sets[1]))
        parted = inside[:, None] != inside[None, :]
        essential = orientation.meek(truth & ~(parted & dag.adjacency).T)
        more += int((essential != truth).any())
        np.testing.assert_array_equal(boss(Regimes(parts)).adjacency, essential, err_msg=f"seed {seed}")
    assert more > 5


class Callback:
    """A score that answers one family at a time."""

    def __init__(self, score: Score) -> None:
        self.score, self.names = score, score.names

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        return self.score.local_score(node, parents)


@pytest.mark.parametrize("name", ["bic", "bge", "bdeu", "bds", "k2"])
def test_any_object_with_a_local_score_will_do(name: str) -> None:
    score = make_score(name, statistics(name, 3, 8, 80))
    fast, slow = boss(score), boss(Callback(score))
    assert fast.adjacency.sum() > 3
    assert (fast.order, fast.trace[-1].moves) == (slow.order, slow.trace[-1].moves)
    np.testing.assert_array_equal(fast.adjacency, slow.adjacency)
    assert fast.score == pytest.approx(slow.score)


def test_the_result_repeats_itself() -> None:
    stats = GaussianStats.from_data(sample(0, 40, 30, edges=80))
    first, second = boss(stats), boss(stats)
    assert (first.order, first.trace) == (second.order, second.trace)
    np.testing.assert_array_equal(first.adjacency, second.adjacency)


def test_the_trees_grow_with_a_dense_graph() -> None:
    rng = np.random.default_rng(0)
    stats = GaussianStats.from_data(
        rng.normal(size=(60, 4)) @ rng.normal(size=(4, 30)) + rng.normal(size=(60, 30))
    )
    score = make_score("bic", stats, penalty=0.3)
    search = _Orders(score, None, False)
    room = len(search.trees.owner)
    search.run()
    assert len(search.trees.owner) > room
    check_result(boss(score, screen=False), score)


def test_screening_joins_only_what_is_correlated() -> None:
    stats = GaussianStats.from_data(sample(1, 60, 40, edges=120))
    free = -0.5 * stats.n * np.log1p(-np.minimum(stats.correlation**2, 1 - 1e-12)) - np.log(stats.n) > 0
    assert not (boss(stats, penalty=2.0).adjacency & ~free).any()  # fewer rows than columns: screened
    assert (boss(stats, penalty=2.0, screen=False).adjacency & ~free).any()


@pytest.mark.parametrize(("network", "most"), [("child", 4), ("alarm", 20)])
def test_discrete_networks(reference_data: Path, network: str, most: int) -> None:
    truth = read_network(reference_data / "bn" / f"{network}.bif.gz")
    counts = DiscreteCounts.from_data(simulate.discrete(truth, n=2_000, random_state=0))
    score = make_score("bdeu", counts)
    result = boss(score)
    check_result(result, score)
    true = truth.graph.to_cpdag().adjacency
    unlike = (result.adjacency != true) | (result.adjacency != true).T
    assert np.triu(unlike).sum() <= most


def test_the_estimator() -> None:
    dag = simulate.dag(8, n_edges=9, weight_range=(0.5, 1.0), random_state=2)
    X = simulate.linear(dag, n=3000, random_state=2)
    model = BOSS(penalty=2.0).fit(X)
    assert model.graph_.names == dag.names
    assert model.score_ == pytest.approx(boss(GaussianStats.from_data(X), penalty=2.0).score)
    assert set(model.order_) == set(dag.names)
    assert model.dag_.is_dag
    labels = (X > 0).astype(str)
    assert BOSS().fit(labels).score_ == pytest.approx(boss(DiscreteCounts.from_data(labels)).score)
    first, *_ = dag.edges()
    told = BOSS(knowledge=Knowledge(required=[(first.target, first.source)])).fit(X)
    assert (first.target, first.source) in [(edge.source, edge.target) for edge in told.graph_.edges()]


def test_bad_input() -> None:
    with pytest.raises(UsageError, match="got ndarray"):
        boss(np.eye(3))
    with pytest.raises(DataError, match="at least 3"):
        boss(GaussianStats.from_data(np.eye(2)))
    with pytest.raises(UsageError, match="score must be one of"):
        BOSS(score="aic").fit(np.eye(3))
