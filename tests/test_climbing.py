"""Hill climbing within known families, compared with brute force; ties are broken despite rounding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag import GaussianStats, Knowledge, Regimes, simulate
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.optimize.hill_climbing import climb
from polydag.optimize.pruning import Pruned, best_of, first_lowest, prune
from polydag.orientation import topological_order
from polydag.regression import fit_graph

pytestmark = pytest.mark.portable

quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**31 - 1)
Mask = NDArray[np.bool_]


def drawn(seed: int, d: int = 5, n: int = 40) -> tuple[LeastSquares, np.random.Generator]:
    rng = np.random.default_rng(seed)
    truth = simulate.dag(d, expected_edges=d, random_state=rng)
    rows = simulate.linear(truth, n=n, noise_scale=(0.5, 2.0), random_state=rng)
    whole = GaussianStats.from_data(rows)
    if seed % 2:  # x1 was intervened on in some rows
        part = GaussianStats.from_data(simulate.linear(truth, n=n, random_state=rng))
        return LeastSquares.from_stats(Regimes({frozenset(): whole, frozenset({"x1"}): part})), rng
    return LeastSquares.from_stats(whole), rng


def any_dag(rng: np.random.Generator, d: int, allowed: Mask) -> Mask:
    order = rng.permutation(d)
    before = np.argsort(order)[:, None] < np.argsort(order)[None, :]
    found: Mask = before & allowed & (rng.random((d, d)) < 0.4)
    return found


def criterion(loss: LeastSquares, A: Mask) -> tuple[float, float]:
    weights, value = fit_graph(loss, A, A, None)
    return value, loss.value(weights)


def moves(A: Mask, masks: Masks) -> list[Mask]:
    """All DAGs that differ by one added, removed or reversed edge."""
    found = []
    for i, j in itertools.permutations(range(len(A)), 2):
        for here, back in ((not A[i, j], A[j, i]), (False, True)):
            B = A.copy()
            B[i, j], B[j, i] = here, back
            allowed = not (B & masks.forbidden).any() and not (masks.required & ~B).any()
            if not np.array_equal(A, B) and allowed and topological_order(B) is not None:
                found.append(B)
    return found


@quick
@given(seeds)
def test_where_climbing_ends_no_move_helps(seed: int) -> None:
    loss, rng = drawn(seed)
    masks = Knowledge(required=[("x0", "x2")], forbidden=[("x3", "x4")]).masks(loss.names)
    start = any_dag(rng, 5, ~masks.forbidden & ~masks.required.T) | masks.required
    if topological_order(start) is None:
        start = masks.required.copy()
    known = np.ones_like(loss.grams, dtype=bool)
    end = climb(loss, start, known, masks)
    assert topological_order(end) is not None
    assert end[0, 2]
    assert not end[3, 4]
    reached, squares = criterion(loss, end)
    assert reached <= criterion(loss, start)[0] + 1e-5
    for other in moves(end, masks):
        value, loss_there = criterion(loss, other)
        assert value > reached - 1e-5
        if abs(value - reached) < 1e-8:  # an equivalent graph
            assert loss_there >= squares * (1 - 1e-8)


@quick
@given(seeds)
def test_climbing_reads_no_covariance_that_is_not_known(seed: int) -> None:
    loss, rng = drawn(seed)
    d, free = loss.d, Knowledge().masks(loss.names)
    start = any_dag(rng, d, np.ones((d, d), dtype=bool))
    known = rng.random((len(loss.grams), d, d)) < 0.3
    known |= known.transpose(0, 2, 1)
    known &= rng.random(d) < 0.8  # not even the variance of a variable in no family
    known &= known.transpose(0, 2, 1)
    known |= known.any(axis=1)[:, None, :] & np.eye(d, dtype=bool)
    for j in range(d):
        family = np.append(np.flatnonzero(start[:, j]), j)
        known[loss.group[j]][np.ix_(family, family)] = True
    end = climb(loss, start, known, free)
    for j in range(d):
        family = np.append(np.flatnonzero(end[:, j]), j)
        assert known[loss.group[j]][np.ix_(family, family)].all()
    for unknown in (0.0, 0.7):
        other = LeastSquares(np.where(known, loss.grams, unknown), loss.group, loss.n, loss.names)
        assert np.array_equal(climb(other, start, known, free), end)


@quick
@given(seeds)
def test_rounding_does_not_decide_between_moves(seed: int) -> None:
    loss, rng = drawn(seed, d=8)
    start, free = np.zeros((8, 8), dtype=bool), Knowledge().masks(loss.names)
    known = np.ones_like(loss.grams, dtype=bool)
    noise = rng.uniform(-1e-12, 1e-12, loss.grams.shape)
    near = loss.grams * (1 + noise + noise.transpose(0, 2, 1))
    other = LeastSquares(near, loss.group, loss.n, loss.names)
    assert np.array_equal(climb(loss, start, known, free), climb(other, start, known, free))


def test_climbing_leaves_a_local_optimum_of_the_wrong_direction() -> None:
    truth = simulate.dag(3, n_edges=2, random_state=3)
    stats = GaussianStats.from_data(simulate.linear(truth, n=2000, random_state=3))
    loss, masks = LeastSquares.from_stats(stats), Knowledge().masks(stats.names)
    known = np.ones((1, 3, 3), dtype=bool)
    assert np.array_equal(climb(loss, truth.adjacency.T.copy(), known, masks), truth.adjacency)


def test_of_results_that_are_equal_up_to_rounding_the_first_is_taken() -> None:
    loss, _ = drawn(2)
    masks = Knowledge().masks(loss.names)
    found = prune(loss, np.triu(np.ones((5, 5)), 1), masks, 0.0)
    for tilt in (-1e-10, 1e-10):
        same = Pruned(found.weights * (1 + tilt), found.criterion * (1 + tilt), [])
        assert best_of(loss, [found, same]) == 0
        assert best_of(loss, [same, found]) == 0
    worse = prune(loss, np.zeros((5, 5)), masks, 0.0)
    assert best_of(loss, [worse, found]) == (1 if found.criterion < worse.criterion else 0)


def test_within_the_margin_least_squares_decides() -> None:
    loss, _ = drawn(2)
    full = prune(loss, np.triu(np.ones((5, 5)), 1), Knowledge().masks(loss.names), 0.0)
    fits, lower = full._replace(criterion=3.0), Pruned(np.zeros((5, 5)), 0.0, [])
    assert loss.value(fits.weights) < loss.value(lower.weights)
    assert best_of(loss, [lower, fits], margin=4.0) == 1
    assert best_of(loss, [lower, fits], margin=2.0) == 0


@pytest.mark.parametrize("tilt", [-1e-10, 0.0, 1e-10])
def test_the_first_of_the_lowest(tilt: float) -> None:
    assert first_lowest([3.0, 2.0, 2.0 * (1 + tilt), 5.0]) == 1
    assert first_lowest([-3.0, -2.0, -3.0 * (1 + tilt)]) == 0
    assert first_lowest(np.array([2.0, 1.0])) == 1
