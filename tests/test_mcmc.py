"""Chains of orders against exact distributions, their lengths, and what is made of them."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from polydag.computing.checkpoint import saving
from polydag.computing.progress import Step, listening
from polydag.errors import ConvergenceWarning, DataError, UsageError
from polydag.knowledge import Knowledge
from polydag.learners.posterior.bayesian_discovery import BayesianDiscovery
from polydag.posterior import exact_posterior, family_table, mcmc_posterior, with_prior
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc import driver, order_posterior
from polydag.posterior.mcmc.bucket_orders import BucketOrders
from polydag.posterior.mcmc.chains import Chains
from polydag.posterior.mcmc.diagnostics import diagnose
from polydag.posterior.mcmc.driver import Round, run_block, run_chains
from polydag.posterior.mcmc.tempering import TemperedSampler
from polydag.posterior.orders.sampler import OrderSampler
from polydag.posterior.orders.search import FLAT, UNREPLICATED, find_starts
from polydag.posterior.probabilities import Posterior
from polydag.scores import make_score
from polydag.stats import DiscreteCounts
from tables import random_table, rugged

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@cache
def fifteen() -> tuple[FamilyTable, Posterior]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((300, 15))
    for j in range(1, 15):
        z[:, j] += 0.8 * z[:, j - 1] * (j % 3 > 0) + 0.5 * z[:, rng.integers(0, j)]
    counts = DiscreteCounts.from_data(pd.DataFrame((z > 0).astype(int), columns=list("abcdefghijklmno")))
    table = with_prior(family_table(make_score("bdeu", counts), 3))
    return table, exact_posterior(table)


def test_what_is_known_of_the_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_starts(OrderSampler.of(fifteen()[0]), 2, random_state=0).mode_search == FLAT
    monkeypatch.setattr("polydag.posterior.orders.search.best_network", lambda space, rng: None)
    assert find_starts(OrderSampler.of(rugged()), 1, random_state=0).mode_search == UNREPLICATED
    chain = mcmc_posterior(rugged(), chains=Chains(n_chains=1), random_state=0)
    assert chain.mode_search == UNREPLICATED
    assert not chain.mixed
    assert "only one search" in replace(chain, history=chain.history.assign(mixed=True)).disagreement()


def agreeing(found: Any, exact: Posterior) -> float:
    """The share of edges within three standard errors, or 0.005."""
    frame = found.diagnostics
    where = [[exact.names.index(name) for name in frame[end]] for end in ("source", "target")]
    off = np.abs(found.probabilities - exact.probabilities)[tuple(where)]
    return float((off <= np.maximum(3 * frame["mcse"].to_numpy(), 0.005)).mean())


def test_fifteen_variables_against_the_exact_posterior() -> None:
    table, exact = fifteen()
    found = mcmc_posterior(table, random_state=1)
    assert found.mixed
    assert agreeing(found, exact) >= 0.99
    assert np.abs(found.probabilities - exact.probabilities).max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 5])
def test_fifteen_variables_over_many_seeds(size: int) -> None:
    table, exact = fifteen()
    fits = [mcmc_posterior(table, random_state=seed, chains=Chains(bucket_size=size)) for seed in range(8)]
    assert all(found.mixed for found in fits)
    # Standard errors from some hundred effective draws are themselves uncertain; the mean over seeds is not.
    assert min(agreeing(found, exact) for found in fits) >= 0.95
    each = np.array([found.probabilities for found in fits])
    off, error = np.abs(each.mean(axis=0) - exact.probabilities), each.std(axis=0, ddof=1) / np.sqrt(8)
    assert (off <= np.maximum(3.5 * error, 0.005)).mean() >= 0.99
    assert off.max() < 0.02


def test_tempered_chains_have_the_same_posterior() -> None:
    table, exact = fifteen()
    parallel = run_with(OrderSampler.of(table, 8), Round(1, 1000, 10, 5))
    off = np.abs(parallel["edges"].mean(axis=(0, 1)) - exact.probabilities)
    error = diagnose(parallel["edges"]).mcse
    assert (off <= np.maximum(3.5 * error, 0.01)).mean() >= 0.99


def run_with(sampler: OrderSampler, plan: Round) -> dict[str, Any]:
    seeds = np.random.SeedSequence(3).spawn(3)
    parts = []
    for seed in seeds:
        start = sampler.random_position(np.random.default_rng(seed))
        parts.append(run_block(sampler, [start], plan, seed))
    assert all(part["positions"].shape == (plan.temperatures, sampler.n) for part in parts)
    return {key: np.stack([part[key] for part in parts]) for key in parts[0]}


def test_one_bucket_is_exact() -> None:
    table = random_table(6, 3, 2)
    exact, found = exact_posterior(table), mcmc_posterior(table, random_state=0)
    np.testing.assert_allclose(found.probabilities, exact.probabilities, atol=1e-12)
    assert found.mixed
    assert exact.family_probabilities is not None
    for node in range(6):
        np.testing.assert_allclose(found.families_of(node), exact.family_probabilities[node], atol=1e-12)
    assert found.feature(lambda node, parents: node != "a" or not parents) == pytest.approx(
        exact.feature(lambda node, parents: node != "a" or not parents), abs=1e-12
    )
    pd.testing.assert_frame_equal(found.v_structures(0.2), exact.v_structures(0.2), atol=1e-10)
    assert found.log_evidence is None


def test_draws_and_what_is_made_of_them() -> None:
    table, exact = fifteen()
    found = mcmc_posterior(table, chains=Chains(n_chains=3, n_steps=400, bucket_size=6), random_state=0)
    draws = found.draws
    assert draws.buckets.shape == (3, 20, 15)
    assert (draws.n_chains, draws.n_draws) == (3, 20)
    for chain, draw in itertools.product(range(3), (0, 19)):
        state = draws.buckets[chain, draw]
        assert np.bincount(state).tolist() == [6, 6, 3]
        space = BucketOrders.of(table, 6)
        order = np.argsort(state, kind="stable")
        assert space.log_weight(order) == pytest.approx(draws.log_weights[chain, draw], abs=1e-9)
    sums = found.parents("c").set_index("parents")["probability"]
    assert sums.sum() == pytest.approx(1.0)
    with_b = sum(p for parents, p in sums.items() if "b" in parents)
    assert with_b == pytest.approx(found.edges.loc["b", "c"], abs=1e-9)
    graph, score = found.best_graph()
    assert graph.is_dag
    best = exact.best_graph()[1]  # type: ignore[attr-defined]
    assert score <= best + 1e-9
    own = [table.scores[j, table.index(j, np.flatnonzero(graph.adjacency[:, j]))] for j in range(15)]
    assert sum(own) == pytest.approx(score)
    assert "Posterior (mcmc)" in repr(found)
    feature = found.feature(lambda node, parents: node != "c" or "b" in parents)
    assert feature == pytest.approx(found.edges.loc["b", "c"], abs=1e-9)


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.draws.buckets, other.draws.buckets)
    np.testing.assert_array_equal(one.draws.log_weights, other.draws.log_weights)
    np.testing.assert_array_equal(one.probabilities, other.probabilities)


def test_processes_change_nothing() -> None:
    table, _ = fifteen()
    options: dict[str, Any] = {"chains": Chains(n_steps=200, bucket_size=5, n_chains=2), "random_state": 3}
    one = mcmc_posterior(table, **options)
    same(one, mcmc_posterior(table, n_jobs=2, **options))
    with joblib.parallel_config(backend="threading"):
        same(one, mcmc_posterior(table, n_jobs=2, **options))


def test_resumed_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after some blocks of the second round, and gone on with."""
    table, _ = fifteen()
    options: dict[str, Any] = {"chains": Chains(bucket_size=5, n_chains=2), "random_state": 3}
    monkeypatch.setattr(driver, "ROUNDS", 2)
    monkeypatch.setattr(order_posterior, "_FIRST_EACH", 20)
    monkeypatch.setattr(order_posterior, "_FIRST", 20)
    whole = mcmc_posterior(table, **options)
    block, left = driver.run_block, iter(range(2 * 14))

    def until_stopped(*arguments: Any) -> Any:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return block(*arguments)

    monkeypatch.setattr(driver, "run_block", until_stopped)
    with saving(tmp_path, {"seed": "3"}), pytest.raises(KeyboardInterrupt):
        mcmc_posterior(table, **options)
    searched = len(list(tmp_path.glob("*.piece"))) - 14
    assert 1 <= searched <= 16
    counted: list[int] = []

    def counting(*arguments: Any) -> Any:
        counted.append(1)
        return block(*arguments)

    monkeypatch.setattr(driver, "run_block", counting)
    with saving(tmp_path, {"seed": "3"}):
        resumed = mcmc_posterior(table, **options)
    same(whole, resumed)
    assert len(counted) == 2 * (30 - 14)
    with saving(tmp_path, {"seed": "3"}):
        same(whole, mcmc_posterior(table, **options))
    assert len(counted) == 2 * (30 - 14)


