"""Tasks that share an order: sums over orders are the exact posterior; chains visit orders by weight."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from polydag import Knowledge
from polydag.posterior import with_prior
from polydag.posterior.joint_chains.shared_orders import SharedOrders
from polydag.posterior.transfer.common_network import CommonNetwork, prior_evidence
from test_task_draws import drawn, structure_prior


@pytest.mark.parametrize("ruled_out", [False, True])
@pytest.mark.parametrize("way", [3, 4])
def test_all_orders_together_are_the_exact_posterior(way: int, ruled_out: bool) -> None:
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


def test_chains_visit_orders_in_proportion_to_their_weights() -> None:
    rng = np.random.default_rng(1)
    tasks = [drawn(4, 2, rng) for _ in range(2)]
    sampler = SharedOrders(structure_prior(tasks[0]), tasks, [0, 0, 0.5, 0, 0.5], 0.2)
    orders = list(itertools.permutations(range(4)))
    weights = np.exp([sampler.init(np.array(order)).log_weight for order in orders])
    state, visits = sampler.init(np.arange(4)), dict.fromkeys(orders, 0)
    for _ in range(8000):
        state, _ = sampler.step(rng, state)
        visits[tuple(state.position.tolist())] += 1
    share = np.array([visits[order] for order in orders]) / 8000
    np.testing.assert_allclose(share, weights / weights.sum(), atol=0.03)
