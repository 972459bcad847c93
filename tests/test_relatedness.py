"""Tasks around a common network against enumeration, and what is learned of how related they are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag import BayesianDiscovery, Knowledge, MultitaskDiscovery, Tasks
from polydag.embedded import asia
from polydag.errors import DataWarning
from polydag.posterior import exact_posterior, with_prior
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable, all_others
from polydag.posterior.transfer import common_network
from polydag.posterior.transfer.common_network import (
    CommonNetwork,
    Deviations,
    added,
    prior_evidence,
)
from polydag.posterior.transfer.joint_edges import JointEdges
from polydag.posterior.transfer.related_families import _predicted, related_families
from polydag.posterior.transfer.relatedness import (
    DROPPED,
    ONE,
    SAME_OWN,
    SEPARATE,
    Relatedness,
    common_factors,
)

Array = NDArray[np.float64]


def drawn(n: int, top: int, rng: np.random.Generator, spread: float = 2.0) -> FamilyTable:
    scores = spread * rng.standard_normal((n, n_subsets(n - 1, top)))
    return FamilyTable(tuple("abcdef"[:n]), all_others(n), top, scores)


def structure_prior(table: FamilyTable) -> FamilyTable:
    return with_prior(table.with_scores(np.zeros_like(table.scores)), "fair")


def enumerated(
    prior: FamilyTable,
    tasks: Sequence[FamilyTable],
    dropped: float,
    shared: FamilyTable | None,
    weights: Sequence[FamilyTable],
) -> dict[str, Array | float]:
    """All orders, sets of the common network and sets of every task, one by one."""
    n, K, a = prior.n, len(tasks), added(prior, dropped)
    sets = [[frozenset(prior.parents(i, s)) for s in range(len(prior.sets))] for i in range(n)]
    found = {
        "edges": np.zeros((K, n, n)),
        "unique": np.zeros((K, n, n)),
        "together": np.zeros((K, K, n, n)),
        "shared": np.zeros((n, n)),
        "some": np.zeros((n, n)),
        "alike": np.zeros((n, len(prior.sets))),
        "equal": np.zeros((n, len(prior.sets))),
        "families": np.zeros((K, n, len(prior.sets))),
    }
    evidence = prior_mass = 0.0
    for order in itertools.permutations(range(n)):
        nodes = []
        for place, i in enumerate(order):
            U = frozenset(order[:place])
            inside = [s for s in range(len(sets[i])) if sets[i][s] <= U]
            terms: list[tuple[float, tuple[int, ...], bool]] = []
            for r in inside:
                weight = math.exp(prior.scores[i, r])
                deviation = np.array([
                    math.prod(
                        ((1 - dropped) if v in sets[i][s] else dropped)
                        if v in sets[i][r]
                        else (a if v in sets[i][s] else 1 - a)
                        for v in U
                    )
                    for s in inside
                ])  # fmt: skip
                chance = deviation * np.exp([[own.scores[i, s] for s in inside] for own in weights])
                chance /= chance.sum(axis=1)[:, None]
                half = 1.0 if shared is None else 0.5
                for chosen in itertools.product(range(len(inside)), repeat=K):
                    likely = math.prod(
                        chance[k, q] * math.exp(tasks[k].scores[i, inside[q]]) for k, q in enumerate(chosen)
                    )
                    which = tuple(inside[q] for q in chosen)
                    terms.append((half * weight * likely, which, False))
                if shared is not None:
                    terms.append((half * weight * math.exp(shared.scores[i, r]), (r,) * K, True))
            mass = sum(math.exp(prior.scores[i, r]) for r in inside)
            nodes.append((i, terms, sum(term[0] for term in terms), mass))
        weight = math.prod(node[2] for node in nodes)
        evidence += weight
        prior_mass += math.prod(node[3] for node in nodes)
        for i, terms, whole, _ in nodes:
            for value, which, alike in terms:
                p = value / whole * weight
                if len(set(which)) == 1:
                    found["equal"][i, which[0]] += p
                    found["alike"][i, which[0]] += p * alike
                found["families"][np.arange(K), i, list(which)] += p
                for v in range(n):
                    has = np.array([v in sets[i][s] for s in which])
                    found["edges"][:, v, i] += p * has
                    found["unique"][:, v, i] += p * (has & (has.sum() == 1))
                    found["together"][:, :, v, i] += p * np.outer(has, has)
                    found["shared"][v, i] += p * has.all()
                    found["some"][v, i] += p * has.any()
    return {**{name: value / evidence for name, value in found.items()},
            "log_evidence": math.log(evidence / prior_mass)}  # fmt: skip


def require_equal(found: JointEdges, expected: dict[str, Any], atol: float = 1e-9) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name), value, atol=atol, err_msg=name)


@given(
    seed=st.integers(0, 10_000),
    K=st.integers(2, 3),
    top=st.integers(1, 2),
    dropped=st.floats(0.05, 0.6),
    mechanisms=st.booleans(),
    ruled_out=st.booleans(),
    of_each=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_common_network_by_enumeration(
    seed: int, K: int, top: int, dropped: float, mechanisms: bool, ruled_out: bool, of_each: bool
) -> None:
    """Also where tasks have priors of their own."""
    rng = np.random.default_rng(seed)
    tasks = [drawn(3, top, rng) for _ in range(K)]
    prior = structure_prior(tasks[0])
    allowed = prior.with_scores(np.zeros_like(prior.scores))
    if ruled_out:
        masks = Knowledge(forbidden=[("a", "b")]).masks(prior.names)
        allowed = with_prior(allowed, "uniform", masks=masks)
        prior = prior.with_scores(prior.scores + allowed.scores)
    weights, normal = [allowed] * K, [allowed] if ruled_out else []
    if of_each:
        weights = normal = [drawn(3, top, rng) for _ in range(K)]
        weights[0].scores[0, 1] = -np.inf
    tasks = [task.with_scores(task.scores + w.scores) for task, w in zip(tasks, weights, strict=True)]
    shared = drawn(3, top, rng) if mechanisms else None
    found = CommonNetwork(prior, tasks, dropped, prior_evidence(prior), shared=shared, normal=normal)
    # The scores of the enumeration are without the weights.
    plain = [
        task.with_scores(task.scores - np.where(np.isfinite(w.scores), w.scores, 0.0))
        for task, w in zip(tasks, weights, strict=True)
    ]
    expected = enumerated(prior, plain, dropped, shared, weights)
    assert found.log_evidence == pytest.approx(expected["log_evidence"], abs=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common_network, "_LEFT_OUT", 1e-30)
        require_equal(found.edges(), expected)


def test_common_network_with_scores_of_any_range() -> None:
    """Tasks that contradict each other by more than a number can hold."""
    rng = np.random.default_rng(0)
    tasks = [drawn(4, 2, rng, spread=1500.0) for _ in range(2)]
    prior = structure_prior(tasks[0])
    found = CommonNetwork(prior, tasks, 0.2, prior_evidence(prior)).edges()
    assert np.isfinite(found.log_evidence)
    for values in (found.edges, found.unique, found.shared, found.some):
        assert ((values >= 0) & (values <= 1)).all()
    np.testing.assert_allclose(found.some, found.unique.sum(axis=0) + found.shared, atol=1e-6)


def test_what_is_left_out_is_negligible(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    tasks = [drawn(6, 3, rng, spread=6.0) for _ in range(2)]
    prior = structure_prior(tasks[0])
    found = CommonNetwork(prior, tasks, 0.2, prior_evidence(prior)).edges()
    monkeypatch.setattr(common_network, "_LEFT_OUT", 1e-30)
    whole = CommonNetwork(prior, tasks, 0.2, prior_evidence(prior)).edges()
    np.testing.assert_allclose(found.edges, whole.edges, atol=1e-4)


@given(seed=st.integers(0, 10_000), K=st.integers(2, 4))
@settings(max_examples=10, deadline=None)
def test_learned_probabilities_are_coherent(seed: int, K: int) -> None:
    rng = np.random.default_rng(seed)
    tasks = [drawn(4, 2, rng, spread=3.0) for _ in range(K)]
    prior = structure_prior(tasks[0])
    found = Relatedness(prior, tasks).learn()
    assert sum(found.ways.values()) == pytest.approx(1.0)
    np.testing.assert_allclose(found.relatedness, found.relatedness.T)
    assert found.ways[SEPARATE] == pytest.approx(1 - found.relatedness[np.triu_indices(K, 1)].mean())
    for joint in (found.edges, found.connections):
        assert (joint.unique <= joint.edges + 1e-12).all()
        assert (joint.shared <= joint.edges.min(axis=0) + 1e-12).all()
        assert (joint.some >= joint.edges.max(axis=0) - 1e-12).all()
        assert (joint.unique.sum(axis=0) + joint.shared <= joint.some + 1e-12).all()
    np.testing.assert_allclose(
        found.connections.edges, np.triu(found.edges.edges + found.edges.edges.swapaxes(1, 2), 1), atol=1e-9
    )
    order = rng.permutation(K)
    again = Relatedness(prior, [tasks[k] for k in order]).learn()
    np.testing.assert_allclose(again.edges.edges, found.edges.edges[order], atol=1e-9)


def test_two_tasks_by_bayes_factors() -> None:
    """With two tasks the mixture is that of its parts, each computed on its own."""
    rng = np.random.default_rng(5)
    tasks = [drawn(4, 2, rng, spread=1.5) for _ in range(2)]
    prior = structure_prior(tasks[0])
    log_prior = prior_evidence(prior)
    alone = [exact_posterior(prior.with_scores(prior.scores + task.scores)) for task in tasks]
    same = exact_posterior(prior.with_scores(prior.scores + tasks[0].scores + tasks[1].scores))
    related = CommonNetwork(prior, tasks, 0.2, log_prior)
    evidence = np.array([
        sum(own.log_evidence for own in alone) - 2 * log_prior,
        same.log_evidence - log_prior + math.log(0.5),
        related.log_evidence + math.log(0.5),
    ])  # fmt: skip
    odds = np.mean([1 / (1 + c) for c in (0.25, 1.0, 4.0)])
    weight = np.exp(evidence - evidence.max()) * np.array([1 - odds, odds, odds])
    weight /= weight.sum()
    parts = [np.array([own.probabilities for own in alone]), same.probabilities, related.edges().edges]
    expected = sum(w * part for w, part in zip(weight, parts, strict=True))
    found = Relatedness(prior, tasks).learn()
    np.testing.assert_allclose(found.edges.edges, expected, atol=1e-9)
    assert found.ways[SEPARATE] == pytest.approx(weight[0])


def test_priors_of_each_task() -> None:
    """A network of several tasks has the product of their weights; without rows there is no evidence."""
    rng = np.random.default_rng(7)
    tasks, none = [drawn(4, 2, rng) for _ in range(2)], structure_prior(drawn(4, 2, rng))
    known = [
        Knowledge(forbidden=[("a", "b")]),
        Knowledge(required=[("c", "d")], forbidden=[("b", "a"), ("d", "b")]),
    ]
    weights = [with_prior(drawn(4, 2, rng, 1.0), "uniform", masks=own.masks(none.names)) for own in known]
    both = none.scores + weights[0].scores + weights[1].scores
    pool = drawn(4, 2, rng)

    def pooled(members: Sequence[int]) -> FamilyTable:
        return pool.with_scores(pool.scores + sum(weights[k].scores for k in members))

    own = [task.with_scores(task.scores + w.scores) for task, w in zip(tasks, weights, strict=True)]
    learner = Relatedness(none, own, pooled, normal=weights)
    blank = prior_evidence(none.with_scores(both))
    for way, score in ((ONE, pool.scores), (SAME_OWN, tasks[0].scores + tasks[1].scores)):
        expected = exact_posterior(none.with_scores(both + score))
        assert expected.log_evidence is not None
        assert learner._evidence((0, 1), way) == pytest.approx(expected.log_evidence - blank, abs=1e-9)
    alone = exact_posterior(none.with_scores(none.scores + own[1].scores))
    mass = prior_evidence(none.with_scores(none.scores + weights[1].scores))
    assert alone.log_evidence is not None
    assert learner._joint((1,), "alone").log_evidence == pytest.approx(alone.log_evidence - mass, abs=1e-9)
    found = learner.learn().edges.edges
    assert found[0, 0, 1] == found[1, 1, 0] == found[1, 3, 1] == 0.0
    assert found[1, 2, 3] == pytest.approx(1.0)
    assert found[0, 2, 3] < 1.0
    assert min(found[0, 3, 1], found[1, 0, 1]) > 0.0
    unseen = Relatedness(none, weights, lambda members: none.with_scores(
        np.sum([weights[k].scores for k in members], axis=0)), normal=weights
    )  # fmt: skip
    assert unseen.learn().ways[SEPARATE] == pytest.approx(
        1 - np.mean([1 / (1 + c) for c in (0.25, 1.0, 4.0)])
    )


def unlike(k: int) -> Any:
    """Asia with its columns exchanged: another network of the same variables."""
    rows = asia().sample(300, random_state=k)
    names = rows.columns[np.random.default_rng(k).permutation(8)]
    return rows.set_axis(list(names), axis=1)[list(rows.columns)]


def test_unrelated_tasks_are_left_alone_and_related_ones_help_each_other() -> None:
    like = {f"like {k}": asia().sample(100, random_state=k) for k in range(3)}
    other = {"other": unlike(1)}
    model = MultitaskDiscovery(max_parents=2).fit(Tasks({**like, **other}))
    R = model.relatedness_
    assert R.loc["like 0", "like 1"] > 0.99
    assert R.loc["like 0", "other"] < 0.01
    alone = BayesianDiscovery(max_parents=2).fit(other["other"]).posterior_.probabilities
    np.testing.assert_allclose(model.posteriors_[3].probabilities, alone, atol=0.02)
    truth = asia().graph.adjacency
    before = MultitaskDiscovery(transfer="none", max_parents=2).fit(like)
    wrong = [np.abs(m.posteriors_[0].probabilities - truth).sum() for m in (before, model)]
    assert wrong[1] < wrong[0] - 0.5


@pytest.mark.parametrize("K", [2, 4])
def test_related_families_are_priors(K: int) -> None:
    """What a task's families gain from other tasks is a prior: it adds up to one for each variable."""
    rng = np.random.default_rng(1)
    tasks = [drawn(5, 2, rng, spread=5.0) for _ in range(K)]
    prior = structure_prior(tasks[0])
    tables, relatedness = related_families(prior, tasks)
    for table, task in zip(tables, tasks, strict=True):
        added_up = np.exp(table.scores - task.scores).sum(axis=1)
        np.testing.assert_allclose(added_up, 1.0, atol=1e-9)
    _, same = related_families(prior, [tasks[0]] * K)
    where = np.triu_indices(K, 1)
    assert same[where].min() > 0.8
    assert relatedness[where].mean() < same[where].mean()