def test_the_length_is_as_asked() -> None:
    table, _ = fifteen()
    found = mcmc_posterior(table, chains=Chains(n_steps=300, burn_in=100, bucket_size=5), random_state=0)
    last = found.history.iloc[-1]
    assert (last["burn_in"], last["steps"], last["draws"]) == (100, 200, 20)
    assert found.n_steps == 300


def divided_table() -> FamilyTable:
    """Five variables want two of the other five before them, and the other way round."""
    table = random_table(10, 2, 0)
    scores = np.zeros(table.scores.shape)
    for node in range(10):
        scores[node, table.index(node, (5, 6) if node < 5 else (0, 1))] = 10.0
    return table.with_scores(scores)


def test_chains_that_disagree_are_tempered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "BEFORE_TEMPERING", 1)
    monkeypatch.setattr(order_posterior, "_FIRST_EACH", 50)
    monkeypatch.setattr(order_posterior, "_FIRST", 50)
    monkeypatch.setattr(OrderSampler, "redraw_buckets", lambda self, rng, state: state)  # which would mix
    table = divided_table()
    found = mcmc_posterior(table, chains=Chains(bucket_size=5), random_state=1)  # starts in both modes
    first, *others = found.history["temperatures"].tolist()
    assert first == 1
    assert set(others) == {driver.TEMPERATURES}
    assert found.history["r_hat"].iloc[0] > 1.05
    assert found.mixed
    assert agreeing(found, exact_posterior(table)) >= 0.99


