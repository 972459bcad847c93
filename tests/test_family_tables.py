"""Tables of families against the scores' own definition; numbering of sets; candidates; priors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag.computing.progress import listening
from polydag.errors import DataError, UsageError
from polydag.knowledge import Knowledge, Masks
from polydag.posterior import choose_candidates, edge_probabilities, family_table, memory, with_prior
from polydag.posterior.families import subsets
from polydag.posterior.families.table import FamilyTable, all_others
from polydag.scores import make_score
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

ARITIES = (2, 3, 2, 4, 3)


def labels(m: int, seed: int, arities: tuple[int, ...] = ARITIES) -> pd.DataFrame:
    """Dependent columns: each follows the one before it in most rows."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(index=range(m))
    for j, arity in enumerate(arities):
        column = rng.integers(0, arity, m)
        if j:
            follow = rng.random(m) < 0.6
            column = np.where(follow, frame[f"v{j - 1}"] % arity, column)
        frame[f"v{j}"] = pd.Categorical(column, categories=range(arity)).codes.astype(int)
    return frame


def counts(frame: pd.DataFrame, arities: tuple[int, ...] = ARITIES, **options: Any) -> DiscreteCounts:
    levels = {name: list(range(arity)) for name, arity in zip(frame.columns, arities, strict=True)}
    return DiscreteCounts.from_data(frame, levels=levels, **options)


def assert_matches(table: FamilyTable, score: Any) -> None:
    for node in range(table.n):
        for s in range(table.scores.shape[1]):
            parents = table.parents(node, s)
            expected = score.local_score(node, parents)
            assert table.scores[node, s] == pytest.approx(expected, rel=1e-11, abs=1e-9), (node, parents)


def gaussian(n: int, d: int, seed: int) -> GaussianStats:
    rng = np.random.default_rng(seed)
    return GaussianStats.from_data(rng.standard_normal((n, d)) @ rng.standard_normal((d, d)))


