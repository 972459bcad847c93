"""PC: the oracle, independence of the order, the kernels against slow twins, knowledge, bad input."""

from __future__ import annotations

from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as distributions

from polydag import Graph, Knowledge, formats, metrics, orientation, simulate
from polydag.data.table import Table
from polydag.errors import DataError, UsageError
from polydag.learners.search.pc import PC
from polydag.search.pc import _orientation_kernels as _orientation
from polydag.search.pc import make_test, pc
from polydag.search.pc.independence_tests import _independence_kernels as _tests
from polydag.search.pc.independence_tests.sweeps import Plan, lists, sweep
from polydag.stats import DiscreteCounts, GaussianStats

pytestmark = pytest.mark.portable

RULE = pytest.mark.parametrize("rule", ["majority", "conservative"])
seeds = st.integers(0, 2**32 - 1)


def random_dag(rng: np.random.Generator, largest: int, low: float = 0.5) -> Graph:
    d = int(rng.integers(2, largest + 1))
    edges = int(rng.integers(0, min(2 * d, d * (d - 1) // 2) + 1))
    return simulate.dag(d, n_edges=edges, weight_range=(low, 1.5), random_state=rng)


def population(dag: Graph, rng: np.random.Generator) -> GaussianStats:
    total = np.linalg.inv(np.eye(dag.n_nodes) - dag.weights)
    covariance = total.T @ np.diag(rng.uniform(0.5, 1.5, dag.n_nodes)) @ total
    return GaussianStats.from_covariance(covariance, 1e12, names=dag.names)


def sample(dag: Graph, n: int, rng: np.random.Generator) -> pd.DataFrame:
    return simulate.linear(dag, n=n, noise_scale=(0.1, 1.0), standardize=True, random_state=rng)


def rows_of_labels(rng: np.random.Generator, d: int, n: int) -> NDArray[np.int64]:
    """Labels that depend on each other, with different numbers of levels."""
    hidden = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    return np.stack(
        [np.digitize(x, np.quantile(x, [0.3, 0.6, 0.8][: 1 + j % 3])) for j, x in enumerate(hidden.T)], 1
    )


def partial_correlation(C: NDArray[np.float64], i: int, j: int, given: tuple[int, ...]) -> float:
    P = np.linalg.inv(C[np.ix_([i, j, *given], [i, j, *given])])
    return float(-P[0, 1] / np.sqrt(P[0, 0] * P[1, 1]))


def fisher_p(stats: GaussianStats, i: int, j: int, given: tuple[int, ...]) -> float:
    r = partial_correlation(stats.correlation, i, j, given)
    return float(2 * distributions.norm.sf(np.sqrt(stats.n - len(given) - 3) * abs(np.arctanh(r))))


def stratified_g2(counts: DiscreteCounts, i: int, j: int, given: tuple[int, ...]) -> tuple[float, int]:
    """G² and its degrees of freedom: one contingency table a stratum, without its empty rows and columns."""
    names = [counts.names[k] for k in (*given, i, j)]
    table = counts.table(names)
    total, df = 0.0, 0
    for block in table.reshape(-1, *table.shape[-2:]):
        block = block[block.sum(axis=1) > 0][:, block.sum(axis=0) > 0]
        if min(block.shape) > 1:
            found = distributions.chi2_contingency(block, correction=False, lambda_="log-likelihood")
            total, df = total + found.statistic, df + found.dof
    return total, df


def g2_p(counts: DiscreteCounts, i: int, j: int, given: tuple[int, ...]) -> float:
    total, df = stratified_g2(counts, i, j, given)
    return float(distributions.chi2.sf(total, df)) if df and counts.n >= 5 * df else np.nan


def p_value(stats: GaussianStats | DiscreteCounts, i: int, j: int, given: tuple[int, ...]) -> float:
    return fisher_p(stats, i, j, given) if isinstance(stats, GaussianStats) else g2_p(stats, i, j, given)


@RULE
@pytest.mark.parametrize(
    "count", [pytest.param(100, id="100"), pytest.param(500, id="500", marks=pytest.mark.slow)]
)
def test_population_covariances_give_the_exact_cpdag(rule: str, count: int) -> None:
    for seed in range(count):
        rng = np.random.default_rng(seed)
        dag = random_dag(rng, 12)
        result = pc(population(dag, rng), alpha=1e-3, colliders=rule)
        assert np.array_equal(result.adjacency, orientation.cpdag(dag.adjacency)), seed
        assert not result.ambiguous
        assert not result.conflicts
        assert result.forced == 0


@RULE
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_nothing_depends_on_the_order_of_the_columns(rule: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = sample(simulate.dag(15, n_edges=30, weight_range=(0.1, 1.0), random_state=rng), 80, rng)
    shuffled = X[rng.permutation(X.columns)]
    first, second = (PC(alpha=0.05, colliders=rule).fit(x) for x in (X, shuffled))
    assert second.graph_.reorder(X.columns).adjacency.tolist() == first.graph_.adjacency.tolist()
    pd.testing.assert_frame_equal(second.pvalues_.loc[X.columns, X.columns], first.pvalues_, rtol=1e-9)
    assert dict(second.separating_sets_) == dict(first.separating_sets_)
    assert second.history_.equals(first.history_)
    # Nor does it hang on the names, which ties are broken by.
    nameless = PC(alpha=0.05, colliders=rule).fit(shuffled.to_numpy()).graph_.adjacency
    place = [shuffled.columns.get_loc(name) for name in X.columns]
    assert nameless[np.ix_(place, place)].tolist() == first.graph_.adjacency.tolist()


@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_discrete_results_do_not_depend_on_the_order_of_the_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rows_of_labels(rng, 6, 200), columns=list("abcdef")).astype("category")
    first, second = PC(alpha=0.05).fit(X), PC(alpha=0.05).fit(X[rng.permutation(X.columns)])
    assert second.graph_.reorder(X.columns).adjacency.tolist() == first.graph_.adjacency.tolist()
    assert dict(second.separating_sets_) == dict(first.separating_sets_)


def brute_force_skeleton(
    stats: GaussianStats | DiscreteCounts, alpha: float
) -> tuple[NDArray[np.bool_], NDArray[np.float64], dict[frozenset[str], frozenset[str]]]:
    """PC-stable from its definition, with every test made anew."""
    d = stats.d
    joined, largest = ~np.eye(d, dtype=bool), np.full((d, d), np.nan)
    separators = {}
    for size in range(d - 1):
        near = [np.flatnonzero(row) for row in joined]
        for i, j in combinations(range(d), 2):
            if not near[i].__contains__(j):
                continue
            sets = {
                tuple(sorted(s))
                for a, b in ((i, j), (j, i))
                for s in combinations([int(k) for k in near[a] if k != b], size)
            }
            tested = [(p, s) for s in sets if not np.isnan(p := p_value(stats, i, j, s))]
            if not tested:
                continue
            p, best = max(tested)
            largest[i, j] = largest[j, i] = np.fmax(largest[i, j], p)
            if p > alpha:
                joined[i, j] = joined[j, i] = False
                separators[frozenset((stats.names[i], stats.names[j]))] = frozenset(
                    stats.names[k] for k in best
                )
    return joined, largest, separators


@settings(max_examples=20, deadline=None)
@given(seed=seeds, discrete=st.booleans())
def test_skeleton_p_values_and_separating_sets_equal_brute_force(seed: int, discrete: bool) -> None:
    rng = np.random.default_rng(seed)
    stats: GaussianStats | DiscreteCounts
    if discrete:
        stats = DiscreteCounts.from_data(rows_of_labels(rng, 5, 60))
    else:
        dag = simulate.dag(7, n_edges=12, weight_range=(0.1, 1.0), random_state=rng)
        stats = GaussianStats.from_data(sample(dag, 60, rng))
    result = pc(stats, alpha=0.1)
    joined, largest, separators = brute_force_skeleton(stats, 0.1)
    assert ((result.adjacency | result.adjacency.T) == joined).all()
    assert result.pvalues == pytest.approx(largest, rel=1e-6, abs=1e-12, nan_ok=True)
    if not discrete:  # equal p-values are common among labels
        assert dict(result.separating_sets) == separators
    for pair, given_set in result.separating_sets.items():
        i, j = (stats.names.index(name) for name in pair)
        p = p_value(stats, i, j, tuple(stats.names.index(name) for name in given_set))
        assert p == pytest.approx(result.pvalues[i, j], rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=seeds, discrete=st.booleans())
def test_votes_count_each_separating_set_of_neighbours_once(seed: int, discrete: bool) -> None:
    rng = np.random.default_rng(seed)
    d, alpha = 6, 0.1
    stats: GaussianStats | DiscreteCounts
    if discrete:
        stats = DiscreteCounts.from_data(rows_of_labels(rng, d, 100))
    else:
        stats = GaussianStats.from_data(rng.normal(size=(30, d)) @ rng.normal(size=(d, d)))
    half = np.triu(rng.random((d, d)) < 0.5, 1)
    joined = half | half.T
    apart = ~joined & ~np.eye(d, dtype=bool)
    plan = Plan(lists(joined), lists(apart), joined, 0, d, voting=True)
    tally = sweep(make_test(stats, alpha), plan, 1)
    votes = np.zeros((d, d), dtype=int)
    votes[np.repeat(np.arange(d), apart.sum(axis=1)), plan.targets.members] = tally.votes
    for i, j in combinations(range(d), 2):
        if apart[i, j]:
            near = (np.flatnonzero(joined[end]).tolist() for end in (i, j))
            sets = {s for own in near for size in range(len(own) + 1) for s in combinations(own, size)}
            separating = [s for s in sets if p_value(stats, i, j, s) > alpha]
            assert votes[i, j] + votes[j, i] == len(separating)
            for k in np.flatnonzero(joined[i] & joined[j]):
                held = 0
                for a, b in ((i, j), (j, i)):
                    own, targets = np.flatnonzero(joined[a]), np.flatnonzero(apart[a])
                    place = targets.tolist().index(b) * len(own) + own.tolist().index(k)
                    held += tally.hits[tally.hit_start[a] + place]
                assert held == sum(k in s for s in separating)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, size=st.integers(0, 3))
def test_g_square_equals_scipy_in_every_stratum(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    counts = DiscreteCounts.from_data(rows_of_labels(rng, 5, int(rng.integers(5, 300))))
    given_set = tuple(range(size))
    strata = np.unique(counts.rows[:, :size], axis=0, return_inverse=True)[1].ravel().astype(np.int32)
    table = np.empty((int(strata.max()) + 1) * int(counts.arities[3] * counts.arities[4]))
    x, y = (np.ascontiguousarray(counts.rows[:, k]) for k in (3, 4))
    a, b = counts.arities[3:]
    g2, df = _tests.g_square(strata, int(strata.max()) + 1, x, a, y, b, counts.counts, table)
    expected, degrees = stratified_g2(counts, 3, 4, given_set)
    assert df == degrees
    assert g2 == pytest.approx(expected, abs=1e-8)


@given(x=st.floats(0, 2000), df=st.integers(1, 3000))
def test_the_tail_of_chi_square_is_scipys(x: float, df: int) -> None:
    assert _tests.chi2_tail(x, df) == pytest.approx(distributions.chi2.sf(x, df), rel=1e-8, abs=1e-300)


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_compiled_orientation_equals_the_plain_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dag = random_dag(rng, 10).adjacency
    joined, near = dag | dag.T, lists(dag | dag.T)
    nothing = np.empty(0, dtype=np.int64)
    # Any arrows of the DAG beyond its v-structures, as knowledge would give.
    arrows = orientation.v_structures(dag) | (dag & (rng.random(dag.shape) < 0.2))
    closed = joined & ~arrows.T
    _orientation.close(closed, near, nothing)
    assert np.array_equal(closed, orientation.meek(joined & ~arrows.T))
    extension, forced = _orientation.extend(arrows, joined, near, rng.random(len(dag)))
    assert forced == 0
    assert np.array_equal(orientation.cpdag(extension), orientation.cpdag(dag))
    assert not (arrows & ~extension).any()


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_contradictory_samples_still_give_a_graph_that_a_dag_agrees_with(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 12)) @ rng.normal(size=(12, 12))
    stats = GaussianStats.from_data(X)
    result = pc(stats, alpha=0.2, max_conditioning=2)
    assert orientation.topological_order(result.dag) is not None
    assert np.array_equal(orientation.cpdag(result.dag), result.adjacency)
    careful = pc(stats, alpha=0.2, max_conditioning=2, colliders="conservative")
    directed = careful.adjacency & ~careful.adjacency.T
    assert orientation.topological_order(directed) is not None
    assert not (directed & ~careful.dag).any()
    assert np.array_equal(careful.adjacency | careful.adjacency.T, result.adjacency | result.adjacency.T)


def test_conflicting_colliders_are_named_and_the_surer_one_is_drawn() -> None:
    # a -> b <- c and b -> c <- d claim the edge b - c both ways.
    joined = Graph.from_edges("abcd", undirected=["ab", "bc", "cd"]).adjacency.copy()
    claims = np.array([[0, 1, 2], [1, 2, 3]])
    for first in (0, 1):
        arrows = np.zeros((4, 4), dtype=bool)
        kept = _orientation.accept_colliders(claims[[first, 1 - first]], arrows, lists(joined))
        assert kept.tolist() == [True, False]
        i, k, j = claims[first]
        assert np.argwhere(arrows).tolist() == sorted([[i, k], [j, k]])


def test_a_ring_without_colliders_gets_one_and_says_so() -> None:
    ring = Graph.from_edges("abcd", undirected=["ab", "bc", "cd", "da"]).adjacency.copy()
    dag, forced = _orientation.extend(
        np.zeros((4, 4), dtype=bool), ring, lists(ring), np.array([0.1, 0.2, 0.4, 0.3])
    )
    assert dag[:, 2].tolist() == [False, True, False, True]
    assert forced == 1
    assert orientation.topological_order(dag) is not None
    assert np.array_equal(dag | dag.T, ring)


@RULE
@pytest.mark.parametrize("discrete", [False, True])
def test_threads_change_nothing(rule: str, discrete: bool) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        rows_of_labels(rng, 10, 300) if discrete else rng.normal(size=(60, 30)) @ rng.normal(size=(30, 30))
    )
    test = "g2" if discrete else "fisher-z"
    one, two = (PC(alpha=0.05, test=test, colliders=rule, n_jobs=k).fit(X) for k in (1, 2))
    assert one.graph_ == two.graph_
    assert one.pvalues_.equals(two.pvalues_)
    assert dict(one.separating_sets_) == dict(two.separating_sets_)
    assert one.history_.equals(two.history_)


@pytest.mark.slow
def test_true_knowledge_of_the_population_300() -> None:
    for seed in range(300):
        check_true_knowledge(seed)


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_true_knowledge_of_the_population_only_adds_directions(seed: int) -> None:
    check_true_knowledge(seed)


def check_true_knowledge(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dag = random_dag(rng, 8)
    names = dag.names
    order = dag.topological_order()
    known = Knowledge(
        required=[(e.source, e.target) for e in dag.edges() if rng.random() < 0.2],
        forbidden=[
            (a, b) for a in names for b in names if a != b and not dag.adjacency[dag.index(a), dag.index(b)]
            and rng.random() < 0.2
        ],
        tiers=[order[: len(order) // 2], order[len(order) // 2 :]] if rng.random() < 0.5 else [],
    )  # fmt: skip
    masks = known.masks(names)
    result = pc(population(dag, rng), alpha=1e-3, knowledge=masks)
    truth = orientation.cpdag(dag.adjacency)
    directions = (dag.adjacency & (masks.required | masks.forbidden.T)) | (truth & ~truth.T)
    assert np.array_equal(result.adjacency, orientation.meek(truth & ~directions.T))
    untested = (masks.forbidden & masks.forbidden.T) | masks.required | masks.required.T
    assert np.isnan(result.pvalues[untested]).all()


@settings(max_examples=25, deadline=None)
@given(seed=seeds)
def test_wrong_knowledge_is_honoured_too(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = sample(simulate.dag(8, n_edges=14, weight_range=(0.3, 1.0), random_state=rng), 200, rng)
    order = rng.permutation(X.columns)
    known = Knowledge(
        required=[tuple(order[[0, 1]]), tuple(order[[1, 2]])],
        forbidden=[tuple(order[list(ends)]) for ends in ((5, 3), (3, 5), (4, 6), (6, 7), (7, 4))],
        tiers=[order[:3], order[3:]],
    )  # fmt: skip
    model = PC(alpha=0.05, knowledge=known).fit(X)
    masks = known.masks(tuple(X.columns))
    A = model.graph_.adjacency
    assert (A[masks.required]).all()
    assert not (A & masks.forbidden).any()
    assert model.graph_.to_dag().is_dag
    assert not (model.dag_.adjacency & masks.forbidden).any()


def test_a_cycle_of_knowledge_loses_its_weakest_edge() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        rng.normal(size=(2000, 3)) @ [[1, 0.6, 0.9], [0, 1, 0.8], [0, 0, 1]], columns=list("abc")
    )
    assert PC().fit(X).graph_.n_edges == 3
    model = PC(knowledge=Knowledge(forbidden=[("a", "b"), ("b", "c"), ("c", "a")])).fit(X)
    assert model.graph_.n_edges == 2
    gone = model.pruned_.loc[0]
    assert model.pvalues_.loc[gone["source"], gone["target"]] == model.pvalues_.max(axis=None)


def test_required_edges_are_there_and_larger_sets_are_left_out_on_request() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 4)), columns=list("abcd"))
    model = PC(knowledge=Knowledge(required=[("d", "b")]), max_conditioning=0).fit(X)
    assert [str(e) for e in model.graph_.edges()] == ["d -> b"]
    assert model.history_["level"].tolist() == [0]
    assert model.history_["tests"].tolist() == [5]


def test_sets_too_large_for_the_rows_are_skipped_and_counted() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(5, 1)) + 0.01 * rng.normal(size=(5, 4))
    levels = pc(GaussianStats.from_data(X), alpha=0.999).levels
    assert [tuple(level) for level in levels] == [(0, 6, 0, 0), (1, 24, 0, 0), (2, 0, 0, 12)]
    rows = rng.integers(0, 3, size=(12, 3))
    rows[:, 1:] = rows[:, :1]
    rows[0] = 0, 1, 2
    sparse = pc(DiscreteCounts.from_data(rows), alpha=0.01)
    assert sum(level.skipped for level in sparse.levels) > 0
    assert np.isnan(sparse.pvalues).any()


