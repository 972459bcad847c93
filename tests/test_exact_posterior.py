"""The exact posterior: golden values, enumeration of all orders and DAGs, wide ranges, blocks, refusals."""

from __future__ import annotations

import itertools
import math
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles import all_dags
from polydag.computing.progress import listening
from polydag.errors import DataError, UsageError
from polydag.knowledge import Knowledge
from polydag.posterior import exact_posterior, family_table, with_prior
from polydag.posterior.exact import subset_lattice as lattice
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.probabilities import Posterior
from polydag.scores import make_score
from polydag.stats import DiscreteCounts, GaussianStats, Regimes
from tables import random_table

pytestmark = pytest.mark.portable

GOLDEN = Path(__file__).parent / "golden"
Array = NDArray[np.float64]


def dag_score(table: FamilyTable, dag: NDArray[np.bool_]) -> float:
    total = 0.0
    for node in range(table.n):
        parents = np.flatnonzero(dag[:, node]).tolist()
        if len(parents) > table.max_parents or not set(parents) <= set(table.candidates[node].tolist()):
            return -np.inf
        total += table.scores[node, table.index(node, parents)]
    return total


def orders_of(dag: NDArray[np.bool_]) -> int:
    """How many orders of the nodes agree with the DAG."""
    n = len(dag)
    return sum(
        not any(dag[b, a] for a, b in itertools.combinations(order, 2))
        for order in itertools.permutations(range(n))
    )


def enumerated(table: FamilyTable) -> tuple[list[NDArray[np.bool_]], Array, float]:
    """All DAGs with their probabilities (a DAG counts once for each order), and the log of the sum."""
    dags = list(all_dags(table.n))
    logs = np.array([dag_score(table, dag) + math.log(orders_of(dag)) for dag in dags])
    top = logs.max()
    weight = np.exp(logs - top)
    return dags, weight / weight.sum(), float(top + np.log(weight.sum()))


def log_space(table: FamilyTable) -> tuple[Array, float]:
    """The same sums by logarithms alone, one set at a time: slow, and without any scaling."""
    n = table.n
    full = (1 << n) - 1
    masks = [[sum(1 << v for v in table.parents(i, s)) for s in range(len(table.sets))] for i in range(n)]

    def alpha(i: int, U: int) -> float:
        return float(
            np.logaddexp.reduce(
                [x for x, m in zip(table.scores[i], masks[i], strict=True) if not m & ~U] or [-np.inf]
            )
        )

    a = {(i, U): alpha(i, U) for i in range(n) for U in range(full + 1) if not U >> i & 1}
    F, B = {0: 0.0}, {full: 0.0}
    for S in range(1, full + 1):
        F[S] = float(np.logaddexp.reduce([a[i, S ^ 1 << i] + F[S ^ 1 << i] for i in range(n) if S >> i & 1]))
    for S in range(full - 1, -1, -1):
        B[S] = float(np.logaddexp.reduce([a[i, S] + B[S | 1 << i] for i in range(n) if not S >> i & 1]))
    result = np.empty(table.scores.shape)
    for i, s in np.ndindex(result.shape):
        above = [F[U] + B[U | 1 << i] for U in range(full + 1) if not U >> i & 1 and not masks[i][s] & ~U]
        result[i, s] = table.scores[i, s] + np.logaddexp.reduce(above) - F[full]
    return np.exp(result), F[full]


@pytest.mark.parametrize(("name", "top"), [("g6_50", 2), ("g6_50", 3), ("g6_50", 4), ("asia_200", 3)])
def test_golden_arc_probabilities(name: str, top: int) -> None:
    score = make_score("k2", DiscreteCounts.from_data(pd.read_csv(GOLDEN / f"{name}.csv")))
    posterior = exact_posterior(with_prior(family_table(score, top), "fair"))
    arcs = pd.read_csv(GOLDEN / f"{name}_arcs_m{top}.csv")
    n = len(score.names)
    assert len(arcs) == n * (n - 1)
    found = posterior.probabilities[arcs["tail"], arcs["head"]]
    np.testing.assert_allclose(found, arcs["prob"], rtol=0, atol=1e-9)


def scored(kind: str, seed: int) -> FamilyTable:
    rng = np.random.default_rng(seed)
    if kind == "bge":
        stats = GaussianStats.from_data(
            rng.standard_normal((20, 4)) @ rng.standard_normal((4, 4)), names="abcd"
        )
        return family_table(make_score(kind, stats), 3)
    a = rng.integers(0, 3, 40)
    b = np.where(rng.random(40) < 0.7, a % 2, 1)
    c = np.where(rng.random(40) < 0.7, (a + b) % 3, 0)
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "d": rng.integers(0, 2, 40)})
    return family_table(make_score(kind, DiscreteCounts.from_data(frame)), 3)


