"""Columns whose correlation of linked rows differs: noticed, and each family whitened by its own."""

from __future__ import annotations

import numpy as np
import pytest

from polydag import BOSS, PC, BayesianDiscovery, Graph, LinkedRows
from polydag.rows.families import family_moments, strengths_given
from polydag.scores import make_score
from polydag.simulate.sem import propagate
from polydag.stats import ByNode

GROUPS, SIZE = 40, 8
LABELS = np.repeat(np.arange(GROUPS), SIZE)
SHARES = np.array([0.05, 0.8, 0.3, 0.6, 0.1])
W = np.zeros((5, 5))
W[0, 1] = W[1, 2] = W[3, 4] = W[0, 4] = 0.8
TRUTH = Graph(W != 0, list("abcde"), W)


def table(shares: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    common, own = rng.standard_normal((GROUPS, 5))[LABELS], rng.standard_normal((len(LABELS), 5))
    return np.asarray(propagate(TRUTH, np.sqrt(shares) * common + np.sqrt(1 - shares) * own))


def test_columns_are_found_to_differ_where_they_do_and_only_there() -> None:
    def p_values(shares: np.ndarray) -> np.ndarray:
        rows = (LinkedRows(table(shares, seed), groups=LABELS, structure="common") for seed in range(40))
        return np.array([each.decorrelation_.columns_p_value for each in rows])

    assert (p_values(SHARES) < 0.01).all()
    equal = p_values(np.full(5, 0.4))
    assert (equal < 0.05).sum() <= 7  # of 40; more have a probability of 0.001 at the nominal level
    assert (equal > 0.5).sum() >= 8


def test_strengths_given_the_graph_are_those_of_the_errors() -> None:
    found = LinkedRows(table(SHARES, 1), groups=LABELS).decorrelation_
    np.testing.assert_allclose(strengths_given(found, TRUTH.adjacency), SHARES, atol=0.15)


def test_a_family_is_scored_by_generalised_least_squares_with_its_own_correlation() -> None:
    rows = LinkedRows(table(SHARES, 1), groups=LABELS)
    strengths = strengths_given(rows.decorrelation_, TRUTH.adjacency)
    score = make_score("bic", family_moments(rows.decorrelation_, strengths), penalty=1.0)
    strength = strengths[2]
    same = np.equal.outer(LABELS, LABELS)
    root = np.linalg.cholesky(np.where(np.eye(len(LABELS)) > 0, 1.0, strength * same))
    X = rows.table.values
    design = np.linalg.solve(root, np.column_stack([np.ones(len(X)), X[:, 1]]))
    y = np.linalg.solve(root, X[:, 2])
    both = []
    for Z in (design, design[:, :1]):
        left = y - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
        both.append(left @ left)
    gain = 0.5 * len(X) * np.log(both[1] / both[0]) - 0.5 * np.log(len(X))
    assert score.local_score(2, [1]) - score.local_score(2, []) == pytest.approx(gain, rel=1e-6)


def test_learners_and_notes() -> None:
    rows = LinkedRows(table(SHARES, 1), groups=LABELS)
    model = BOSS().fit(rows)
    found = model.graph_.adjacency
    np.testing.assert_array_equal(found | found.T, TRUTH.adjacency | TRUTH.adjacency.T)
    assert isinstance(rows.family_moments(), ByNode)
    assert any("Columns differ in the correlation of linked rows" in note for note in model.notes_)
    assert BayesianDiscovery(criterion="bge", max_parents=3).fit(rows).posterior_ is not None
    assert PC().fit(rows).graph_.n_nodes == 5
    alike = LinkedRows(table(np.full(5, 0.4), 1), groups=LABELS)
    assert not isinstance(alike.family_moments(), ByNode)
    named = LinkedRows(table(SHARES, 1), groups=LABELS, structure="common")
    assert not isinstance(named.family_moments(), ByNode)  # one strength was asked for