def test_a_column_that_others_determine_is_named_when_it_matters() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 4)), columns=["a", "b", "c", "d"])
    X["d"] += X["a"] + X["b"] + X["c"]
    X["total"] = X["a"] + X["b"]
    with pytest.raises(DataError, match=r"total|a|b") as caught:
        PC().fit(X)
    assert {name for name in ("a", "b", "total") if f" {name}" in str(caught.value)} == {"a", "b", "total"}
    with pytest.raises(DataError, match="combination"):
        PC(n_jobs=2).fit(X)
    PC(max_conditioning=0).fit(X)
    wide = simulate.linear(simulate.dag(40, n_edges=40, random_state=0), n=20, random_state=0)
    assert PC().fit(wide).graph_.n_nodes == 40


def test_asia_and_child_from_samples(reference_data: Path) -> None:
    for name, n, most in (("asia", 20_000, 2), ("child", 10_000, 9)):
        network = formats.read_network(reference_data / "bn" / f"{name}.bif.gz")
        model = PC().fit(network.sample(n, 1))
        found = metrics.confusion(true=network.graph.to_cpdag(), estimate=model.graph_)
        assert found.shd <= most, name
        assert found.extra == 0
        assert set(model.weights_[model.graph_.adjacency]) == {1.0}


def test_every_shape_of_input_gives_the_same_graph() -> None:
    rng = np.random.default_rng(5)
    dag = simulate.dag(8, n_edges=10, random_state=rng)
    X = sample(dag, 500, rng)
    model = PC().fit(X)
    parts = GaussianStats.from_data(X.iloc[:200]) + GaussianStats.from_data(X.iloc[200:])
    table = Table(X, dict.fromkeys(X.columns, "continuous"), "memory")
    for other in (parts, table, X.to_numpy()):
        assert PC().fit(other).graph_.adjacency.tolist() == model.graph_.adjacency.tolist()
    assert model.dag_.is_dag
    coefficients = np.linalg.lstsq(X[model.dag_.parents("x0")], X["x0"], rcond=None)[0]
    own = model.dag_.weights[:, 0]
    assert own[own != 0] == pytest.approx(coefficients, rel=1e-6)
    labels = pd.DataFrame(rows_of_labels(rng, 5, 300), columns=list("abcde"))
    model = PC(test="g2").fit(labels)
    counts = DiscreteCounts.from_data(labels.iloc[:100]) + DiscreteCounts.from_data(labels.iloc[100:])
    discrete = Table(labels, dict.fromkeys(labels.columns, "discrete"), "memory")
    for other in (counts, discrete, labels.astype("category"), labels.astype(str)):
        assert PC().fit(other).graph_ == model.graph_