def test_not_mixed_is_said_by_the_estimator() -> None:
    table, _ = fifteen()
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (100, 15)), columns=list(table.names))
    model = BayesianDiscovery(
        method="mcmc", max_parents=2, chains=Chains(n_steps=20, n_chains=2, bucket_size=4), random_state=0
    )
    with pytest.warns(ConvergenceWarning, match=r"not mixed after 20 steps: the largest R-hat is .*n_steps"):
        model.fit(frame)
    assert not model.converged_
    assert model.n_iter_ == 20
    assert model.log_evidence_ is None
    assert not model.history_["mixed"].iloc[-1]


def test_the_estimator_by_chains() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.integers(0, 2, (200, 12)), columns=list("abcdefghijkl"))
    for one, other in itertools.pairwise("abcdef"):
        frame[other] = np.where(rng.random(200) < 0.85, frame[one], frame[other])
    known = Knowledge(required=[("l", "k")], forbidden=[("a", "b")], tiers=[["c"], ["d"]])
    settings_ = {"criterion": "bdeu", "max_parents": 2, "knowledge": known, "random_state": 0}
    exact = BayesianDiscovery(method="exact", **settings_).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = BayesianDiscovery(method="mcmc", chains=Chains(bucket_size=7), **settings_).fit(frame)
    assert model.converged_
    edges = model.posterior_.edges
    assert edges.loc["l", "k"] == pytest.approx(1.0)
    assert edges.loc["a", "b"] == edges.loc["d", "c"] == 0.0
    assert agreeing(model.posterior_, exact.posterior_) >= 0.99
    assert model.graph_.is_dag
    assert list(model.posterior_.diagnostics.columns) == ["source", "target", "r_hat", "ess", "mcse"]
    few = BayesianDiscovery(
        criterion="bdeu", max_parents=2, memory=1e-6, random_state=0, chains=Chains(n_steps=400)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert few.fit(frame).posterior_.method == "mcmc"
    assert BayesianDiscovery(criterion="bdeu", max_parents=2).fit(frame).posterior_.method == "exact"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_chains": 0}, "n_chains must be a whole number at least 1; got 0"),
        ({"n_steps": 5}, "n_steps must be a whole number at least 20 or None; got 5"),
        ({"burn_in": -1}, "burn_in must be a whole number at least 0 or None; got -1"),
        (
            {"n_steps": 100, "burn_in": 95},
            "burn_in must leave at least 10 of n_steps = 100.*; got 95",
        ),
        ({"bucket_size": 0}, "bucket_size must be a whole number at least 1 and at most 16; got 0"),
        ({"bucket_size": 17}, "bucket_size must be a whole number at least 1 and at most 16; got 17"),
    ],
)
def test_settings_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Chains(**options)