def priors(table: FamilyTable) -> list[FamilyTable]:
    chance = np.random.default_rng(1).random((4, 4))
    chance[3, 0] = 0.0
    masks = Knowledge(required=[("a", "c")], forbidden=[("d", "b")], tiers=[["a"], ["c"]]).masks(table.names)
    return [
        with_prior(table, "uniform"),
        with_prior(table, "fair"),
        with_prior(table, "fair", edge_prior=chance),
        with_prior(table, "uniform", masks=masks),
        with_prior(table, "fair", edge_prior=chance, masks=masks),
    ]


@pytest.mark.parametrize("number", range(5), ids=["uniform", "fair", "edges", "known", "all"])
@pytest.mark.parametrize("kind", ["k2", "bdeu", "bds", "bge"])
def test_enumeration_of_all_dags(kind: str, number: int) -> None:
    table = priors(scored(kind, 5))[number]
    dags, chance, log_total = enumerated(table)
    posterior = exact_posterior(table)
    assert posterior.log_evidence == pytest.approx(log_total, abs=1e-10)
    edges = sum(p * dag for p, dag in zip(chance, dags, strict=True))
    np.testing.assert_allclose(posterior.probabilities, edges, rtol=0, atol=1e-12)
    assert_parent_sets(posterior, dags, chance)
    assert_v_structures(posterior.v_structures(at_least=0.0), table.names, dags, chance)
    best, score = posterior.best_graph()
    scores = [dag_score(table, dag) for dag in dags]
    assert score == pytest.approx(max(scores), abs=1e-10)
    assert dag_score(table, best.adjacency) == pytest.approx(max(scores), abs=1e-10)


def assert_parent_sets(posterior: Posterior, dags: list[NDArray[np.bool_]], chance: Array) -> None:
    for node, name in enumerate(posterior.names):
        expected: dict[tuple[str, ...], float] = {}
        for p, dag in zip(chance, dags, strict=True):
            key = tuple(posterior.names[v] for v in np.flatnonzero(dag[:, node]))
            expected[key] = expected.get(key, 0.0) + p
        found = posterior.parents(name)
        assert found["probability"].is_monotonic_decreasing
        assert found["probability"].sum() == pytest.approx(1.0, abs=1e-12)
        own = dict(zip(found["parents"], found["probability"], strict=True))
        assert all(own.get(key, 0.0) == pytest.approx(p, abs=1e-12) for key, p in expected.items())


def assert_v_structures(
    found: pd.DataFrame, names: tuple[str, ...], dags: list[NDArray[np.bool_]], chance: Array
) -> None:
    own = {(row.parent, row.child, row.other): row.probability for row in found.itertuples()}
    for child in range(4):
        for a, b in itertools.combinations(sorted(set(range(4)) - {child}), 2):
            expected = sum(
                p
                for p, dag in zip(chance, dags, strict=True)
                if dag[a, child] and dag[b, child] and not dag[a, b] and not dag[b, a]
            )
            assert own.get((names[a], names[child], names[b]), 0.0) == pytest.approx(expected, abs=1e-12)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 4))
@settings(max_examples=15, deadline=None)
def test_any_modular_feature(seed: int, n: int) -> None:
    table = random_table(n, min(2, n - 1), seed)
    factors = np.random.default_rng(seed + 1).random((n, 1 << n))

    def feature(node: str, parents: tuple[str, ...]) -> float:
        return float(factors[table.names.index(node), sum(1 << table.names.index(v) for v in parents)])

    dags, chance, _ = enumerated(table)
    expected = 0.0
    for p, dag in zip(chance, dags, strict=True):
        expected += p * math.prod(factors[node, int(dag[:, node] @ (1 << np.arange(n)))] for node in range(n))
    assert exact_posterior(table).feature(feature) == pytest.approx(expected, abs=1e-12)


def test_features_that_are_certain_or_impossible() -> None:
    posterior = exact_posterior(random_table(4, 2, 0))
    assert posterior.feature(lambda node, parents: True) == pytest.approx(1.0, abs=1e-12)
    assert posterior.feature(lambda node, parents: node != "a") == 0.0
    no_parents = posterior.feature(lambda node, parents: node != "b" or not parents)
    table = posterior.parents("b")
    assert no_parents == pytest.approx(
        float(table.loc[table["parents"] == (), "probability"].iloc[0]), abs=1e-12
    )
    with pytest.raises(UsageError, match="negative"):
        posterior.feature(lambda node, parents: -1.0)