def test_separating_sets_are_a_mapping_by_names() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 4))
    x[:, 1] += x[:, 0]
    x[:, 2] += x[:, 1]
    model = PC().fit(pd.DataFrame(x, columns=list("abcd")))
    separators = model.separating_sets_
    assert separators[frozenset("ac")] == {"b"}
    assert separators[frozenset("ad")] == frozenset()
    assert len(separators) == len(dict(separators)) == 4
    for missing in (frozenset("ab"), frozenset("a"), frozenset("xy"), frozenset("abc")):
        assert missing not in separators
    assert model.history_.columns.tolist() == ["level", "tests", "removed", "skipped"]
    assert model.history_["removed"].sum() == 4
    kept = model.graph_.adjacency | model.graph_.adjacency.T
    assert (model.pvalues_.to_numpy()[kept] <= 0.01).all()


def test_bad_input_is_named() -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=list("abc"))
    labels = X.gt(0).astype(str)
    for data, model, words in (
        (X.iloc[:2], PC(), "2 rows.*at least 4"),
        (X.iloc[:3], PC(), "3 rows.*at least 4"),
        (labels.iloc[:2], PC(), "2 rows|one level"),
        (X.assign(flat=1.0), PC(), "flat.*constant"),
        (X.assign(twin=X["a"]), PC(), "a = twin"),
        (labels.assign(flat="w"), PC(), "flat"),
        (X.assign(label=labels["a"]), PC(test="fisher-z"), "label holds labels"),
        (X, PC(test="g2"), "a has 50 different labels"),
        (labels, PC(test="fisher-z"), "a .*holds labels"),
        (DiscreteCounts.from_data(labels), PC(test="fisher-z"), "needs numbers"),
        (GaussianStats.from_data(X), PC(test="g2"), "needs counts"),
        (X, PC(knowledge=Knowledge(required=[("a", "nobody")])), "nobody"),
    ):
        with pytest.raises(DataError, match=words):
            model.fit(data)
    for data, model, words in (
        (X, PC(alpha=0), "alpha"),
        (X, PC(alpha=1.5), "alpha"),
        (X, PC(test="t"), "fisher-z"),
        (X, PC(colliders="all"), "majority, conservative"),
        (X, PC(max_conditioning=-1), "max_conditioning"),
    ):
        with pytest.raises(UsageError, match=words):
            model.fit(data)
    with pytest.raises(UsageError):
        pc(X)
    unused = DiscreteCounts.from_data(labels).with_levels({"a": ("False", "True", "perhaps")})
    assert pc(unused).adjacency.tolist() == pc(DiscreteCounts.from_data(labels)).adjacency.tolist()


