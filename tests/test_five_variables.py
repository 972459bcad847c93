"""All orders and all 29,281 DAGs of five variables: every score, prior and feature against the fast sums."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from polydag.knowledge import Knowledge
from polydag.posterior import exact_posterior, family_table, mcmc_posterior, with_prior
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.chains import Chains
from polydag.scores import make_score
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
NAMES = "abcde"
N = len(NAMES)


@cache
def dags() -> tuple[Mask, Array]:
    """Every DAG, and how many orders agree with each."""
    pairs = list(itertools.combinations(range(N), 2))
    kinds = np.array(list(itertools.product((0, 1, 2), repeat=len(pairs))))
    graphs = np.zeros((len(kinds), N, N), dtype=bool)
    for column, (i, j) in enumerate(pairs):
        graphs[:, i, j] = kinds[:, column] == 1
        graphs[:, j, i] = kinds[:, column] == 2
    orders = np.zeros(len(graphs))
    for order in itertools.permutations(range(N)):
        place = np.argsort(order)
        backwards = place[:, None] > place
        orders += ~graphs[:, backwards].any(axis=1)
    return graphs[orders > 0], orders[orders > 0]


def parent_numbers() -> NDArray[np.int64]:
    """The parents of each node of each DAG, as bits."""
    numbers: NDArray[np.int64] = np.einsum("gij,i->gj", dags()[0], 1 << np.arange(N))
    return numbers


def dag_scores(table: FamilyTable) -> Array:
    lookup = np.full((N, 1 << N), -np.inf)
    for node, s in np.ndindex(table.scores.shape):
        lookup[node, sum(1 << v for v in table.parents(node, s))] = table.scores[node, s]
    total: Array = lookup[np.arange(N), parent_numbers()].sum(axis=1)
    return total


def scored(kind: str) -> FamilyTable:
    rng = np.random.default_rng(7)
    if kind == "bge":
        rows = rng.standard_normal((30, N)) @ rng.standard_normal((N, N))
        return family_table(make_score("bge", GaussianStats.from_data(rows, names=NAMES)), 4)
    a = rng.integers(0, 3, 50)
    b = np.where(rng.random(50) < 0.7, a % 2, 1)
    c = np.where(rng.random(50) < 0.7, (a + b) % 3, 0)
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "d": rng.integers(0, 2, 50), "e": (b + c) % 2})
    build = DiscreteCounts.from_data
    if kind == "interventions":
        levels = {name: sorted(frame[name].unique().tolist()) for name in NAMES}
        parts = {
            frozenset[str](): build(frame[:30], levels=levels),
            frozenset({"b"}): build(frame[30:], levels=levels),
        }
        return family_table(make_score("bdeu", Regimes(parts)), 4)
    return family_table(make_score(kind, build(frame)), 4)


def with_one_prior(table: FamilyTable, prior: str) -> FamilyTable:
    chance = np.random.default_rng(1).random((N, N))
    chance[3, 0] = 0.0
    known = Knowledge(required=[("a", "c")], forbidden=[("d", "b")], tiers=[["a"], ["c", "e"]])
    masks = known.masks(table.names)
    if prior in ("uniform", "fair"):
        return with_prior(table, prior)
    if prior == "edges":
        return with_prior(table, "fair", edge_prior=chance)
    return with_prior(table, "fair", edge_prior=chance, masks=masks)


@pytest.mark.parametrize("prior", ["uniform", "fair", "edges", "known"])
@pytest.mark.parametrize("kind", ["k2", "bdeu", "bds", "bge", "interventions"])
def test_everything_against_enumeration(kind: str, prior: str) -> None:
    table = with_one_prior(scored(kind), prior)
    graphs, orders = dags()
    scores = dag_scores(table)
    logs = scores + np.log(orders)
    weight = np.exp(logs - logs.max())
    chance = weight / weight.sum()
    posterior = exact_posterior(table)
    assert posterior.log_evidence == pytest.approx(logs.max() + np.log(weight.sum()), abs=1e-10)
    edges = np.einsum("g,gij->ij", chance, graphs)
    np.testing.assert_allclose(posterior.probabilities, edges, rtol=0, atol=1e-12)
    sampled = mcmc_posterior(
        table, chains=Chains(n_chains=1, n_steps=20), random_state=0
    )  # one bucket: nothing to sample
    np.testing.assert_allclose(sampled.probabilities, edges, rtol=0, atol=1e-12)

    numbers = parent_numbers()
    assert posterior.family_probabilities is not None
    for node, s in np.ndindex(table.scores.shape):
        own = sum(1 << v for v in table.parents(node, s))
        expected = chance[numbers[:, node] == own].sum()
        assert posterior.family_probabilities[node, s] == pytest.approx(expected, abs=1e-12)

    found = posterior.v_structures(at_least=0.0)
    assert len(found) == N * 6
    for row in found.itertuples():
        a, child, b = (NAMES.index(name) for name in (row.parent, row.child, row.other))
        joined = graphs[:, a, b] | graphs[:, b, a]
        expected = chance[graphs[:, a, child] & graphs[:, b, child] & ~joined].sum()
        assert row.probability == pytest.approx(expected, abs=1e-12)

    factors = np.random.default_rng(3).random((N, 1 << N))
    value = posterior.feature(
        lambda node, parents: factors[NAMES.index(node), sum(1 << NAMES.index(v) for v in parents)]
    )
    expected = (chance * factors[np.arange(N), numbers].prod(axis=1)).sum()
    assert value == pytest.approx(expected, abs=1e-12)

    best, highest = posterior.best_graph()
    assert highest == pytest.approx(scores.max(), abs=1e-10)
    same = (graphs == best.adjacency).all(axis=(1, 2))
    assert scores[same] == pytest.approx(scores.max(), abs=1e-10)