@given(seed=st.integers(0, 10**6), spread=st.sampled_from([1.0, 100.0, 3000.0, 1e5]), n=st.integers(2, 6))
@settings(max_examples=25, deadline=None)
def test_log_space_and_scaled_agree(seed: int, spread: float, n: int) -> None:
    table = random_table(n, min(3, n - 1), seed, spread)
    expected, log_total = log_space(table)
    grid = lattice.lattice(table)
    # Sums of large logarithms are themselves only as exact as their last digit.
    tolerance = 1e-12 + 16 * np.spacing(n * np.abs(table.scores).max())
    for values in (lattice.scaled(table, grid), lattice.scaled(table, grid, plain=False)):
        found, total = lattice.family_posterior(table, grid, values)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        assert total == pytest.approx(log_total, rel=1e-13, abs=1e-10)
        assert lattice.total(grid, values) == pytest.approx(log_total, rel=1e-13, abs=1e-10)


@given(seed=st.integers(0, 10**6), spread=st.sampled_from([1.0, 300.0, 3000.0]))
@settings(max_examples=60, deadline=None)
def test_wide_ranges_with_families_ruled_out(seed: int, spread: float) -> None:
    """Where a set of predecessors has no family at all, the sums of others must not be lost."""
    rng = np.random.default_rng(seed)
    table = random_table(5, 3, seed, spread)
    narrow = 3.0 * rng.standard_normal(table.scores.shape)
    scores = np.where(rng.random(5)[:, None] < 0.5, narrow, table.scores)
    scores[rng.random(scores.shape) < 0.5] = -np.inf
    table = table.with_scores(scores)
    with np.errstate(invalid="ignore"):
        expected, log_total = log_space(table)
    if log_total == -np.inf:
        return
    found, total = lattice.family_posterior(
        table, lattice.lattice(table), lattice.scaled(table, lattice.lattice(table))
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)
    assert total == pytest.approx(log_total, rel=1e-13, abs=1e-10)


@cache
def many_rows() -> tuple[GaussianStats, DiscreteCounts]:
    z = np.random.default_rng(0).standard_normal((100_000, 6))
    z[:, 1] += 2 * z[:, 0]
    z[:, 2] += z[:, 1] - z[:, 0]
    z[:, 4] += 3 * z[:, 3]
    return GaussianStats.from_data(z), DiscreteCounts.from_data((z > 0).astype(int))


@pytest.mark.parametrize("kind", ["k2", "bdeu", "bds", "bge"])
def test_likelihoods_that_underflow(kind: str) -> None:
    """100,000 rows: scores near -1e5, and parents that are worth tens of thousands."""
    stats = many_rows()[kind != "bge"]
    table = with_prior(family_table(make_score(kind, stats), 3), "fair")
    assert lattice.scaled(table, lattice.lattice(table)).wide.any()
    expected, log_total = log_space(table)
    posterior = exact_posterior(table)
    assert posterior.family_probabilities is not None
    np.testing.assert_allclose(posterior.family_probabilities, expected, rtol=0, atol=1e-9)
    assert posterior.log_evidence == pytest.approx(log_total, rel=1e-12)
    np.testing.assert_allclose(posterior.family_probabilities.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("low", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("spread", [3.0, 2000.0])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch, low: int, spread: float, n_jobs: int) -> None:
    table = random_table(7, 3, 11, spread)
    whole = exact_posterior(table)
    monkeypatch.setattr(lattice, "LOW_BITS", low)
    parts = exact_posterior(table, n_jobs=n_jobs)
    assert parts.family_probabilities is not None
    assert whole.family_probabilities is not None
    np.testing.assert_allclose(parts.family_probabilities, whole.family_probabilities, atol=1e-12)
    assert parts.log_evidence == pytest.approx(whole.log_evidence, rel=1e-13)
    (graph, score), (other, highest) = parts.best_graph(), whole.best_graph()
    assert np.array_equal(graph.adjacency, other.adjacency)
    assert score == highest


def test_more_variables_than_one_block_holds() -> None:
    """14 variables without interaction but in pairs: the posterior of a pair alone is known."""
    pair = random_table(2, 1, 3)
    table = random_table(14, 1, 0)
    scores = np.full(table.scores.shape, -np.inf)
    scores[:, 0] = 0.0
    for first in range(0, 14, 2):
        for node in (0, 1):
            own = first + node
            scores[own, 0] = pair.scores[node, 0]
            scores[own, table.index(own, [first + 1 - node])] = pair.scores[node, 1]
    found = exact_posterior(table.with_scores(scores)).probabilities
    expected = exact_posterior(pair).probabilities
    np.testing.assert_allclose(found, np.kron(np.eye(7), expected), atol=1e-12)


@given(seed=st.integers(0, 10**6), order=st.permutations(range(5)))
@settings(max_examples=10, deadline=None)
def test_a_permutation_of_columns_permutes_the_answer(seed: int, order: list[int]) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.integers(0, 3, (60, 5)), columns=list("abcde"))
    frame["e"] = np.where(rng.random(60) < 0.8, frame["a"], frame["e"])

    def fitted(columns: pd.DataFrame) -> pd.DataFrame:
        score = make_score("bds", DiscreteCounts.from_data(columns))
        return exact_posterior(with_prior(family_table(score, 3))).edges

    names = [frame.columns[i] for i in order]
    pd.testing.assert_frame_equal(fitted(frame[names]), fitted(frame).loc[names, names], rtol=0, atol=1e-11)


