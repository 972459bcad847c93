"""Ordered partitions: weights, moves and edges against enumeration, long and wide tables."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles import all_dags
from polydag.computing.checkpoint import saving
from polydag.errors import DataError
from polydag.posterior.dags import _partitions_kernels as _kernels
from polydag.posterior.dags.partition_posterior import partition_posterior
from polydag.posterior.dags.partitions import PartitionSampler
from polydag.posterior.families import sorted_families
from polydag.posterior.families.sorted_families import sort_families
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable, all_others
from polydag.posterior.mcmc.chains import Chains
from tables import random_table
from test_dag_samples import log_scores, uniform_over_dags

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@cache
def all_levels(n: int) -> tuple[tuple[int, ...], ...]:
    """The longest path into each node, for all DAGs."""
    dags = np.array(all_dags(n))
    level = np.zeros((len(dags), n), dtype=np.int64)
    for _ in range(n):
        level = np.where(dags, level[:, :, None] + 1, 0).max(axis=1)
    return tuple(tuple(row) for row in level.tolist())


@cache
def by_partition(name: str) -> dict[tuple[int, ...], tuple[list[Mask], Array]]:
    """All DAGs with their log scores, by partition."""
    table = TABLES[name]
    found = defaultdict(list)
    for k, level in enumerate(all_levels(table.n)):
        found[level].append(k)
    dags, logs = all_dags(table.n), log_scores(table)
    return {level: ([dags[k] for k in members], logs[members]) for level, members in found.items()}


@cache
def log_weights(name: str) -> dict[tuple[int, ...], float]:
    return {level: float(np.logaddexp.reduce(logs)) for level, (_, logs) in by_partition(name).items()}


def ruled_out(table: FamilyTable) -> FamilyTable:
    """With some families at -inf."""
    scores = table.scores.copy()
    scores[np.random.default_rng(9).random(scores.shape) < 0.2] = -np.inf
    scores[:, 0] = table.scores[:, 0]
    return table.with_scores(scores)


TABLES = {
    "all": random_table(4, 3, 0),
    "few parents": random_table(5, 2, 1),
    "ruled out": ruled_out(random_table(4, 3, 2)),
    "wide": random_table(4, 3, 3, 2000.0),
}


@pytest.mark.parametrize("name", TABLES)
def test_weights_by_enumeration(name: str) -> None:
    partitions = PartitionSampler.of(TABLES[name])
    expected = log_weights(name)
    found = [partitions.init(np.array(level)).log_weight for level in expected]
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", TABLES)
def test_edges_by_enumeration(name: str) -> None:
    table = TABLES[name]
    partitions = PartitionSampler.of(table)
    tolerance = 1e-12 + 16 * np.spacing(np.abs(table.scores[table.scores > -np.inf]).max() * table.n)
    for level, (dags, logs) in list(by_partition(name).items())[::5]:
        if logs.max() == -np.inf:
            continue
        chance = np.exp(logs - logs.max())
        expected = np.tensordot(chance / chance.sum(), dags, 1)
        np.testing.assert_allclose(
            partitions.edges(partitions.init(np.array(level))), expected, rtol=0, atol=tolerance
        )


def moved(level: tuple[int, ...], node: int, place: int) -> tuple[int, ...] | None:
    """The partition with one variable at another place; None where there are not as many places."""
    others = sorted({part for v, part in enumerate(level) if v != node})
    rest = [others.index(part) if v != node else -1 for v, part in enumerate(level)]
    if place < len(others):
        rest[node] = place
        return tuple(rest)
    gap = place - len(others)
    if gap > len(others):
        return None
    result = [part + (part >= gap) for part in rest]
    result[node] = gap
    return tuple(result)


@pytest.mark.parametrize("name", TABLES)
def test_all_places_of_one_variable(name: str) -> None:
    table = TABLES[name]
    partitions = PartitionSampler.of(table)
    weights = log_weights(name)
    for level in list(weights)[::3]:
        for node in range(table.n):
            found = partitions.place_weights(np.array(level), node)
            targets = [moved(level, node, place) for place in range(len(found))]
            assert moved(level, node, len(found)) is None
            expected = [weights[target] for target in targets if target is not None]
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["all", "ruled out"])
@pytest.mark.parametrize(
    "moves", [(1, 0, 0), (0, 4, 0), (0, 2, 2), (1, 2, 3)], ids=["places", "proposals", "reversals", "all"]
)
def test_each_kind_of_move_keeps_the_posterior(name: str, moves: tuple[int, int, int]) -> None:
    """Visits to every partition against its probability, with errors from 40 batches of one long chain."""
    table = TABLES[name]
    partitions = PartitionSampler.of(table)
    rng = np.random.default_rng(4)
    state = partitions.init(partitions.random_position(rng))
    visits = np.empty((20_000, table.n), dtype=np.int64)
    for k in range(len(visits)):
        _kernels.sweep(partitions.families, partitions.candidate_index, *state, *moves, 1.0, rng)
        visits[k] = state.level
    total = np.logaddexp.reduce(list(log_weights(name).values()))
    for level, log_weight in log_weights(name).items():
        p = math.exp(log_weight - total)
        here = (visits == level).all(axis=1)
        error = here.reshape(40, -1).mean(axis=1).std(ddof=1) / math.sqrt(40)
        assert abs(here.mean() - p) < 5 * error + 2e-3


def test_the_chain_gives_the_posterior_uniform_over_dags() -> None:
    table = random_table(5, 4, 6, 2.0)
    expected = np.tensordot(uniform_over_dags(table), all_dags(5), 1)
    partitions = PartitionSampler.of(table).configured(moves=10)
    rng = np.random.default_rng(1)
    state = partitions.init(partitions.random_position(rng))
    edges, drawn = np.zeros((2, 5, 5))
    for _ in range(20_000):
        state, _ = partitions.step(rng, state)
        edges += partitions.edges(state)
        drawn += partitions.draw_dag(rng, state.level)
    assert np.abs(edges / 20_000 - expected).max() < 0.015
    assert np.abs(drawn / 20_000 - expected).max() < 0.015


@pytest.mark.parametrize("moves", [(1, 0, 0), (0, 4, 0), (0, 2, 2)], ids=["places", "proposals", "reversals"])
def test_a_flattened_target(moves: tuple[int, int, int]) -> None:
    """Visits go by the weights to a power."""
    partitions = PartitionSampler.of(TABLES["all"])
    rng = np.random.default_rng(4)
    state = partitions.init(partitions.random_position(rng))
    visits = np.empty((20_000, 4), dtype=np.int64)
    for k in range(len(visits)):
        _kernels.sweep(partitions.families, partitions.candidate_index, *state, *moves, 0.5, rng)
        visits[k] = state.level
    flat = {level: 0.5 * log_weight for level, log_weight in log_weights("all").items()}
    total = np.logaddexp.reduce(list(flat.values()))
    for level, log_weight in flat.items():
        here = (visits == level).all(axis=1)
        error = here.reshape(40, -1).mean(axis=1).std(ddof=1) / math.sqrt(40)
        assert abs(here.mean() - math.exp(log_weight - total)) < 5 * error + 2e-3


def test_a_step_changes_nothing_it_was_given() -> None:
    partitions = PartitionSampler.of(random_table(6, 3, 0)).configured(moves=70)
    state = partitions.init(partitions.random_position(np.random.default_rng(0)))
    level, log_sums = state.level.copy(), state.log_sums.copy()
    first, info = partitions.step(np.random.default_rng(1), state)
    again, _ = partitions.step(np.random.default_rng(1), state)
    assert 0 < info.acceptance < 1
    np.testing.assert_array_equal(state.level, level)
    np.testing.assert_array_equal(state.log_sums, log_sums)
    np.testing.assert_array_equal(first.level, again.level)
    np.testing.assert_allclose(first.log_sums, partitions.init(first.level).log_sums, rtol=1e-13)


@given(seed=st.integers(0, 10**6), order=st.permutations(range(5)))
@settings(max_examples=15, deadline=None)
def test_a_permutation_of_variables_changes_no_weight(seed: int, order: list[int]) -> None:
    table = random_table(5, 3, seed)
    scores = np.empty_like(table.scores)
    for node, s in np.ndindex(scores.shape):
        parents = [order[v] for v in table.parents(node, s)]
        scores[node, s] = table.scores[order[node], table.index(order[node], parents)]
    rng = np.random.default_rng(seed)
    partitions = PartitionSampler.of(table)
    level = partitions.random_position(rng)
    other = PartitionSampler.of(table.with_scores(scores))
    assert other.init(level[order]).log_weight == pytest.approx(partitions.init(level).log_weight, rel=1e-12)
    np.testing.assert_allclose(
        other.edges(other.init(level[order])),
        partitions.edges(partitions.init(level))[np.ix_(order, order)],
        atol=1e-12,
    )


def plain(table: FamilyTable, level: NDArray[np.int64], node: int) -> float:
    """The sum over the families of a node, one by one."""
    own = level[node]
    members = table.members(node)
    highest = np.where(members < 0, -1, level[members]).max(axis=1, initial=-1)
    return float(np.logaddexp.reduce(table.scores[node][highest == own - 1], initial=-np.inf))


@pytest.mark.parametrize(
    ("n", "c", "top"), [(63, 62, 2), (65, 64, 2), (70, 69, 2), (140, 139, 1), (140, 30, 2)]
)
@pytest.mark.parametrize("spread", [3.0, 400.0])
def test_many_variables(n: int, c: int, top: int, spread: float) -> None:
    """One word of bits, two, three; candidates that are few; sums that stop early and sums that do not."""
    rng = np.random.default_rng(n)
    kept = np.array([np.sort(rng.choice(others, c, replace=False)) for others in all_others(n)])
    scores = spread * rng.standard_normal((n, n_subsets(c, top)))
    table = FamilyTable(tuple(f"v{i}" for i in range(n)), kept, top, scores)
    partitions = PartitionSampler.of(table).configured(moves=10)
    state = partitions.init(partitions.random_position(rng))
    for _ in range(2):
        state, _ = partitions.step(rng, state)
    expected = [plain(table, state.level, node) for node in range(n)]
    np.testing.assert_allclose(state.log_sums, expected, rtol=1e-12)
    node = n // 2
    weights = partitions.place_weights(state.level, node)
    for place in range(0, len(weights), 7):
        target = moved(tuple(state.level.tolist()), node, place)
        assert target is not None
        whole = sum(plain(table, np.array(target), other) for other in range(n))
        assert weights[place] == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    table = random_table(6, 3, 1, 300.0)
    level = np.array([0, 1, 1, 2, 3, 2])
    expected = PartitionSampler.of(table).init(level).log_sums
    monkeypatch.setattr(sorted_families, "_LONGEST", block)
    np.testing.assert_allclose(PartitionSampler.of(table).init(level).log_sums, expected, rtol=1e-13)


def test_what_is_never_allowed() -> None:
    table = random_table(3, 2, 0)
    scores = table.scores.copy()
    scores[1] = -np.inf
    with pytest.raises(DataError, match="No parent set of b"):
        sort_families(table.with_scores(scores))
    scores = table.scores.copy()
    scores[:, 0] = -np.inf
    with pytest.raises(DataError, match="No order"):
        PartitionSampler.of(table.with_scores(scores)).random_position(np.random.default_rng(0))


def test_posterior_by_partitions() -> None:
    """Everything that a posterior tells, against enumeration."""
    table = TABLES["all"]
    posterior = partition_posterior(table, chains=Chains(n_chains=2, n_steps=20_000), random_state=0)
    chance, dags = uniform_over_dags(table), np.array(all_dags(4))
    expected = np.tensordot(chance, dags, 1)
    assert posterior.diagnostics is not None
    error = np.zeros((4, 4))
    error[~np.eye(4, dtype=bool)] = posterior.diagnostics["mcse"]
    assert (np.abs(posterior.probabilities - expected) <= 4 * error + 0.005).all()
    assert posterior.mixed
    assert posterior.n_steps == 20_000
    alone = float(chance[~dags[:, :, 0].any(axis=1)].sum())
    own = posterior.parents("a").set_index("parents")["probability"]
    assert own.sum() == pytest.approx(1.0)
    assert own.get((), 0.0) == pytest.approx(alone, abs=0.05)
    assert posterior.feature(lambda node, parents: node != "a" or not parents) == pytest.approx(
        own.get((), 0.0), abs=1e-9
    )
    assert posterior.best_graph()[1] == pytest.approx(log_scores(table).max())
    samples = posterior.sample_dags(2000, random_state=1)
    assert samples.over == "dags"
    assert np.abs(samples.edges.to_numpy() - expected).max() < 0.06
    assert "mixed" in posterior.disagreement()


def test_draws_do_not_depend_on_processes() -> None:
    table = random_table(6, 3, 3)
    one, two = (
        partition_posterior(table, chains=Chains(n_chains=2, n_steps=400), n_jobs=n_jobs, random_state=5)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.draws.levels, two.draws.levels)
    np.testing.assert_array_equal(one.probabilities, two.probabilities)


def test_stored_blocks_give_the_same_draws(tmp_path: Path) -> None:
    table = random_table(6, 3, 3)

    def run() -> NDArray[np.int16]:
        levels: NDArray[np.int16] = partition_posterior(
            table, chains=Chains(n_chains=2, n_steps=400), random_state=5
        ).draws.levels
        return levels

    expected = run()
    with saving(tmp_path, {}):
        run()
    for stored in sorted(tmp_path.glob("*.piece"))[::2]:
        stored.unlink()
    with saving(tmp_path, {}):
        np.testing.assert_array_equal(run(), expected)
