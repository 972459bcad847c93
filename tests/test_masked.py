"""The masked network: gradients by finite differences, limits in which it is the plain one, use."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from polydag import Knowledge, metrics, simulate
from polydag.acyclicity import ACYCLICITY, Acyclicity, LogDet
from polydag.learners.notears.nonlinear import NotearsMLP
from polydag.losses.masked import MaskedMLP, MaskedShape, mask_noise
from polydag.losses.mlp import MLP, Array
from polydag.optimize.network_steps import augmented, local_step, server_step
from polydag.optimize.nonlinear import Penalties

quick = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def problem(seed: int) -> tuple[MaskedMLP, Array]:
    rng = np.random.default_rng(seed)
    shape = MaskedShape(3, 2, temperature=0.8)
    return MaskedMLP(rng.normal(size=(10, 3)), shape, mask_noise(3, 3, rng)), rng.normal(size=shape.size)


@quick
@given(seeds)
def test_the_gradient_is_the_finite_difference(seed: int) -> None:
    loss, theta = problem(seed)
    slope = approx_fprime(theta, lambda t: loss.value_and_grad(t)[0], 1e-7)
    assert loss.value_and_grad(theta)[1] == pytest.approx(slope, abs=1e-5)


@quick
@given(seeds)
def test_an_open_mask_is_the_plain_network_and_a_shut_one_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(10, 3))
    shape = MaskedShape(3, 2)
    theta = rng.normal(size=shape.size)
    loss = MaskedMLP(rows, shape, mask_noise(3, 4, rng))
    plain = MLP(rows, 2)
    shape.logits(theta)[:] = 60
    assert loss.value_and_grad(theta)[0] == pytest.approx(plain.value_and_grad(theta[: plain.shape.size])[0])
    shape.logits(theta)[:] = -60
    bare = theta[: plain.shape.size].copy()
    plain.shape.split(bare).inner[:-1] = 0
    assert loss.value_and_grad(theta)[0] == pytest.approx(plain.value_and_grad(bare)[0])


@quick
@given(seeds)
def test_each_row_has_the_noise_of_its_part(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, shape = rng.normal(size=(5, 3)), MaskedShape(3, 2)
    noise, theta = mask_noise(3, 2, rng), rng.normal(size=shape.size)
    whole = MaskedMLP(rows, shape, noise).value_and_grad(theta)[0]
    parts = [MaskedMLP(rows[k::2], shape, noise[[k]], n_total=5).value_and_grad(theta)[0] for k in range(2)]
    assert whole == pytest.approx(sum(parts))


@quick
@given(seeds)
def test_penalties_of_the_mask_have_their_gradients(seed: int) -> None:
    loss, theta = problem(seed)
    shape = loss.shape
    rates = np.random.default_rng(seed).random((3, 3))
    slope = approx_fprime(theta, lambda t: shape.sparsity(t, rates)[0], 1e-7)
    assert shape.sparsity(theta, rates)[1] == pytest.approx(slope, abs=1e-5)
    for kind in ACYCLICITY.values():
        measure = kind()

        def cycles(t: Array, measure: Acyclicity = measure) -> float:
            return measure.value_and_grad(shape.influence(t))[0]

        value, gradient = measure.value_and_grad(shape.influence(theta))
        assert np.isfinite(value)
        expected = approx_fprime(theta, cycles, 1e-7)
        assert shape.pull_back(theta, gradient) == pytest.approx(expected, abs=1e-5)


def test_the_log_determinant_is_defined_for_every_mask() -> None:
    for d in (2, 20):
        shape = MaskedShape(d, 1)
        theta, _ = shape.hold(np.full(shape.size, 20.0), np.eye(d, dtype=bool))
        assert np.isfinite(LogDet().value_and_grad(shape.influence(theta))[0])


def test_what_is_held_has_no_chance_and_the_doubtful_little() -> None:
    shape = MaskedShape(3, 2)
    forbidden = np.eye(3, dtype=bool)
    start = shape.start(np.random.default_rng(0))
    theta, held = shape.hold(start, forbidden)
    assert (shape.probabilities(theta)[forbidden] < 1e-15).all()
    assert shape.probabilities(theta)[~forbidden] == pytest.approx(0.5)
    assert held.sum() == 3 * (2 + 1)
    assert shape.probabilities(shape.make_unlikely(start, forbidden))[forbidden] == pytest.approx(
        0.05, abs=0.01
    )


@quick
@given(seeds)
def test_the_steps_of_admm_are_stationary(seed: int) -> None:
    loss, W = problem(seed)
    shape = loss.shape
    W, held = shape.hold(0.5 * W, np.eye(3, dtype=bool))
    beta = 0.1 * np.random.default_rng(seed).normal(size=shape.size)
    end = local_step(loss, W, W - beta / 0.7, 0.7, held, tolerance=1e-14, max_iter=2000)
    slope = loss.value_and_grad(end.theta)[1] + beta + 0.7 * (end.theta - W)
    assert slope[~held] == pytest.approx(0, abs=1e-4)
    penalties, price = Penalties(np.full((3, 3), 0.2), 0.1), augmented(0.5, 2.0)
    top = server_step(
        shape, end.theta, 1.5, penalties, LogDet(), price, W, held, tolerance=1e-14, max_iter=2000
    )
    h, cycles = LogDet().value_and_grad(shape.influence(top.theta))
    gradient = 0.1 * np.where(shape.ridged, top.theta, 0) + 1.5 * (top.theta - end.theta)
    gradient += shape.sparsity(top.theta, penalties.effects)[1]
    gradient += shape.pull_back(top.theta, price(h)[1] * cycles)
    assert gradient[~held] == pytest.approx(0, abs=1e-4)


def test_the_estimator_gives_nearly_binary_probabilities_and_most_of_the_truth() -> None:
    dag = simulate.dag(5, expected_edges=5, random_state=4)
    model = NotearsMLP(mask="gumbel", hidden=6, random_state=0)
    model.fit(simulate.mlp(dag, n=300, random_state=4))
    assert metrics.shd(true=dag, estimate=model.graph_) <= 2
    assert model.graph_.is_dag
    P = model.raw_weights_
    assert P.min() >= 0
    assert P.max() <= 1
    assert np.mean((P > 0.2) & (P < 0.8)) < 0.2


def test_tiers_are_followed() -> None:
    dag = simulate.dag(4, expected_edges=4, random_state=0)
    table = simulate.mlp(dag, n=100, random_state=0)
    backwards = Knowledge(tiers=[[name] for name in reversed(dag.topological_order())])
    graph = NotearsMLP(mask="gumbel", hidden=3, knowledge=backwards, random_state=0).fit(table).graph_
    assert not (graph.adjacency & dag.adjacency).any()
