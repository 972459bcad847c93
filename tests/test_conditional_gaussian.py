"""The conditional Gaussian score and test, against likelihoods by brute force."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as distributions

from polydag import BOSS, GES, PC, BayesianDiscovery, Parties
from polydag.errors import UsageError
from polydag.scores import make_score, total_score
from polydag.search.pc.independence_tests.choice import make_test
from polydag.sources import InMemory
from polydag.stats import GaussianStats
from polydag.stats.cells import CellStats

LEVELS = {"b": ("high", "low", "mid"), "d": (0, 1)}


def mixed_rows(seed: int, n: int = 150) -> pd.DataFrame:
    """Columns a, c, e of numbers in different units; b with three labels, one of them rare; d with two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) @ (np.eye(5) + 0.5 * rng.normal(size=(5, 5)))
    frame = pd.DataFrame(X * [1, 1, 50, 1, 0.01] + [0, 0, 1000, 0, 0], columns=list("abcde"))
    ranks = frame["b"].rank()
    frame["b"] = np.where(ranks < 0.06 * n, "mid", np.where(ranks < n / 2, "low", "high"))
    frame["d"] = (frame["d"] > 0).astype(int)
    return frame


def brute_force(frame: pd.DataFrame, members: list[str]) -> tuple[float, float]:
    """The log-likelihood and parameters of some columns, cell by cell."""
    n, labels = len(frame), [name for name in members if name in LEVELS]
    numbers = [name for name in members if name not in LEVELS]
    k = len(numbers)
    whole = np.cov(frame[numbers].to_numpy().T, bias=True).reshape(k, k) if k else np.zeros((0, 0))
    groups = [own for _, own in frame.groupby(labels)] if labels else [frame]
    likelihood, parameters, thin = 0.0, float(np.prod([len(LEVELS[name]) for name in labels]) - 1), False
    for own in groups:
        m = len(own)
        likelihood += m * np.log(m / n)
        if not k:
            continue
        covariance = whole
        if m >= max(6, 2 * (k + 2)):
            covariance = (m * np.cov(own[numbers].to_numpy().T, bias=True).reshape(k, k) + whole) / (m + 1)
            parameters += k * (k + 3) / 2
        else:
            thin = True
        likelihood -= m / 2 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + k)
    return likelihood, parameters + thin * k * (k + 3) / 2


@given(seed=st.integers(0, 10_000), k=st.integers(0, 4))
@settings(max_examples=30, deadline=None)
def test_a_family_scores_as_cells_by_brute_force(seed: int, k: int) -> None:
    frame = mixed_rows(seed)
    place = np.random.default_rng(seed).permutation(5)[: k + 1].tolist()
    node, *parents = (str(frame.columns[i]) for i in place)
    score = make_score("cg", CellStats.from_data(frame, LEVELS), penalty=1.5)
    joint, alone = brute_force(frame, [*parents, node]), brute_force(frame, parents)
    price = 1.5 / 2 * np.log(len(frame)) * (joint[1] - alone[1])
    assert score.local_score(place[0], place[1:]) == pytest.approx(joint[0] - alone[0] - price, rel=1e-8)


def test_large_cells_have_the_likelihood_of_their_rows() -> None:
    frame = mixed_rows(1, n=20_000)
    score = make_score("cg", CellStats.from_data(frame, LEVELS), penalty=1e-9)
    direct = 0.0
    for _, own in frame.groupby(["b", "d"]):
        X = own[["a", "c"]].to_numpy()
        normal = distributions.multivariate_normal(X.mean(axis=0), np.cov(X.T, bias=True))
        alone = distributions.norm(X[:, 1].mean(), X[:, 1].std())
        direct += float(normal.logpdf(X).sum() - alone.logpdf(X[:, 1]).sum())
    assert score.local_score(0, [1, 2, 3]) == pytest.approx(direct, rel=1e-3)


def test_equivalent_graphs_score_alike_and_numbers_alone_have_the_bic() -> None:
    frame = mixed_rows(3)
    score = make_score("cg", CellStats.from_data(frame, LEVELS), penalty="auto")
    full = np.triu(np.ones((5, 5), dtype=bool), 1)
    totals = [total_score(score, full[np.ix_(p, p)]) for p in list(permutations(range(5)))[::17]]
    np.testing.assert_allclose(totals, totals[0], rtol=1e-10)
    numbers = frame[["a", "c", "e"]]
    for penalty in (1.0, "auto"):
        own = make_score("cg", CellStats.from_data(numbers, {}), penalty=penalty)
        bic = make_score("bic", GaussianStats.from_data(numbers), penalty=penalty)
        assert own.local_score(0, [1, 2]) == pytest.approx(bic.local_score(0, [1, 2]), rel=1e-9)


