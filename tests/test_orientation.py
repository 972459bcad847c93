"""Graph algorithms, compared with enumeration, textbook definitions and networkx."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from oracles import Mask, as_networkx
from polydag import orientation
from polydag.errors import DataError

quick = settings(max_examples=60, deadline=None)


@quick
@given(oracles.masks())
def test_topological_order_is_the_smallest_one_and_none_exactly_for_cycles(A: Mask) -> None:
    graph = as_networkx(A)
    order = orientation.topological_order(A)
    if nx.is_directed_acyclic_graph(graph):
        assert order == list(nx.lexicographical_topological_sort(graph))
    else:
        assert order is None


@quick
@given(oracles.masks())
def test_reachable_is_the_transitive_closure(A: Mask) -> None:
    closure = nx.to_numpy_array(
        nx.transitive_closure(as_networkx(A), reflexive=False), nodelist=range(len(A))
    )
    np.testing.assert_array_equal(orientation.reachable(A), closure > 0)


@quick
@given(oracles.dags())
def test_v_structures_by_definition(A: Mask) -> None:
    expected = np.zeros_like(A)
    for i, k, j in oracles.markov_key(A)[1]:
        expected[[i, j], k] = True
    np.testing.assert_array_equal(orientation.v_structures(A), expected)


@pytest.mark.parametrize(("n", "dags", "classes"), [(1, 1, 1), (2, 3, 2), (3, 25, 11), (4, 543, 185)])
def test_cpdag_is_the_union_of_the_equivalence_class(n: int, dags: int, classes: int) -> None:
    assert len(oracles.all_dags(n)) == dags  # the published numbers of DAGs and classes
    assert len(oracles.equivalence_classes(n)) == classes
    for members in oracles.equivalence_classes(n):
        expected = oracles.union(members)
        for dag in members:
            np.testing.assert_array_equal(orientation.cpdag(dag), expected)


def test_meek_finds_all_that_knowledge_implies() -> None:
    """Meek's completeness theorem: given any added orientation, the rules find all that the DAGs share.

    Rule 4 is needed only with such knowledge, and four nodes are enough for it.
    """
    checked = 0
    for members in oracles.equivalence_classes(4):
        undirected = oracles.union(members) & oracles.union(members).T
        loose = [(int(i), int(j)) for i, j in np.argwhere(undirected)]
        for known in [(a,) for a in loose] + list(combinations(loose, 2)):
            agreeing = [dag for dag in members if all(dag[edge] for edge in known)]
            if not agreeing:
                continue
            start = oracles.union(members)
            for i, j in known:
                start[j, i] = False
            np.testing.assert_array_equal(orientation.meek(start), oracles.union(agreeing))
            checked += 1
    assert checked > 1000


@quick
@given(oracles.dags())
def test_meek_leaves_a_cpdag_alone_and_is_idempotent(A: Mask) -> None:
    cpdag = orientation.cpdag(A)
    np.testing.assert_array_equal(orientation.meek(cpdag), cpdag)


@quick
@given(oracles.masks())
def test_meek_is_idempotent_and_keeps_skeleton_and_directed_edges(A: Mask) -> None:
    before = A.copy()
    once = orientation.meek(A)
    np.testing.assert_array_equal(orientation.meek(once), once)
    np.testing.assert_array_equal(once | once.T, A | A.T)
    assert not (A & ~A.T & ~once).any()
    np.testing.assert_array_equal(A, before)


@quick
@given(oracles.dags(max_nodes=9))
def test_extension_of_a_cpdag_is_a_member_of_its_class(A: Mask) -> None:
    cpdag = orientation.cpdag(A)
    extension = orientation.consistent_extension(cpdag)
    assert extension is not None
    assert orientation.topological_order(extension) is not None
    assert oracles.markov_key(extension) == oracles.markov_key(A)
    np.testing.assert_array_equal(orientation.cpdag(extension), cpdag)


def test_extension_exists_exactly_where_enumeration_finds_one() -> None:
    """All partially directed graphs of three nodes, and a sample of those of four."""
    rng = np.random.default_rng(0)
    cases = [np.array([int(bit) for bit in f"{code:06b}"], dtype=bool) for code in range(64)]
    cases += [rng.random(12) < 0.6 for _ in range(300)]
    missing = 0
    for bits in cases:
        n = 3 if len(bits) == 6 else 4
        A = np.zeros((n, n), dtype=bool)
        A[~np.eye(n, dtype=bool)] = bits
        vees = orientation.v_structures(A)
        possible = [
            dag
            for dag in oracles.all_dags(n)
            if np.array_equal(dag | dag.T, A | A.T)
            and not (A & ~A.T & ~dag).any()
            and np.array_equal(orientation.v_structures(dag), vees)
        ]
        found = orientation.consistent_extension(A)
        missing += found is None
        assert (found is not None) == bool(possible)
        assert found is None or any(np.array_equal(found, dag) for dag in possible)
    assert 50 < missing < len(cases) - 50


def test_an_undirected_square_and_a_directed_cycle_have_no_extension() -> None:
    ring = np.roll(np.eye(4, dtype=bool), 1, axis=1)
    assert orientation.consistent_extension(ring | ring.T) is None
    assert orientation.consistent_extension(ring) is None


@quick
@given(oracles.dags(max_nodes=5), st.data())
def test_d_separation_by_definition(A: Mask, data: st.DataObject) -> None:
    for a, b in combinations(range(len(A)), 2):
        others = [node for node in range(len(A)) if node not in (a, b)]
        given_ = data.draw(st.sets(st.sampled_from(others))) if others else set()
        expected = oracles.d_separated(A, a, b, given_)
        assert orientation.d_separated(A, [a], [b], given_) is expected
        assert orientation.d_separated(A, [b], [a], given_) is expected


@quick
@given(oracles.dags(max_nodes=9), st.data())
def test_d_separation_of_sets_as_networkx(A: Mask, data: st.DataObject) -> None:
    roles = data.draw(st.lists(st.sampled_from("abg-"), min_size=len(A), max_size=len(A)))
    a, b, given_ = ({i for i, role in enumerate(roles) if role == own} for own in "abg")
    expected = nx.is_d_separator(as_networkx(A), a, b, given_) if a and b else True
    assert orientation.d_separated(A, a, b, given_) is expected


@quick
@given(oracles.masks(), st.integers(0, 2**32 - 1))
def test_pruning_leaves_no_cycle_and_only_takes_what_it_must(A: Mask, seed: int) -> None:
    rng = np.random.default_rng(seed)
    strength = rng.permutation(A.size).reshape(A.shape).astype(float)
    order = rng.permutation(len(A))
    keep = A & (order[:, None] < order[None, :])
    removed = orientation.weakest_cycle_edges(A, strength, keep)
    left = A.copy()
    for edge in removed:
        left[edge] = False
    assert nx.is_directed_acyclic_graph(as_networkx(left))
    assert not (keep & ~left).any()
    assert [strength[edge] for edge in removed] == sorted(strength[edge] for edge in removed)
    for i, j in removed:  # each is the weakest removable edge of a cycle of stronger or kept edges
        stronger = left & (keep | (strength > strength[i, j]))
        assert nx.has_path(as_networkx(stronger), j, i)


def test_pruning_refuses_a_kept_cycle() -> None:
    ring = np.roll(np.eye(3, dtype=bool), 1, axis=1)
    with pytest.raises(DataError, match="edges to keep form a cycle"):
        orientation.weakest_cycle_edges(ring, np.ones((3, 3)), ring)
