"""Sources of counts that keep their rows: the same answers as from rows, in few questions."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asked import AskedCounts, labels
from drawn import random_knowledge
from polydag.errors import DataError, UsageError
from polydag.knowledge import Masks
from polydag.learners import BOSS, GES, PC
from polydag.posterior import choose_candidates, exact_posterior, family_table, with_prior
from polydag.scores import make_score
from polydag.search.boss.search import boss
from polydag.search.ges.search import ges
from polydag.search.pc import pc
from polydag.sources.given import Given
from polydag.stats import CountTables, DiscreteCounts, Regimes
from polydag.stats.count_tables import AnsweredTables, MergedTables, SelectedTables

DISCRETE = pytest.mark.parametrize("name", ["bdeu", "bds", "k2"])
seeds = st.integers(0, 100_000)


# --- tables ---


@given(seed=seeds, d=st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_a_table_answers_for_its_subsets(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    counts = labels(seed, d, 30)
    source = AskedCounts(counts)
    answered = AnsweredTables(source, "max_parents")
    sets = [tuple(rng.permutation(d)[: rng.integers(0, d + 1)].tolist()) for _ in range(6)]
    answered.fetch(sets)
    assert len(source.questions) == 1
    for columns in sets:
        expected = counts.table([counts.names[column] for column in columns])
        np.testing.assert_array_equal(answered.table(columns), expected)
        for size in range(len(columns)):
            for subset in combinations(columns, size):
                np.testing.assert_array_equal(answered.table(subset), counts.tables([subset])[0])
    assert len(source.questions) == 1
    asked = [set(columns) for columns in source.questions[0]]
    assert not any(one < other for one in asked for other in asked)
    answered.fetch(sets)
    assert len(source.questions) == 1


def test_views_of_sources() -> None:
    first, second = labels(0, 4, 50), labels(0, 4, 80)
    assert isinstance(AskedCounts(first), CountTables)
    assert isinstance(first, CountTables)
    turned = SelectedTables(first, (2, 0, 3))
    assert turned.names == ("x2", "x0", "x3")
    assert turned.levels == tuple(first.levels[i] for i in (2, 0, 3))
    assert turned.arities.tolist() == first.arities[[2, 0, 3]].tolist()
    assert turned.n == 50
    np.testing.assert_array_equal(turned.tables([(0, 2)])[0], first.table(["x2", "x3"]))
    merged = MergedTables((first, second))
    assert merged.n == 130
    assert (merged.names, merged.levels) == (first.names, first.levels)
    np.testing.assert_array_equal(merged.tables([(1, 3)])[0], (first + second).table(["x1", "x3"]))
    with pytest.raises(DataError, match="different variables"):
        MergedTables((first, labels(0, 3, 50)))


def test_too_large_a_question_is_refused_before_it_is_asked() -> None:
    source = AskedCounts(DiscreteCounts.from_data(np.random.default_rng(0).integers(0, 9, size=(400, 8))))
    score = make_score("bdeu", source)
    with pytest.raises(UsageError, match=r"56 tables of up to 5 columns have 3,306,744 cells.*max_parents"):
        family_table(score, 4)
    with pytest.raises(UsageError, match="smaller max_conditioning"):
        pc(source, max_conditioning=6, alpha=0.999)
    assert not any(len(columns) > 4 for question in source.questions for columns in question)


# --- scores and posteriors ---


@DISCRETE
@given(seed=seeds, d=st.integers(1, 6), top=st.integers(0, 3))
@settings(max_examples=10, deadline=None)
def test_families_are_one_question(name: str, seed: int, d: int, top: int) -> None:
    top = min(top, d - 1)
    counts = labels(seed, d, 40)
    source = AskedCounts(counts)
    near, far = (family_table(make_score(name, stats), top) for stats in (counts, source))
    np.testing.assert_allclose(far.scores, near.scores, rtol=1e-10, atol=1e-9)
    assert len(source.questions) == 1
    assert {len(columns) for columns in source.questions[0]} == {top + 1}
    if d > 1:
        here, there = (exact_posterior(with_prior(table)).edges for table in (near, far))
        np.testing.assert_allclose(there, here, atol=1e-9)


def test_candidates_take_one_more_question() -> None:
    counts = labels(3, 7, 100)
    source = AskedCounts(counts)
    masks = Masks(np.zeros((7, 7), dtype=bool), np.eye(7, dtype=bool))
    near, far = make_score("bdeu", counts), make_score("bdeu", source)
    kept = choose_candidates(near, 3, masks).kept
    np.testing.assert_array_equal(choose_candidates(far, 3, masks).kept, kept)
    assert len(source.questions) == 1
    expected = family_table(near, 2, candidates=kept).scores
    np.testing.assert_allclose(family_table(far, 2, candidates=kept).scores, expected, rtol=1e-10)
    assert len(source.questions) == 2


@DISCRETE
def test_regimes_of_sources_equal_regimes_of_rows(name: str) -> None:
    parts = {targets: labels(1, 5, 60 + k) for k, targets in enumerate((frozenset(), frozenset({"x1"})))}
    asked = {targets: AskedCounts(part) for targets, part in parts.items()}
    near, far = make_score(name, Regimes(parts)), make_score(name, Regimes[Any](asked))
    np.testing.assert_allclose(family_table(far, 2).scores, family_table(near, 2).scores, rtol=1e-10)
    assert far.targets == near.targets
    # x1 is scored by the rows that did not set it, the others by all rows.
    assert [len(source.questions) for source in asked.values()] == [2, 1]
    np.testing.assert_array_equal(ges(far, max_parents=3).adjacency, ges(near, max_parents=3).adjacency)
    with pytest.raises(DataError, match="x1 was set in every row"):
        make_score(name, Regimes[Any]({frozenset({"x1"}): AskedCounts(labels(1, 5, 60))}))


# --- searches ---


@pytest.mark.parametrize("search", [ges, boss])
@DISCRETE
@given(seed=seeds, d=st.integers(2, 7), n=st.integers(20, 400), informed=st.booleans(), top=st.integers(0, 3))
@settings(max_examples=10, deadline=None)
def test_searches_find_what_they_find_from_rows(
    search: Any, name: str, seed: int, d: int, n: int, informed: bool, top: int
) -> None:
    counts = labels(seed, d, n)
    masks = random_knowledge(seed, d) if informed else None
    most = top if masks is None else max(top, int(masks.required.sum(axis=0).max()))
    source = AskedCounts(counts)
    near, far = (
        search(make_score(name, stats), knowledge=masks, max_parents=most, screen=False)
        for stats in (counts, source)
    )
    np.testing.assert_array_equal(far.adjacency, near.adjacency)
    assert np.isfinite(far.score)
    assert far.score == pytest.approx(near.score)
    assert all(len(columns) <= most + 1 for question in source.questions for columns in question)


def test_ges_asks_once_a_step() -> None:
    source = AskedCounts(labels(5, 8, 500))
    result = ges(source, max_parents=3, escape=False)
    assert len(result.trace) > 4
    # All pairs come first. After that, each step and the beginning of a phase ask for what has changed.
    assert sorted(source.questions[0]) == list(combinations(range(8), 2))
    assert len(source.questions) <= 1 + len(result.trace) + 6
    screened = AskedCounts(labels(5, 8, 500))
    ges(screened, max_parents=3, screen=True, escape=False)
    assert sorted(screened.questions[0]) == list(combinations(range(8), 2))


def test_boss_asks_once_for_all_walks_that_wait() -> None:
    counts = labels(6, 8, 500)
    source = AskedCounts(counts)
    score = make_score("bdeu", source)
    calls = 0

    class Counted(type(score)):  # type: ignore[misc]
        def gains(self, *arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            return super().gains(*arguments, **options)

    boss(Counted(source), max_parents=3)
    assert sorted(source.questions[0]) == list(combinations(range(8), 2))
    assert len(source.questions) < calls / 4


def test_a_set_is_never_asked_for_twice() -> None:
    source = AskedCounts(labels(7, 7, 300))
    boss(source, max_parents=3)
    asked = [columns for question in source.questions for columns in question]
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("rule", ["majority", "conservative"])
@given(seed=seeds, d=st.integers(2, 6), n=st.integers(20, 600), informed=st.booleans())
@settings(max_examples=20, deadline=None)
def test_pc_equals_pc_from_rows(rule: str, seed: int, d: int, n: int, informed: bool) -> None:
    counts = labels(seed, d, n)
    if (counts.rows == counts.rows[0]).all(axis=0).any():
        return
    masks = random_knowledge(seed, d) if informed else None
    source = AskedCounts(counts)
    near, far = (
        pc(stats, alpha=0.05, colliders=rule, knowledge=masks, max_conditioning=3)
        for stats in (counts, source)
    )
    np.testing.assert_array_equal(far.adjacency, near.adjacency)
    np.testing.assert_array_equal(far.dag, near.dag)
    np.testing.assert_allclose(far.pvalues, near.pvalues, rtol=1e-6)
    assert dict(far.separating_sets) == dict(near.separating_sets)
    assert far.levels == near.levels
    assert (far.ambiguous, far.conflicts) == (near.ambiguous, near.conflicts)
    # One question for each size of conditioning sets, and one for the colliders.
    assert len(source.questions) <= len(far.levels) + 1


def test_pc_names_a_constant_column() -> None:
    counts = DiscreteCounts.from_data(
        np.c_[np.random.default_rng(0).integers(0, 2, (50, 2)), np.zeros(50, dtype=int)],
        levels={"x2": (0, 1)},
    )
    for stats in (counts, AskedCounts(counts)):
        with pytest.raises(DataError, match="column x2 is constant"):
            pc(stats)
    with pytest.raises(DataError, match="3 rows"):
        pc(AskedCounts(labels(0, 3, 3)))


# --- learners ---


@pytest.mark.parametrize("learner", [GES, BOSS, PC])
def test_learners_bound_the_tables_and_say_so(learner: Any) -> None:
    bound = "max_conditioning" if learner is PC else "max_parents"
    counts = labels(2, 6, 300)
    source = AskedCounts(counts)
    model = learner().fit(Given(source))
    told = f"Counts are asked for table by table: {bound} is 3."
    assert model.notes_[0] == told
    near = learner(**{bound: 3}).fit(counts)
    assert near.notes_ == learner(**{bound: 3}).fit(Given(AskedCounts(counts))).notes_ == model.notes_[1:]
    assert model.graph_ == near.graph_
