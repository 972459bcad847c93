"""Tasks that share an order: sums over orders are the exact posterior; chains visit orders by weight."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from polydag import Knowledge
from polydag.posterior import with_prior
from polydag.posterior.joint_chains import shared_orders, shortlist
from polydag.posterior.joint_chains.shared_orders import SharedOrders
from polydag.posterior.transfer.common_network import CommonNetwork, prior_evidence
from test_task_draws import drawn, structure_prior


@pytest.mark.parametrize("ruled_out", [False, True])
@pytest.mark.parametrize("way", [3, 4])
def test_all_orders_together_are_the_exact_posterior(
    way: int, ruled_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_orders, "_LEFT_OUT", 0.0)
    rng = np.random.default_rng(0)
    tasks, shared = [drawn(4, 2, rng) for _ in range(3)], drawn(4, 2, rng) if way == 3 else None
    prior = structure_prior(tasks[0])
    allowed = prior.with_scores(np.zeros_like(prior.scores))
    if ruled_out:
        masks = Knowledge(forbidden=[("a", "b")], required=[("c", "d")]).masks(prior.names)
        allowed = with_prior(allowed, "uniform", masks=masks)
        prior = prior.with_scores(prior.scores + allowed.scores)
        tasks = [task.with_scores(task.scores + allowed.scores) for task in tasks]
    normal = [allowed] if ruled_out else ()
    log_prior = prior_evidence(prior)
    exact = CommonNetwork(prior, tasks, 0.2, log_prior, shared=shared, normal=normal).edges()
    sampler = SharedOrders(prior, tasks, np.eye(5)[way].tolist(), 0.2, pooled=shared, normal=normal)
    states = [sampler.init(np.array(order)) for order in itertools.permutations(range(4))]
    weights = np.exp([state.log_weight for state in states])
    found = [(w, *sampler.collected(s)) for w, s in zip(weights, states, strict=True) if w > 0]
    assert np.log(weights.sum()) - log_prior == pytest.approx(exact.log_evidence, abs=1e-10)
    i, j = np.triu_indices(3, 1)
    expected = [exact.edges, exact.together[i, j], exact.unique, exact.shared[None], exact.some[None]]
    edges = sum(w * e for w, e, _ in found) / weights.sum()
    np.testing.assert_allclose(edges, np.concatenate(expected), atol=1e-10)
    mechanisms = sum(w * m for w, _, m in found) / weights.sum()
    alike, equal = exact.alike.sum(axis=1), exact.equal.sum(axis=1)
    np.testing.assert_allclose(mechanisms, [alike, equal - alike], atol=1e-10)


def test_what_is_left_out_changes_probabilities_by_no_more() -> None:
    rng = np.random.default_rng(4)
    tasks = [drawn(6, 3, rng) for _ in range(2)]
    sampler = SharedOrders(structure_prior(tasks[0]), tasks, [0, 0, 0.5, 0, 0.5], 0.2)
    state = sampler.init(rng.permutation(6))
    found = {}
    with pytest.MonkeyPatch.context() as patched:
        for share in (0.0, 1e-3, 0.1):
            patched.setattr(shared_orders, "_LEFT_OUT", share)
            found[share] = sampler.collected(state)[0]
    assert 0 < np.abs(found[1e-3] - found[0.0]).max() < 1e-3
    assert 1e-3 < np.abs(found[0.1] - found[0.0]).max() < 0.1


@pytest.mark.parametrize("ruled_out", [False, True])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_chains_visit_orders_in_proportion_to_their_weights(
    power: float, ruled_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the shortlist, with which moves are made, is far too short."""
    monkeypatch.setattr(shortlist, "_BEHIND", 0.5)
    monkeypatch.setattr(shared_orders, "_TOGETHER", 2)
    rng = np.random.default_rng(1)
    tasks = [drawn(4, 2, rng, 4.0) for _ in range(2)]
    prior, normal = structure_prior(tasks[0]), []
    if ruled_out:
        masks = Knowledge(forbidden=[("a", "b")], required=[("c", "d")]).masks(prior.names)
        normal = [with_prior(prior.with_scores(np.zeros_like(prior.scores)), "uniform", masks=masks)]
        prior = prior.with_scores(prior.scores + normal[0].scores)
        tasks = [task.with_scores(task.scores + normal[0].scores) for task in tasks]
    sampler = SharedOrders(prior, tasks, [0, 0, 0.5, 0, 0.5], 0.2, normal=normal)
    assert (sampler._few[1][-1] >= 0).sum() < np.isfinite(prior.scores).sum()
    sampler = sampler.configured(moves=3, power=power)
    orders = list(itertools.permutations(range(4)))
    weights = np.exp(power * np.array([sampler.init(np.array(order)).log_weight for order in orders]))
    state, visits = sampler.init(sampler.random_position(rng)), dict.fromkeys(orders, 0)
    rejected = 0
    for _ in range(6000):
        state, info = sampler.step(rng, state)
        rejected += info.acceptance == 0
        visits[tuple(state.position.tolist())] += 1
    share = np.array([visits[order] for order in orders]) / 6000
    np.testing.assert_allclose(share, weights / weights.sum(), atol=0.03)
    assert rejected > 100


@pytest.mark.parametrize("gap", [0.0, 30.0, 709.0, 1e4, 1e5])
def test_weights_and_draws_at_any_distance_of_scores(gap: float) -> None:
    """A family of each variable and task leads all others by up to 100,000 nats."""
    rng = np.random.default_rng(2)
    tasks = [drawn(4, 2, rng) for _ in range(2)]
    tasks = [task.with_scores(task.scores + gap * (rng.random(task.scores.shape) < 0.3)) for task in tasks]
    pool = tasks[0].with_scores(tasks[0].scores + tasks[1].scores + rng.normal(size=tasks[0].scores.shape))
    prior = structure_prior(tasks[0])
    sampler = SharedOrders(prior, tasks, [0.2] * 5, 0.2, pool)
    log_prior = prior_evidence(prior)
    orders = [np.array(order) for order in itertools.permutations(range(4))]
    logs = np.array([sampler.init(order).ways[4] for order in orders])
    exact = CommonNetwork(prior, tasks, 0.2, log_prior)
    expected = exact.log_evidence + log_prior + np.log(0.2)
    assert np.logaddexp.reduce(logs) == pytest.approx(expected, rel=1e-13, abs=1e-9)
    state = sampler.init(sampler.random_position(rng))
    for _ in range(200):
        state, _ = sampler.step(rng, state)
        assert np.isfinite(state.log_weight)
    edges, mechanisms = sampler.collected(state)
    assert np.isfinite(edges).all()
    assert np.isfinite(mechanisms).all()
    drawn_networks = sampler.draw(state, 3000, rng)
    error = np.sqrt(np.clip(edges[:2] * (1 - edges[:2]), 0, None) / 3000)
    assert (np.abs(drawn_networks.mean(axis=1) - edges[:2]) <= 3.5 * error + 2e-3).all()