def test_the_automatic_level_falls_with_rows_and_variables() -> None:
    X = sample(random_dag(np.random.default_rng(3), 6), 400, np.random.default_rng(4))
    model = PC(alpha="auto").fit(X)
    assert model.alpha_ == pytest.approx(3 / (X.shape[1] * 20))
    assert (model.pvalues_ == PC(alpha=model.alpha_).fit(X).pvalues_).to_numpy().any()
    assert model.graph_ == PC(alpha=model.alpha_).fit(X).graph_
    assert PC(alpha="auto").fit(X[:20]).alpha_ == 0.05


def test_one_column_is_a_graph_without_edges() -> None:
    assert PC().fit(np.arange(10.0)[:, None]).graph_.n_edges == 0


def test_ambiguous_triples_orient_nothing_under_the_conservative_rule() -> None:
    chain_graph = Graph.from_edges("abcd", [("a", "b")], undirected=["bc", "cd"])
    A = chain_graph.adjacency.copy()
    key = (0 * 4 + 1) * 4 + 2  # a - b - c
    _orientation.close(A, lists(A | A.T), np.array([key]))
    assert np.array_equal(A, chain_graph.adjacency)
    _orientation.close(A, lists(A | A.T), np.empty(0, dtype=np.int64))
    assert sorted(chain.from_iterable(np.argwhere(A).tolist())) == [0, 1, 1, 2, 2, 3]