def test_knowledge_that_no_order_satisfies() -> None:
    table = random_table(4, 1, 0)
    chance = np.full((4, 4), 0.5)
    chance[0, 1] = chance[1, 0] = 1.0
    with pytest.raises(DataError, match="No order of the variables"):
        mcmc_posterior(with_prior(table, edge_prior=chance), chains=Chains(bucket_size=2))
    nothing = table.with_scores(np.where(np.arange(4)[:, None] == 1, -np.inf, table.scores))
    with pytest.raises(DataError, match="No parent set of b is allowed"):
        mcmc_posterior(nothing)


def test_progress_is_reported() -> None:
    steps: list[Step] = []
    with listening(steps.append):
        mcmc_posterior(random_table(8, 2, 0), chains=Chains(n_steps=200, bucket_size=4), random_state=0)
    assert {step.task for step in steps} == {"chains, round 1", "chains, round 2"}
    assert "R-hat" in steps[-1].note


def test_diagnostics_of_known_traces() -> None:
    rng = np.random.default_rng(0)
    edges = np.zeros((4, 200, 3, 3))
    edges[..., 0, 1] = rng.random((4, 200))
    edges[..., 1, 2] = 0.3
    edges[:2, :, 2, 0] = 1.0  # two chains say yes, two say no
    found = diagnose(edges)
    assert found.r_hat[0, 1] == pytest.approx(1.0, abs=0.02)
    assert found.mcse[0, 1] == pytest.approx(math.sqrt(1 / 12 / 800), rel=0.2)
    assert np.isnan(found.r_hat[1, 2])
    assert found.mcse[1, 2] == pytest.approx(0.0, abs=1e-12)
    assert found.r_hat[2, 0] > 1.5
    assert not found.mixed
    edges[..., 2, 0] = 0.0
    assert diagnose(edges).mixed
    short = diagnose(edges[:, :3])
    assert not short.mixed
    frame = found.frame(("a", "b", "c"))
    assert len(frame) == 6
    assert diagnose(np.zeros((2, 10, 3, 3))).mixed


def test_a_step_changes_nothing_it_was_given() -> None:
    table = random_table(7, 3, 0)
    chain = TemperedSampler.of(OrderSampler.of(table, 3), 3, 20)
    start = OrderSampler.of(table, 3).random_position(np.random.default_rng(0))
    state = chain.init([start])
    before = [[part.copy() for part in replica] for replica in state.replicas]
    first, info = chain.step(np.random.default_rng(1), state)
    again, _ = chain.step(np.random.default_rng(1), state)
    assert (state.turn, first.turn) == (0, 1)
    assert 0 < info.acceptance < 1
    assert any((new.order != start).any() for new in first.replicas)
    for old, own in zip(before, state.replicas, strict=True):
        for one, other in zip(old, own, strict=True):
            np.testing.assert_array_equal(one, other)
    for one, other in zip(first.replicas, again.replicas, strict=True):
        np.testing.assert_array_equal(one.order, other.order)
        np.testing.assert_allclose(one.log_sums, chain.samplers[0].init(one.order).log_sums, rtol=1e-12)


def test_chains_are_a_group_of_settings() -> None:
    model = BayesianDiscovery(chains=Chains(n_chains=2)).set_params(chains__n_steps=400, max_parents=2)
    assert clone(model).chains == Chains(n_chains=2, n_steps=400)
    assert model.get_params()["chains__n_steps"] == 400
    with pytest.raises(UsageError, match=r"chains must be .*Chains; got 4"):
        BayesianDiscovery(chains=4).fit(pd.DataFrame({"a": list("xyxy"), "b": list("xxyy")}))  # type: ignore[arg-type]
    with pytest.raises(
        UsageError, match="bucket_size must be a whole number at least 1 and at most 16; got 17"
    ):
        BucketOrders.of(random_table(4, 2, 0), 17)


def test_runs_of_any_sampler_need_a_length() -> None:
    sampler = OrderSampler.of(random_table(5, 2, 0), 2)
    run = run_chains(sampler, Chains(n_chains=2, n_steps=100), random_state=0)
    assert run.states.shape == (2, 5, 5)
    assert run.edges.shape == (2, 5, 5, 5)
    assert len(run.history) == 1
