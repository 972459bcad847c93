"""PC under known interventions: the interventional essential graph, from numbers, labels and both."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats as distributions

from drawn import LARGE, population, random_model
from polydag import PC, Bootstrap, GaussianStats, Knowledge, Regimes, orientation
from polydag.knowledge import knowledge_masks
from polydag.search.pc import pc
from polydag.search.pc.regimes import log_p_of_chi2, log_p_of_counts, log_p_of_moments
from polydag.sources import InMemory
from polydag.stats import DiscreteCounts


def essential(dag: np.ndarray, targets: list[frozenset[int]]) -> np.ndarray:
    """By definition: the arrows that all DAGs with the same v-structures and parted edges have."""
    truth = orientation.cpdag(dag)
    for own in targets:
        inside = np.isin(np.arange(len(dag)), list(own))
        truth = truth & ~((inside[:, None] != inside[None, :]) & dag).T
    return orientation.meek(truth)


@pytest.mark.parametrize("constant", [False, True], ids=["varied", "held constant"])
def test_the_essential_graph_from_the_population(constant: bool) -> None:
    more = 0
    for seed in range(15):
        dag, scales = random_model(seed, largest=6)
        rng = np.random.default_rng(seed)
        d = dag.n_nodes
        targets = [frozenset[int](), frozenset({int(rng.integers(d))}), frozenset({int(rng.integers(d))})]
        if not constant:
            targets.append(frozenset(rng.choice(d, 2, replace=False).tolist()))
        weights = dag.weights
        parts = {}
        for own in targets:
            S = population(dag, scales, own)
            mean = np.zeros(d)
            if constant and own:  # set to 3 without variation: the effect shows in means
                B = np.where(np.isin(np.arange(d), list(own))[None, :], 0.0, weights)
                total = np.linalg.inv(np.eye(d) - B)
                shift = np.zeros(d)
                shift[list(own)] = 3.0
                noise = np.where(np.isin(np.arange(d), list(own)), 0.0, scales**2)
                S, mean = total.T @ np.diag(noise) @ total, shift @ total
            n = LARGE
            names = frozenset(dag.names[i] for i in own)
            parts[names] = GaussianStats(n, mean, S * n, dag.names, n)
        wanted = essential(dag.adjacency, targets)
        more += int((wanted != orientation.cpdag(dag.adjacency)).any())
        found = pc(Regimes(parts), alpha=1e-6).adjacency
        np.testing.assert_array_equal(found, wanted, err_msg=f"seed {seed}")
    assert more > 5


def chain(rng: np.random.Generator, n: int, held: str | None, *, signs: bool = False) -> pd.DataFrame:
    """a -> b -> c, of which b may be set at random, and may be a sign."""
    a = rng.normal(size=n)
    b = 0.9 * a + 0.5 * rng.normal(size=n) if held != "b" else rng.normal(size=n)
    b = np.sign(b) if signs else b
    c = 0.9 * b + 0.5 * rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "c": c}).assign(what=held or "none")


@pytest.mark.parametrize("contents", ["numbers", "labels", "mixed"])
def test_a_chain_gets_its_directions(contents: str) -> None:
    rng = np.random.default_rng(4)
    signs = contents != "numbers"
    parts = [chain(rng, 400, held, signs=signs) for held in (None, "b")]
    rows = pd.concat(parts, ignore_index=True)
    if signs:
        rows["b"] = np.where(rows["b"] > 0, "high", "low")
    if contents == "labels":
        rows["a"], rows["c"] = rows["a"].gt(0).map(str), rows["c"].gt(0).map(str)
    model = PC().fit(InMemory(rows, interventions="what"))
    assert sorted(map(str, model.graph_.edges())) == ["a -> b", "b -> c"]
    without = PC().fit(rows[rows["what"] == "none"].drop(columns="what"))
    assert sorted(map(str, without.graph_.edges())) == ["a -- b", "b -- c"]


def test_one_regime_without_interventions_is_the_plain_test() -> None:
    rows = chain(np.random.default_rng(1), 300, None).drop(columns="what")
    for own in (GaussianStats.from_data(rows), DiscreteCounts.from_data(rows.gt(0).astype(str))):
        one, plain = pc(Regimes({frozenset(): own})), pc(own)
        np.testing.assert_array_equal(one.pvalues, plain.pvalues)


def test_the_order_of_columns_and_regimes_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    rows = pd.concat([chain(rng, 80, None), chain(rng, 60, "b"), chain(rng, 50, "a")], ignore_index=True)
    rows["d"] = rows["c"] + rng.normal(size=len(rows))
    first = PC().fit(InMemory(rows, interventions="what"))
    for order in itertools.permutations("abcd"):
        again = PC().fit(InMemory(rows[::-1][[*order, "what"]], interventions="what"))
        assert set(map(str, again.graph_.edges())) == set(map(str, first.graph_.edges()))


def test_knowledge_is_stronger_than_what_interventions_say() -> None:
    rng = np.random.default_rng(4)
    rows = pd.concat([chain(rng, 400, None), chain(rng, 400, "b")], ignore_index=True)
    knowledge = Knowledge(forbidden=[("a", "b")])
    model = PC(knowledge=knowledge).fit(InMemory(rows, interventions="what"))
    assert "b -> a" in map(str, model.graph_.edges())
    assert not (model.dag_.adjacency & knowledge_masks(knowledge, ("a", "b", "c")).forbidden).any()


def test_a_bootstrap_keeps_what_was_set() -> None:
    rng = np.random.default_rng(4)
    rows = pd.concat([chain(rng, 150, None), chain(rng, 150, "b")], ignore_index=True)
    pairs = Bootstrap(PC(), n_resamples=10, random_state=0).fit(InMemory(rows, interventions="what")).pairs_
    assert (pairs.set_index(["a", "b"]).loc[[("a", "b"), ("b", "c")], "forward"] > 0.8).all()


def test_log_p_values_are_those_of_scipy() -> None:
    for x, df in ((0.5, 1), (12.0, 3), (400.0, 2)):
        assert log_p_of_chi2(x, df) == pytest.approx(distributions.chi2.logsf(x, df), rel=1e-9)
    a, b = np.array([30.0, 20.0, 5.0]), np.array([10.0, 25.0, 9.0])
    g2 = distributions.chi2_contingency([a, b], lambda_="log-likelihood", correction=False)
    assert log_p_of_counts(a, b) == pytest.approx(np.log(g2.pvalue), rel=1e-9)
    x, y = np.random.default_rng(0).normal(size=(2, 500, 1))
    one, two = GaussianStats.from_data(x), GaussianStats.from_data(y + 0.2)
    assert log_p_of_moments(one, two, 0) < log_p_of_moments(one, GaussianStats.from_data(y), 0)