@given(n=st.integers(0, 9), size=st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_sets_are_numbered_one_by_one(n: int, size: int) -> None:
    size = min(n, size)
    table = subsets.numbered(n, size)
    expected = {c for k in range(size + 1) for c in itertools.combinations(range(n), k)}
    found = [tuple(int(v) for v in row if v >= 0) for row in table]
    assert len(found) == len(expected) == subsets.n_subsets(n, size)
    assert set(found) == expected
    assert [subsets.number(members, n) for members in found] == list(range(len(found)))
    assert [len(members) for members in found] == sorted(len(members) for members in found)


@given(n=st.integers(0, 8), size=st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_combinations_in_lexicographic_order(n: int, size: int) -> None:
    assert [tuple(row) for row in subsets.combinations(n, size)] == list(
        itertools.combinations(range(n), size)
    )


@pytest.mark.parametrize("name", ["k2", "bdeu", "bds"])
@given(m=st.integers(2, 60), seed=st.integers(0, 10**6), weighted=st.booleans(), top=st.integers(0, 4))
@settings(max_examples=15, deadline=None)
def test_discrete_tables(name: str, m: int, seed: int, weighted: bool, top: int) -> None:
    weights = np.random.default_rng(seed).random(m) * 3 if weighted else None
    score = make_score(name, counts(labels(m, seed), weights=weights))
    assert_matches(family_table(score, top), score)


@given(seed=st.integers(0, 10**6), top=st.integers(0, 4))
@settings(max_examples=15, deadline=None)
def test_gaussian_tables(seed: int, top: int) -> None:
    score = make_score("bge", gaussian(30, 5, seed))
    assert_matches(family_table(score, top), score)


@pytest.mark.parametrize("name", ["k2", "bdeu", "bds"])
@pytest.mark.parametrize("arities", [(2, 2, 3, 2), (30, 9, 25, 2), (64, 64, 3, 40)])
def test_many_rows_and_many_levels(name: str, arities: tuple[int, ...]) -> None:
    """Bytes run over, configurations are too many to have a place each, counts exceed the look-up table."""
    score = make_score(name, counts(labels(2500, 3, arities), arities))
    assert_matches(family_table(score, 3), score)


@pytest.mark.parametrize("name", ["k2", "bdeu", "bds"])
def test_rows_that_occur_thousands_of_times(name: str) -> None:
    frame = labels(50, 1)
    heavy = counts(frame, weights=np.full(50, 4000.0))
    score = make_score(name, heavy)
    assert_matches(family_table(score, 3), score)


def test_bdeu_with_more_products_than_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polydag.posterior.families.layers._MANY", 3)
    score = make_score("bdeu", counts(labels(200, 5)), equivalent_sample_size=7.5)
    assert_matches(family_table(score, 3), score)


@pytest.mark.parametrize("name", ["k2", "bdeu", "bds", "bge"])
def test_candidates_of_each_node(name: str) -> None:
    rng = np.random.default_rng(0)
    stats = gaussian(40, 5, 1) if name == "bge" else counts(labels(80, 2))
    score = make_score(name, stats)
    kept = np.sort([rng.permutation(all_others(5)[i])[:3] for i in range(5)], axis=1)
    table = family_table(score, 2, candidates=kept)
    assert table.is_pruned
    assert table.scores.shape == (5, 7)
    assert_matches(table, score)


@pytest.mark.parametrize("name", ["k2", "bdeu", "bds", "bge"])
@pytest.mark.parametrize("set_variables", [("v0",), ("v0", "v1", "v2", "v3", "v4")])
def test_interventional_rows(name: str, set_variables: tuple[str, ...]) -> None:
    """With few sets of targets joint tables are shared, with many each node has its own."""
    rng = np.random.default_rng(7)
    targets = [[] if rng.random() < 0.4 else [rng.choice(set_variables)] for _ in range(90)]
    if name == "bge":
        frame = pd.DataFrame(
            rng.standard_normal((90, 5)) @ rng.standard_normal((5, 5)), columns=labels(1, 0).columns
        )
        score = make_score(name, Regimes.from_data(frame, targets, GaussianStats.from_data))
    else:
        score = make_score(name, Regimes.from_data(labels(90, 4), targets, counts))
    assert_matches(family_table(score, 2), score)


def test_a_set_variable_does_not_score_itself() -> None:
    frame = labels(60, 9)
    plain = family_table(make_score("k2", counts(frame)), 2)
    extra = frame.assign(v2=1 - frame["v2"])
    both = Regimes({frozenset(): counts(frame), frozenset({"v2"}): counts(extra)})
    table = family_table(make_score("k2", both), 2)
    np.testing.assert_allclose(table.scores[2], plain.scores[2], rtol=1e-12)
    assert not np.allclose(table.scores[1], plain.scores[1])


@pytest.mark.parametrize("name", ["k2", "bds", "bge"])
def test_threads_change_nothing(name: str) -> None:
    stats = (
        gaussian(40, 12, 1)
        if name == "bge"
        else counts(labels(300, 2, ARITIES + ARITIES + (2, 2)), ARITIES + ARITIES + (2, 2))
    )
    score = make_score(name, stats)
    one, two = family_table(score, 3), family_table(score, 3, n_jobs=2)
    np.testing.assert_array_equal(one.scores, two.scores)


def test_any_other_score_is_called_back() -> None:
    score = make_score("bic", gaussian(40, 4, 0))
    assert_matches(family_table(score, 2), score)


def test_index_and_parents_are_inverse() -> None:
    table = family_table(make_score("k2", counts(labels(30, 0))), 3, candidates=all_others(5))
    for node in range(5):
        assert [table.index(node, table.parents(node, s)) for s in range(len(table.sets))] == list(
            range(len(table.sets))
        )
    with pytest.raises(UsageError, match="not in the table"):
        table.index(0, [0, 1])
    with pytest.raises(UsageError, match="not in the table"):
        table.index(0, [1, 2, 3, 4])


def test_edge_sums() -> None:
    table = family_table(make_score("k2", counts(labels(30, 0))), 2)
    values = np.random.default_rng(0).random(table.scores.shape)
    expected = np.zeros((5, 5))
    for node in range(5):
        for s in range(values.shape[1]):
            for parent in table.parents(node, s):
                expected[parent, node] += values[node, s]
    np.testing.assert_allclose(table.edge_sums(values), expected, atol=1e-12)


def test_progress_reaches_its_end() -> None:
    steps = []
    with listening(steps.append):
        family_table(make_score("k2", counts(labels(30, 0))), 3)
    assert steps[-1].task == "family scores"
    assert steps[-1].done == steps[-1].total
    assert [step.done for step in steps] == sorted(step.done for step in steps)


@pytest.mark.parametrize(
    ("top", "candidates", "said"),
    [(5, None, "5 variables allow at most 4"), (-1, None, "not be negative"), (3, 2, "has 2 candidates")],
)
def test_in_degrees_that_cannot_be(top: int, candidates: int | None, said: str) -> None:
    score = make_score("k2", counts(labels(30, 0)))
    own = None if candidates is None else all_others(5)[:, :candidates]
    with pytest.raises(UsageError, match=said):
        family_table(score, top, candidates=own)


def test_more_than_64_levels() -> None:
    frame = pd.DataFrame({"id": np.arange(65).repeat(2), "b": np.tile([0, 1], 65)})
    with pytest.raises(DataError, match="Column id has 65 levels; at most 64"):
        family_table(make_score("k2", DiscreteCounts.from_data(frame)), 1)


def test_too_large_a_table_is_refused_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 900.0)
    score = make_score("k2", counts(labels(30, 0)))
    with pytest.raises(UsageError, match=r"80 families\) needs 1 kB.*max_parents = 2 fits"):
        family_table(score, 4, candidates=None)


def test_unknown_number_of_threads() -> None:
    with pytest.raises(UsageError, match="n_jobs must be positive"):
        family_table(make_score("k2", counts(labels(30, 0))), 1, n_jobs=0)


def no_masks(n: int) -> Masks:
    none = np.zeros((n, n), dtype=bool)
    return Masks(none, none)


def test_best_single_parents_are_kept() -> None:
    score = make_score("bdeu", counts(labels(300, 1)))
    chosen = choose_candidates(score, 2, no_masks(5))
    for node in range(5):
        alone = {v: score.local_score(node, [v]) - score.local_score(node, []) for v in range(5) if v != node}
        order = sorted(alone, key=lambda v: -alone[v])
        assert chosen.kept[node].tolist() == sorted(order[:2])
        assert chosen.best_left_out(node) == pytest.approx(alone[order[2]])


def test_required_candidates_come_first_and_forbidden_last() -> None:
    score = make_score("bdeu", counts(labels(300, 1)))
    names = score.names
    masks = Knowledge(required=[("v4", "v1")], forbidden=[("v0", "v1")]).masks(names)
    kept = choose_candidates(score, 2, masks).kept
    assert 4 in kept[1]
    assert 0 not in kept[1]
    with pytest.raises(UsageError, match="between 1 and 4"):
        choose_candidates(score, 5, masks)
    many = Knowledge(required=[("v4", "v1"), ("v3", "v1")]).masks(names)
    with pytest.raises(UsageError, match="v1 has more required parents"):
        choose_candidates(score, 1, many)


@given(seed=st.integers(0, 10**6), prior=st.sampled_from(["fair", "uniform"]), by_edge=st.booleans())
@settings(max_examples=20, deadline=None)
def test_priors_by_size_and_by_edge(seed: int, prior: str, by_edge: bool) -> None:
    rng = np.random.default_rng(seed)
    table = FamilyTable(("a", "b", "c", "d"), all_others(4), 2, rng.standard_normal((4, 7)))
    chance = rng.random((4, 4)) if by_edge else np.full((4, 4), 0.5)
    if by_edge:
        chance[0, 1], chance[2, 1] = 0.0, 1.0
    masks = Knowledge(required=[("a", "c")], forbidden=[("d", "c")]).masks(table.names)
    result = with_prior(table, prior, edge_prior=chance if by_edge else None, masks=masks)
    chance[masks.required], chance[masks.forbidden] = 1.0, 0.0
    for node in range(4):
        weight = np.empty(7)
        for s in range(7):
            parents = table.parents(node, s)
            weight[s] = 1.0 if prior == "uniform" else 1 / math.comb(3, len(parents))
            for other in set(range(4)) - {node}:
                weight[s] *= chance[other, node] if other in parents else 1 - chance[other, node]
        added = np.exp(result.scores[node] - table.scores[node])
        # A constant factor of a node does not matter.
        np.testing.assert_allclose(added / added.sum(), weight / weight.sum(), atol=1e-12)


def test_priors_that_cannot_be() -> None:
    names = ("a", "b", "c")
    table = FamilyTable(names, all_others(3), 1, np.zeros((3, 3)))
    with pytest.raises(UsageError, match="structure_prior must be one of fair, uniform"):
        with_prior(table, "sparse")
    with pytest.raises(UsageError, match="2 parents of c are required, but max_parents is 1"):
        with_prior(table, masks=Knowledge(required=[("a", "c"), ("b", "c")]).masks(names))
    with pytest.raises(DataError, match=r"a -> b must lie in \[0, 1\]; got 1.5"):
        edge_probabilities([[0, 1.5, 0], [0, 0, 0], [0, 0, 0]], names)
    with pytest.raises(DataError, match="lacks c"):
        edge_probabilities(pd.DataFrame(0.5, index=["a", "b"], columns=["a", "b", "c"]), names)
    with pytest.raises(DataError, match=r"shape \(2, 2\)"):
        edge_probabilities(np.full((2, 2), 0.5), names)
    odds = np.full((3, 3), 0.5)
    odds[0, 1] = 0.0
    with pytest.raises(DataError, match="contradict each other on a -> b"):
        with_prior(table, edge_prior=odds, masks=Knowledge(required=[("a", "b")]).masks(names))
    pruned = FamilyTable(names, np.array([[1], [0], [0]]), 1, np.zeros((3, 2)))
    with pytest.raises(UsageError, match="b is a required parent of c, but not a candidate"):
        with_prior(pruned, masks=Knowledge(required=[("b", "c")]).masks(names))


def test_edge_prior_by_name() -> None:
    frame = pd.DataFrame([[0.0, 0.2], [0.9, 0.0]], index=["b", "a"], columns=["b", "a"])
    np.testing.assert_array_equal(edge_probabilities(frame, ("a", "b")), [[0.0, 0.9], [0.2, 0.0]])