def test_what_the_common_network_predicts() -> None:
    rng = np.random.default_rng(2)
    table = drawn(4, 2, rng)
    prior = structure_prior(table)
    weights = drawn(4, 2, rng).scores
    moves = Deviations.of(prior, DROPPED)
    x = math.exp(moves.log_x)
    sets = [frozenset(row[row >= 0].tolist()) for row in prior.sets]
    joint = np.array([
        [x ** len(q) * moves.A ** len(r & q) * moves.B ** len(r - q) for q in sets] for r in sets
    ])  # fmt: skip
    joint /= joint.sum(axis=1, keepdims=True)
    expected = np.exp(weights) @ joint
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(_predicted(prior, weights)), expected, rtol=1e-9)
    own = np.exp(table.scores) @ joint.T
    np.testing.assert_allclose(common_factors(prior, table), np.log(own), atol=1e-9)


def test_what_chains_have_no_memory_for_is_compared_family_by_family() -> None:
    rows = {f"t{k}": asia().sample(150, random_state=k) for k in range(2)}
    with pytest.warns(DataWarning, match="mistakes a lack of rows for a difference"):
        model = MultitaskDiscovery(max_parents=2, memory=1e-6, random_state=0).fit(rows)
    assert set(model.connections_["basis"]) == {"product of marginals"}
    assert model.relatedness_.loc["t0", "t1"] > 0.9