@pytest.fixture(scope="module")
def spread() -> pd.DataFrame:
    """A label that changes the spread of x and the slope of y on z, and no mean."""
    rng = np.random.default_rng(5)
    label = rng.choice(["a", "b"], 1500)
    slope = np.where(label == "a", 1.5, 0.3)
    x = np.where(label == "a", 1, 3) * rng.normal(size=1500)
    z = rng.normal(size=1500)
    return pd.DataFrame({"label": label, "x": x, "z": z, "y": slope * z + rng.normal(size=1500)})


def skeleton(graph: Any) -> set[frozenset[str]]:
    return {frozenset((edge.source, edge.target)) for edge in graph.edges()}


@pytest.mark.parametrize("learner", [GES(criterion="cg"), BOSS(criterion="cg"), PC(test="cg")])
def test_spreads_and_slopes_that_differ_between_labels_are_seen(learner: Any, spread: pd.DataFrame) -> None:
    found = skeleton(learner.fit(spread).graph_)
    assert found == {frozenset(("label", "x")), frozenset(("label", "y")), frozenset("zy")}
    by_means = skeleton(BOSS(criterion="dg").fit(spread).graph_)
    assert by_means == {frozenset("zy")}


def test_a_posterior_takes_the_score(spread: pd.DataFrame) -> None:
    edges = BayesianDiscovery(criterion="cg").fit(spread).posterior_.probabilities
    assert edges[0, 1] + edges[1, 0] > 0.99
    assert edges[1, 2] + edges[2, 1] < 0.2


def test_the_test_keeps_its_level() -> None:
    rng = np.random.default_rng(2)
    rejected = 0
    for _ in range(200):
        label = rng.integers(0, 2, 200)
        frame = pd.DataFrame(
            {"g": label, "x": label + rng.normal(size=200), "y": rng.normal(size=200) - label}
        )
        test: Any = make_test(CellStats.from_data(frame, {"g": (0, 1)}), 0.05)
        p = test._p_value(_planned(1, 2, (0,)))
        rejected += p < 0.05
    assert 2 <= rejected <= 22


def _planned(node: int, target: int, given_: tuple[int, ...]) -> Any:
    from polydag.search.pc.independence_tests.sweeps import PlannedTest

    return PlannedTest(node, 0, target, tuple(range(len(given_))), given_)


@given(seed=st.integers(0, 1000))
@settings(max_examples=5, deadline=None)
def test_parties_have_the_likelihoods_of_their_pooled_rows(seed: int) -> None:
    frame = mixed_rows(seed, 240)
    parties = Parties([frame[k::3] for k in range(3)], site_effects="none")
    mine, theirs = (
        make_score("cg", own)
        for own in (CellStats.from_data(frame, LEVELS), parties.cells(parties.mixed(LEVELS)))  # type: ignore[arg-type]
    )
    for node, parents in ((0, []), (1, []), (0, [1]), (2, [1, 3]), (1, [0, 3]), (4, [0, 2]), (3, [1])):
        assert theirs.local_score(node, parents) == pytest.approx(mine.local_score(node, parents), abs=1e-4)
    assert parties.disclosure_["masked"].all()


def test_parties_are_centred_within_cells_too(spread: pd.DataFrame) -> None:
    moved = [spread[:500], spread[500:1000].assign(x=spread["x"][500:1000] + 100), spread[1000:]]
    graph = BOSS(criterion="cg").fit(Parties(moved)).graph_
    assert np.array_equal(graph.adjacency, BOSS(criterion="cg").fit(spread).graph_.adjacency)
    assert PC(test="cg").fit(Parties(moved)).graph_.n_edges == PC(test="cg").fit(spread).graph_.n_edges


def test_moments_of_small_cells_do_not_leave_the_parties() -> None:
    frame = mixed_rows(3, 90)
    frame["b"] = np.where(frame.index < 4, "mid", frame["b"].replace("mid", "low"))  # four rows
    parties = Parties([frame[k::3] for k in range(3)], site_effects="none")
    cells = parties.cells(parties.mixed({"b": ("high", "low", "mid"), "d": (0, 1)}))  # type: ignore[arg-type]
    found = cells.ask((1,), (0, 2, 4), 6)
    assert sorted(found.counts)[0] == 4
    assert len(found.sizes) == 2
    told = parties.disclosure_["name"]
    assert told.str.contains("squares in 2 cells of b").any()


def test_what_it_cannot_do_is_said(spread: pd.DataFrame) -> None:
    thirds = [spread[:500], spread[500:1000], spread[1000:]]
    with pytest.raises(UsageError, match="'means' or 'none'"):
        BOSS(criterion="cg").fit(Parties(thirds, site_effects="means and scales"))
    gaps = spread.assign(x=spread["x"].where(spread.index > 20))
    with pytest.raises(UsageError, match="need complete rows"):
        BOSS(criterion="cg").fit(InMemory(gaps, missing="em"))
    with pytest.raises(UsageError, match="does not use interventions"):
        GES(criterion="cg").fit(InMemory(spread, interventions=[[], ["x"]] * 750))
