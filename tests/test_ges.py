"""GES on its own: a search by definition, its queue, phases, causal-learn, bad input."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from asked import labels
from drawn import class_score, random_knowledge, sample, seeds
from oracles import all_dags, markov_key, union
from polydag import orientation, simulate
from polydag.errors import UsageError
from polydag.knowledge import Knowledge, Masks
from polydag.scores import Score, make_score, total_score
from polydag.search.ges import _queue_kernels as queue
from polydag.search.ges.search import GESResult, ges
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

pytestmark = pytest.mark.portable

Mask = NDArray[np.bool_]
Array = NDArray[np.float64]


def check_result(result: GESResult, score: Score) -> None:
    """What must hold of every result: gains are positive, and the score is that of the graph."""
    assert all(step.gain > 0 for step in result.trace)
    assert result.score == pytest.approx(class_score(score, result.adjacency), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize("name", ["bic", "bge"])
@given(seed=seeds, d=st.integers(2, 25), n=st.integers(10, 200), screen=st.sampled_from([None, False, True]))
@settings(max_examples=15, deadline=None)
def test_every_step_gains(name: str, seed: int, d: int, n: int, screen: bool | None) -> None:
    X = sample(seed, d, n, edges=min(2 * d, d * (d - 1) // 2))
    score = make_score(name, GaussianStats.from_data(X).standardized())
    check_result(ges(score, screen=screen), score)


@given(seed=seeds, d=st.integers(4, 7), n=st.sampled_from([10, 20, 40]))
@settings(max_examples=40, deadline=None)
def test_the_last_bits_do_not_decide_between_operators_that_are_alike(seed: int, d: int, n: int) -> None:
    """The rows are their own mirror image, so that operators come in pairs of equal gain."""
    rng = np.random.default_rng(seed)
    half = rng.choice([-1.0, 1.0], size=(n, d))
    assume(np.linalg.matrix_rank(np.c_[half, np.ones(n)]) == d + 1)
    stats = GaussianStats.from_data(np.r_[half, half[:, ::-1]])
    bits = rng.uniform(-1, 1, (d, d))
    other = replace(stats, scatter=stats.scatter * (1 + 2.0**-51 * (bits + bits.T) / 2))
    assert [step[:5] for step in ges(stats, escape=False).trace] == [
        step[:5] for step in ges(other, escape=False).trace
    ]


# --- a slow search by definition: classes are sets of DAGs, operators are single edges of any member ---

Key = tuple[object, ...]


@cache
def classes(d: int, targets: tuple[frozenset[int], ...]) -> dict[Key, list[Mask]]:
    """All DAGs by interventional equivalence: Markov equivalent, and alike where a target parts two nodes."""
    found: dict[Key, list[Mask]] = defaultdict(list)
    for dag in all_dags(d):
        found[key_of(dag, targets)].append(dag)
    return found


def key_of(dag: Mask, targets: tuple[frozenset[int], ...]) -> Key:
    d = len(dag)
    parted = [(i, j) for i in range(d) for j in range(d) if any((i in t) != (j in t) for t in targets)]
    return (*markov_key(dag), tuple(pair for pair in parted if dag[pair]))


def single_edges(dag: Mask, phase: str) -> Iterator[Mask]:
    """The DAGs that one added, removed or reversed edge makes of this one."""
    d = len(dag)
    for i, j in product(range(d), repeat=2):
        changed = dag.copy()
        if phase == "forward" and i != j and not dag[i, j] and not dag[j, i]:
            changed[i, j] = True
        elif phase == "backward" and dag[i, j]:
            changed[i, j] = False
        elif phase == "turning" and dag[i, j]:
            changed[i, j], changed[j, i] = False, True
        else:
            continue
        if orientation.topological_order(changed) is not None:
            yield changed


def brute_force(
    score: Score,
    phases: Sequence[str],
    masks: Masks | None = None,
    max_degree: int | None = None,
    max_parents: int | None = None,
) -> tuple[list[float], Mask]:
    """The scores along a greedy search over classes, and the essential graph in the end."""
    d = len(score.names)
    targets: tuple[frozenset[int], ...] = getattr(score, "targets", ())
    members = classes(d, targets)

    def admitted(dag: Mask) -> bool:
        return masks is None or (not (dag & masks.forbidden).any() and bool((dag | ~masks.required).all()))

    start = np.zeros((d, d), dtype=bool) if masks is None else masks.required
    here = key_of(start, targets)
    scores = [total_score(score, members[here][0])]
    improved = True
    while improved:
        improved = False
        for phase in phases:
            while True:
                around = {}
                for dag in members[here]:
                    for changed in single_edges(dag, phase):
                        key = key_of(changed, targets)
                        degree = (changed | changed.T).sum(axis=0).max()
                        if phase == "forward" and max_degree is not None and degree > max_degree:
                            continue
                        if max_parents is not None and changed.sum(axis=0).max() > max_parents:
                            continue
                        if key != here and key not in around and any(admitted(m) for m in members[key]):
                            around[key] = total_score(score, changed)
                best = max(around, key=lambda key: around[key], default=None)
                if best is None or around[best] <= scores[-1] + 1e-9:
                    break
                here, improved = best, True
                scores.append(around[best])
        if len(phases) == 1:
            break
    return scores, union([dag for dag in members[here] if admitted(dag)])


def compare(
    score: Score,
    masks: Masks | None = None,
    phases: Sequence[str] = ("forward", "backward", "turning"),
    **bounds: int,
) -> GESResult:
    scores, graph = brute_force(score, phases, masks, **bounds)
    result = ges(score, knowledge=masks, phases=phases, screen=False, escape=False, **bounds)
    np.testing.assert_allclose([step.score for step in result.trace], scores[1:], rtol=1e-9, atol=1e-7)
    np.testing.assert_array_equal(result.adjacency, graph)
    return result


@given(seed=seeds, n=st.integers(8, 60))
@settings(max_examples=30, deadline=None)
def test_the_steps_are_those_of_a_search_by_definition(seed: int, n: int) -> None:
    compare(make_score("bic", GaussianStats.from_data(sample(seed, 4, n, edges=5)), penalty=0.5))


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_turning_alone_is_that_by_definition(seed: int) -> None:
    X = sample(seed, 4, 30, edges=5)
    dag = simulate.dag(4, n_edges=4, random_state=seed + 1)
    masks = Knowledge(required=[(edge.source, edge.target) for edge in dag.edges()][:1]).masks(dag.names)
    score = make_score("bic", GaussianStats.from_data(X), penalty=0.2)
    compare(score, masks, phases=("turning",))
    compare(score, phases=("forward", "turning"))


@pytest.mark.slow
def test_the_steps_are_those_of_a_search_by_definition_on_five_nodes() -> None:
    turned = 0
    for seed in range(60):
        X = sample(seed, 5, 25, edges=8)
        result = compare(make_score("bic", GaussianStats.from_data(X), penalty=0.3))
        turned += sum(step.phase == "turning" for step in result.trace)
    assert turned > 0


@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_interventions_as_by_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = {}
    for rows, targets in enumerate((frozenset[str](), frozenset({"x0"}), frozenset({"x1", "x2"}))):
        X = sample(seed, 4, 30, edges=5, rows=rows)
        for name in targets:
            X[:, int(name[1])] = rng.normal(size=30)
        parts[targets] = GaussianStats.from_data(X)
    compare(make_score("bic", Regimes(parts), penalty=0.4))


@given(seed=seeds)
@settings(max_examples=25, deadline=None)
def test_knowledge_as_by_definition(seed: int) -> None:
    masks = random_knowledge(seed, 4)
    score = make_score("bic", GaussianStats.from_data(sample(seed, 4, 40, edges=5)), penalty=0.4)
    compare(score, masks)


@given(seed=seeds, max_degree=st.integers(0, 2))
@settings(max_examples=10, deadline=None)
def test_maximum_degree_as_by_definition(seed: int, max_degree: int) -> None:
    score = make_score("bic", GaussianStats.from_data(sample(seed, 4, 40, edges=5)), penalty=0.4)
    result = compare(score, max_degree=max_degree)
    assert (result.adjacency | result.adjacency.T).sum(axis=0).max() <= max_degree


@given(seed=seeds, max_parents=st.integers(0, 2), informed=st.booleans())
@settings(max_examples=20, deadline=None)
def test_maximum_number_of_parents_as_by_definition(seed: int, max_parents: int, informed: bool) -> None:
    score = make_score("bic", GaussianStats.from_data(sample(seed, 4, 40, edges=6)), penalty=0.3)
    masks = random_knowledge(seed, 4) if informed else None
    if masks is not None and masks.required.sum(axis=0).max() > max_parents:
        with pytest.raises(UsageError, match=f"required parents, but max_parents is {max_parents}"):
            ges(score, knowledge=masks, max_parents=max_parents)
        return
    compare(score, masks, max_parents=max_parents)


def test_all_dags_of_a_class_have_the_same_largest_in_degree() -> None:
    for targets in ((), (frozenset[int](), frozenset({0})), (frozenset({1}), frozenset({1, 2}))):
        for members in classes(4, targets).values():
            assert len({int(dag.sum(axis=0).max()) for dag in members}) == 1


def test_the_queue_grows_with_a_dense_graph() -> None:
    rng = np.random.default_rng(0)
    stats = GaussianStats.from_data(
        rng.normal(size=(60, 4)) @ rng.normal(size=(4, 30)) + rng.normal(size=(60, 30))
    )
    score = make_score("bic", stats, penalty=0.3)
    check_result(ges(score, screen=False), score)


def test_causal_learn_finds_nothing_better() -> None:
    """The same graphs as causal-learn's, or ones that score higher (it does not repeat its phases)."""
    peer = pytest.importorskip("causallearn.search.ScoreBased.GES").ges
    same = 0
    for seed in range(10):
        X = sample(seed, 6, 400, edges=7, rows=seed)
        marks = peer(X, score_func="local_score_BIC_from_cov", parameters={"lambda_value": 0.5})["G"].graph
        theirs = marks == -1  # a tail at i: i -> j, or both where undirected
        score = make_score("bic", GaussianStats.from_data(X))
        ours = ges(score, phases=("forward", "backward"))
        if np.array_equal(ours.adjacency, theirs):
            same += 1
        else:
            assert ours.score > class_score(score, theirs)
    assert same >= 8


