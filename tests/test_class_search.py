"""What GES and BOSS have in common: the population's class, scores, knowledge, interventions, networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from drawn import LARGE, class_score, population, random_knowledge, random_model, sample, seeds, statistics
from polydag import BOSS, GES, Bootstrap, orientation, simulate
from polydag.computing import progress
from polydag.computing.interruption import INTERRUPTED
from polydag.errors import ConvergenceWarning, DataError, UsageError
from polydag.formats import read_network
from polydag.graph import Graph
from polydag.knowledge import Knowledge
from polydag.scores import Score, make_score
from polydag.search.boss.search import boss
from polydag.search.climber import Climber
from polydag.search.ges.search import ges
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

pytestmark = pytest.mark.portable

Search = Callable[..., Any]
both = pytest.mark.parametrize("search", [ges, boss])


def check_score(result: Any, score: Score) -> None:
    """The score is that of the graph.

    Families that fit almost perfectly (as many parents as rows allow) have only half of the digits.
    """
    assert result.score == pytest.approx(class_score(score, result.adjacency), rel=1e-4, abs=1e-6)


def check_oracle(search: Search, number: int) -> None:
    for seed in range(number):
        dag, scales = random_model(seed, largest=12)
        result = search(GaussianStats.from_covariance(population(dag, scales), LARGE))
        np.testing.assert_array_equal(
            result.adjacency, orientation.cpdag(dag.adjacency), err_msg=f"seed {seed}"
        )


@both
def test_the_population_gives_the_exact_cpdag(search: Search) -> None:
    check_oracle(search, 60)


@pytest.mark.slow
@both
def test_the_population_gives_the_exact_cpdag_500(search: Search) -> None:
    check_oracle(search, 500)


@both
@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_the_order_of_columns_changes_nothing_on_the_population(search: Search, seed: int) -> None:
    dag, scales = random_model(seed)
    covariance = population(dag, scales)
    place = np.random.default_rng(seed).permutation(len(covariance))
    here = search(GaussianStats.from_covariance(covariance, LARGE)).adjacency
    there = search(GaussianStats.from_covariance(covariance[np.ix_(place, place)], LARGE)).adjacency
    np.testing.assert_array_equal(here[np.ix_(place, place)], there)


@both
@given(seed=seeds, d=st.integers(2, 40), n=st.integers(10, 200), screen=st.sampled_from([None, False, True]))
@settings(max_examples=20, deadline=None)
def test_the_score_is_that_of_the_graph(
    search: Search, seed: int, d: int, n: int, screen: bool | None
) -> None:
    score = make_score("bic", statistics("bic", seed, d, n))
    result = search(score, screen=screen)
    check_score(result, score)
    extension = orientation.consistent_extension(result.adjacency)
    assert extension is not None
    np.testing.assert_array_equal(orientation.cpdag(extension), result.adjacency)


@both
@given(seed=seeds, d=st.integers(3, 15), tiers=st.booleans())
@settings(max_examples=25, deadline=None)
def test_knowledge_is_honoured(search: Search, seed: int, d: int, tiers: bool) -> None:
    masks = random_knowledge(seed, d)
    if tiers:
        names = [f"x{i}" for i in range(d)]
        masks = Knowledge(tiers=[names[: d // 3], names[d // 3 : d // 2], names[d // 2 :]]).masks(names)
    score = make_score("bic", statistics("bic", seed, d, 60))
    result = search(score, knowledge=masks)
    A = result.adjacency
    assert not (A & masks.forbidden).any()
    assert ((A & ~A.T) | ~masks.required).all()
    np.testing.assert_array_equal(orientation.meek(A), A)
    check_score(result, score)


def true_knowledge(dag: Graph, kind: str, rng: np.random.Generator) -> Knowledge:
    names, A = dag.names, dag.adjacency
    edges = [(names[i], names[j]) for i, j in np.argwhere(A)]
    absent = [(names[i], names[j]) for i, j in np.argwhere(~A & ~np.eye(len(A), dtype=bool))]
    if kind == "tiers":
        order = dag.topological_order()
        cut = int(rng.integers(1, len(order)))
        return Knowledge(tiers=[order[:cut], order[cut:]])
    chosen = edges if kind == "required" else absent
    some = [chosen[k] for k in rng.permutation(len(chosen))[: rng.integers(1, 4)]]
    return Knowledge(required=some) if kind == "required" else Knowledge(forbidden=some)


def check_true_knowledge(search: Search, kind: str, number: int) -> None:
    for seed in range(number):
        dag, scales = random_model(seed, largest=9)
        masks = true_knowledge(dag, kind, np.random.default_rng(seed)).masks(dag.names)
        result = search(GaussianStats.from_covariance(population(dag, scales), LARGE), knowledge=masks)
        truth = orientation.cpdag(dag.adjacency)
        told = truth & ~((masks.forbidden | masks.required.T) & truth.T)
        np.testing.assert_array_equal(result.adjacency, orientation.meek(told), err_msg=f"seed {seed}")


@both
@pytest.mark.parametrize("kind", ["forbidden", "required", "tiers"])
def test_knowledge_that_is_true_gives_the_truth_with_its_arrows(search: Search, kind: str) -> None:
    check_true_knowledge(search, kind, 40)


@pytest.mark.slow
@both
@pytest.mark.parametrize("kind", ["forbidden", "required", "tiers"])
def test_knowledge_that_is_true_gives_the_truth_with_its_arrows_300(search: Search, kind: str) -> None:
    check_true_knowledge(search, kind, 300)


@both
def test_interventions_orient_edges_on_the_population(search: Search) -> None:
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
        np.testing.assert_array_equal(search(Regimes(parts)).adjacency, essential, err_msg=f"seed {seed}")
    assert more > 5


class Callback:
    """A score that answers one family at a time."""

    def __init__(self, score: Score) -> None:
        self.score, self.names = score, score.names

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        return self.score.local_score(node, parents)


@both
@pytest.mark.parametrize("name", ["bic", "bge", "bdeu", "bds", "k2"])
def test_any_object_with_a_local_score_will_do(search: Search, name: str) -> None:
    score = make_score(name, statistics(name, 3, 8, 80))
    fast, slow = search(score), search(Callback(score))
    assert fast.adjacency.sum() > 3
    np.testing.assert_array_equal(fast.adjacency, slow.adjacency)
    assert fast.score == pytest.approx(slow.score)


@both
@pytest.mark.parametrize("name", ["bic", "bge", "bdeu"])
@given(seed=seeds, max_parents=st.integers(0, 3))
@settings(max_examples=8, deadline=None)
def test_no_family_exceeds_the_bound(search: Search, name: str, seed: int, max_parents: int) -> None:
    score = make_score(name, statistics(name, seed, 8, 60))
    fast, slow = (search(own, max_parents=max_parents, screen=False) for own in (score, Callback(score)))
    assert fast.score >= slow.score - 1e-6  # only scores that are known to be Gaussian have further starts
    for result in (fast, slow):
        dag = orientation.consistent_extension(result.adjacency)
        assert dag is not None
        assert dag.sum(axis=0).max() <= max_parents
        check_score(result, score)
    free, loose = search(score, screen=False), search(score, max_parents=7, screen=False)
    np.testing.assert_array_equal(loose.adjacency, free.adjacency)


@both
def test_the_result_repeats_itself(search: Search) -> None:
    stats = GaussianStats.from_data(sample(0, 40, 30, edges=80))
    first, second = search(stats), search(stats)
    assert first.trace == second.trace
    np.testing.assert_array_equal(first.adjacency, second.adjacency)


@both
def test_screening_joins_only_what_is_correlated(search: Search) -> None:
    stats = GaussianStats.from_data(sample(1, 60, 40, edges=120))
    free = -0.5 * stats.n * np.log1p(-np.minimum(stats.correlation**2, 1 - 1e-12)) - np.log(stats.n) > 0
    assert not (search(stats, penalty=2.0).adjacency & ~free).any()  # fewer rows than columns: screened
    assert (search(stats, penalty=2.0, screen=False).adjacency & ~free).any()


@both
@pytest.mark.parametrize(
    ("network", "n", "most"), [("child", 10_000, 2), ("alarm", 2_000, 20), ("insurance", 10_000, 40)]
)
def test_discrete_networks(search: Search, reference_data: Path, network: str, n: int, most: int) -> None:
    truth = read_network(reference_data / "bn" / f"{network}.bif.gz")
    score = make_score("bdeu", DiscreteCounts.from_data(simulate.discrete(truth, n=n, random_state=0)))
    result = search(score)
    check_score(result, score)
    true = truth.graph.to_cpdag().adjacency
    unlike = (result.adjacency != true) | (result.adjacency != true).T
    assert np.triu(unlike).sum() <= most


@pytest.mark.parametrize("seed", range(12))
def test_neither_moves_nor_operators_improve_what_is_found_for_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dag = simulate.dag(8, expected_edges=14, random_state=seed)
    X = simulate.linear(dag, n=400, random_state=seed)
    labels = X.apply(lambda column: pd.qcut(column, int(rng.integers(2, 4)), labels=False))
    score = make_score("bdeu", DiscreteCounts.from_data(labels))
    found = boss(score)
    check_score(found, score)
    again = Climber(score, None, screen=False)
    again.orders.start(found.order)
    again.orders.run()
    assert again.climb(again.orders.dag()).total <= found.score + 1e-6
    member = orientation.consistent_extension(found.adjacency)
    assert again.climb(member).total == pytest.approx(found.score, abs=1e-6)
    assert ges(score).score >= ges(score, escape=False).score


@both
def test_bad_input(search: Search) -> None:
    with pytest.raises(UsageError, match="got ndarray"):
        search(np.eye(3))
    with pytest.raises(DataError, match="at least 3"):
        search(GaussianStats.from_data(np.eye(2)))


@both
def test_an_interrupted_search_gives_the_best_graph_until_then(search: Search) -> None:
    stats = statistics("bic", 4, 20, 200)
    whole = search(stats)
    assert whole.complete
    scores = []
    for after in (1, 3, 30, 60):
        with progress.listening(_interrupt(after)):
            part = search(stats)
        if not part.complete:
            scores.append(part.score)
            check_score(part, make_score("bic", stats, penalty="auto"))
    assert len(scores) >= 2
    assert scores[0] < scores[-1] <= whole.score + 1e-6


def _interrupt(after: int) -> Callable[[progress.Step], None]:
    """A listener that presses Ctrl-C at some report."""
    seen = []

    def listen(step: progress.Step) -> None:
        seen.append(step)
        if len(seen) == after:
            raise KeyboardInterrupt

    return listen


@pytest.mark.parametrize("learner", [GES(), BOSS()])
def test_an_interrupted_learner_says_so(learner: GES | BOSS) -> None:
    stats = statistics("bic", 4, 20, 200)
    with progress.listening(_interrupt(3)), pytest.warns(ConvergenceWarning, match="interrupted"):
        model = clone(learner).fit(stats)
    assert not model.converged_
    assert model.notes_ == (INTERRUPTED,)
    table = sample(4, 20, 200, edges=30)
    with (
        progress.listening(_interrupt(3)),
        pytest.warns(ConvergenceWarning),
        pytest.raises(KeyboardInterrupt),
    ):
        Bootstrap(learner, n_resamples=2).fit(table)