def test_candidates_are_families_that_are_not_ruled_out() -> None:
    full = random_table(5, 2, 4)
    kept = np.array([[1, 2, 4], [0, 2, 3], [1, 3, 4], [0, 1, 2], [0, 2, 3]])
    pruned = FamilyTable(full.names, kept, 2, np.zeros((5, n_subsets(3, 2))))
    scores = np.full(full.scores.shape, -np.inf)
    for node, s in np.ndindex(pruned.scores.shape):
        where = full.index(node, pruned.parents(node, s))
        pruned.scores[node, s] = scores[node, where] = full.scores[node, where]
    expected = exact_posterior(full.with_scores(scores))
    found = exact_posterior(pruned)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-13)
    assert found.best_graph()[1] == pytest.approx(expected.best_graph()[1])


def test_interventions_direct_an_edge() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 2, 400)
    y = np.where(rng.random(400) < 0.9, x, 1 - x)
    seen = pd.DataFrame({"x": x, "y": y})
    x = rng.integers(0, 2, 400)
    y = np.where(rng.random(400) < 0.9, x, 1 - x)
    forced = pd.DataFrame({"x": x, "y": y})
    build = DiscreteCounts.from_data

    def chance(stats: DiscreteCounts | Regimes[DiscreteCounts]) -> float:
        table = with_prior(family_table(make_score("bdeu", stats), 1))
        return float(exact_posterior(table).edges.loc["x", "y"])

    assert chance(build(seen) + build(forced)) == pytest.approx(0.5)
    assert chance(Regimes({frozenset(): build(seen), frozenset({"x"}): build(forced)})) > 0.99


def test_one_variable() -> None:
    posterior = exact_posterior(random_table(1, 0, 0))
    assert posterior.edges.shape == (1, 1)
    assert posterior.parents("a")["probability"].tolist() == [1.0]
    assert posterior.best_graph()[0].n_edges == 0


def test_knowledge_that_no_order_satisfies() -> None:
    table = random_table(3, 1, 0)
    chance = np.full((3, 3), 0.5)
    chance[0, 1] = chance[1, 0] = 1.0
    cyclic = with_prior(table, edge_prior=chance)
    with pytest.raises(DataError, match="No order of the variables"):
        exact_posterior(cyclic)
    with pytest.raises(DataError, match="No order of the variables"):
        lattice.best_families(cyclic, lattice.lattice(cyclic))
    nothing = table.with_scores(np.where(np.arange(3)[:, None] == 1, -np.inf, table.scores))
    with pytest.raises(DataError, match="No parent set of b is allowed"):
        exact_posterior(nothing)


def test_too_many_variables_are_refused_with_what_fits() -> None:
    with pytest.raises(
        UsageError, match=r"of 40 variables .* needs .* GB; 1.0 GB can be used. Up to 25 variables"
    ):
        lattice.require_fit(40, limit=1e9)
    lattice.require_fit(25, limit=1e9)
    with pytest.raises(UsageError, match="Leave variables out"):
        lattice.require_fit(1000)
    table = random_table(8, 1, 0)
    with pytest.raises(UsageError, match="8 variables"):
        exact_posterior(table, memory=1000.0)


def test_progress_is_told() -> None:
    steps = []
    with listening(steps.append):
        exact_posterior(random_table(13, 1, 0))
    assert {step.task for step in steps} == {"orders, from the front", "orders, from the back"}
    assert all(step.done <= (step.total or 0) for step in steps)


def test_the_graph_of_a_posterior_thresholds_connections_and_then_directions() -> None:
    P = np.array([[0, 0.8, 0.1], [0.15, 0, 0.4], [0.6, 0.45, 0]])
    posterior = Posterior(("a", "b", "c"), P, "exact")
    graph = posterior.graph()
    assert graph.adjacency.astype(int).tolist() == [[0, 1, 0], [0, 0, 1], [1, 1, 0]]  # b - c is undirected
    assert graph.weights[[0, 1, 2, 2], [1, 2, 1, 0]] == pytest.approx([0.8, 0.85, 0.85, 0.6])
    assert posterior.graph(0.9).n_edges == 1
    assert posterior.graph(0.97).n_edges == 0
    with pytest.raises(UsageError, match="threshold"):
        posterior.graph(1.5)
    with pytest.raises(UsageError, match="edges only"):
        posterior.parents("a")
    with pytest.raises(DataError, match="'z' is not a variable"):
        posterior.index("z")