def test_counts_are_scored_by_bdeu() -> None:
    X = np.random.default_rng(0).integers(0, 3, size=(200, 3))
    X[:, 2] = (X[:, 0] + X[:, 1]) % 3
    counts = DiscreteCounts.from_data(X)
    assert ges(counts).score == ges(make_score("bdeu", counts)).score


@pytest.mark.parametrize("seed", [79632, 51006, 6608, 62650, 84829])
def test_a_score_that_is_not_the_same_for_equivalent_dags_leads_to_an_end(seed: int) -> None:
    counts = labels(seed, 5, 200)
    graph = ges(make_score("k2", counts), max_parents=3, screen=False).adjacency
    extension = orientation.consistent_extension(graph)
    assert extension is not None
    np.testing.assert_array_equal(orientation.cpdag(extension), graph)


def test_bad_input() -> None:
    stats = GaussianStats.from_data(sample(0, 4, 20, edges=3))
    with pytest.raises(UsageError, match="no phase 'sideways'"):
        ges(stats, phases=("sideways",))
    with pytest.raises(UsageError, match="max_degree must be a whole number at least 0"):
        ges(stats, max_degree=-1)
    with pytest.raises(UsageError, match="max_parents must be a whole number at least 0"):
        ges(stats, max_parents=-1)


@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_blocked_operators_come_back_in_time(seed: int) -> None:
    """Trying every operator again at each step must take the same steps as trying only what was freed."""
    score = make_score("bic", GaussianStats.from_data(sample(seed, 30, 60, edges=60)), penalty=0.5)
    patient = ges(score, screen=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "retry_skipped", queue.retry_all)
        eager = ges(score, screen=False)
    assert patient.trace == eager.trace
