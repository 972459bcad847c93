"""Joint chains of tasks against the exact joint posterior."""

from __future__ import annotations

import numpy as np
import pytest

from polydag import Chains, MultitaskDiscovery
from polydag.embedded import asia
from polydag.posterior.joint_chains.related_chains import RelatedChains
from polydag.posterior.joint_chains.shared_orders import SharedOrders, traced, unpacked
from test_task_draws import drawn, structure_prior


def test_what_is_recorded_is_unpacked() -> None:
    rng = np.random.default_rng(0)
    tasks = [drawn(4, 2, rng) for _ in range(3)]
    sampler = SharedOrders(structure_prior(tasks[0]), tasks, [0, 0, 0.5, 0, 0.5], 0.2)
    state = sampler.init(np.array([2, 0, 3, 1]))
    record = sampler.record(state)
    assert record.edges.shape == (traced(4, 3),)
    joint, ways = unpacked(record.edges, 4, 3)
    edges, mechanisms = sampler.collected(state)
    np.testing.assert_array_equal(joint.edges, np.clip(edges[:3], 0, 1))
    np.testing.assert_array_equal(joint.together[2, 1], np.clip(edges[5], 0, 1))
    np.testing.assert_array_equal(joint.some, np.clip(edges[-1], 0, 1))
    np.testing.assert_allclose(joint.alike[:, 0], mechanisms[0])
    np.testing.assert_allclose((joint.equal - joint.alike)[:, 0], mechanisms[1], atol=1e-12)
    assert sum(ways.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("pooled", [False, True])
def test_networks_given_an_order_are_drawn_as_probabilities_say(pooled: bool) -> None:
    rng = np.random.default_rng(3)
    tasks = [drawn(4, 2, rng) for _ in range(2)]
    pool = drawn(4, 2, rng) if pooled else None
    ways = [0.2] * 5 if pooled else [0, 0, 0.5, 0, 0.5]
    sampler = SharedOrders(structure_prior(tasks[0]), tasks, ways, 0.2, pool)
    state = sampler.init(np.array([2, 0, 3, 1]))
    expected, _ = sampler.collected(state)
    dags = sampler.draw(state, 4000, rng)
    found = [dags.mean(axis=1)[0], dags.mean(axis=1)[1], dags.all(axis=0).mean(axis=0)]
    np.testing.assert_allclose(found, expected[:3], atol=0.04)


def test_chains_are_near_the_exact_joint_posterior() -> None:
    net = asia()
    tables = {"a": net.sample(400, random_state=0), "b": net.related(0.3, 3).sample(200, random_state=1)}
    exact = MultitaskDiscovery(max_parents=2).fit(tables)
    chains = MultitaskDiscovery(max_parents=2, method="mcmc", random_state=0).fit(tables)
    assert chains.converged_
    together = chains.relatedness_.loc["a", "b"]
    assert together == pytest.approx(exact.relatedness_.loc["a", "b"], abs=0.1)
    for own, other in zip(chains.posteriors_, exact.posteriors_, strict=True):
        np.testing.assert_allclose(own.probabilities, other.probabilities, atol=0.12)
    columns = ["first", "second", "only in a", "only in b"]
    said, true = (model.connections_[columns].sort_values(columns[:2]) for model in (chains, exact))
    np.testing.assert_allclose(said.iloc[:, 2:], true.iloc[:, 2:], atol=0.12)
    assert set(chains.connections_["basis"]) == {"joint"}
    same = [model.mechanisms_.set_index("variable").sort_index() for model in (chains, exact)]
    np.testing.assert_allclose(same[0], same[1], atol=0.12)
    drawn_together = chains.sample_dags(300, random_state=0)
    np.testing.assert_allclose(drawn_together[0].edges, chains.posteriors_[0].edges, atol=0.15)
    assert chains.posteriors_[1].parents("dysp")["probability"].sum() == pytest.approx(1.0)
    assert chains.history_["task"].iloc[0] == "a + b"


def test_unrelated_tasks_are_left_alone() -> None:
    rng = np.random.default_rng(1)
    tasks = [drawn(5, 2, rng, 20.0) for _ in range(2)]
    learner = RelatedChains(
        structure_prior(tasks[0]), tasks, None, Chains(n_chains=2, n_steps=400), random_state=0
    )
    found = learner.learn()
    assert found.relatedness[0, 1] < 0.2
    assert set(learner.alone) == {0, 1}
