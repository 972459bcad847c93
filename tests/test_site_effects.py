"""Parties that differ in means and spreads: what is taken out, what is said, and what leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from polydag import (
    BOSS,
    GES,
    PC,
    BayesianDiscovery,
    FederatedNotears,
    GaussianStats,
    Graph,
    LinkedRows,
    Network,
    Notears,
    Parties,
    Privacy,
    Regimes,
    metrics,
    simulate,
)
from polydag.errors import DataError, UsageError
from polydag.federated.methods.statistics.moments import summed_moments
from polydag.federated.party_data.site_comparison import Comparison, contribution
from polydag.sources import InMemory
from polydag.studies.findings.single_graph import scale_caution

OPEN = Privacy(mode="none")
LEARNERS = [BOSS(), GES(), PC(), Notears(), BayesianDiscovery(criterion="bge", max_parents=2)]
quick = settings(max_examples=15, deadline=None)


def shifted(parts: Mapping[str, pd.DataFrame], by: float, seed: int = 0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    return {party: part + by * rng.normal(size=part.shape[1]) for party, part in parts.items()}


def cut(table: pd.DataFrame, sizes: list[int]) -> dict[str, pd.DataFrame]:
    ends = np.cumsum([0, *sizes])
    return {f"p{k}": table.iloc[a:b] for k, (a, b) in enumerate(pairwise(ends))}


@pytest.fixture(scope="module")
def dag() -> Any:
    return simulate.dag(8, n_edges=10, random_state=4)


@pytest.fixture(scope="module")
def parts(dag: Any) -> dict[str, pd.DataFrame]:
    return cut(simulate.linear(dag, n=300, random_state=5), [60, 100, 80, 60])


def compared(parts: Mapping[str, pd.DataFrame], about: float = 0.0) -> Comparison:
    each = [GaussianStats.from_data(part) for part in parts.values()]
    own = [contribution(s, np.sqrt(s.covariance.diagonal()), np.full(s.d, about)) for s in each]
    total = {name: np.sum([array[name] for array in own], axis=0) for name in own[0]}
    return Comparison.of(each[0].names, total)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda each: type(each).__name__)
def test_a_shift_of_a_partys_rows_changes_nothing(learner: Any, parts: dict[str, pd.DataFrame]) -> None:
    first = learner.fit(Parties(parts)).raw_weights_
    for by in (1.0, 50.0):
        again = type(learner)(**learner.get_params(deep=False)).fit(Parties(shifted(parts, by)))
        np.testing.assert_allclose(again.raw_weights_, first, rtol=1e-6, atol=1e-8)
        assert again.disclosure_["round"].nunique() == 1
        assert again.disclosure_["masked"].all()


@pytest.mark.parametrize("method", ["admm", "fedavg", "voting", "varying"])
def test_a_shift_changes_nothing_where_parameters_are_exchanged(
    method: str, parts: dict[str, pd.DataFrame]
) -> None:
    fits = [
        FederatedNotears(method=method).fit(Parties(tables, privacy=OPEN))
        for tables in (parts, shifted(parts, 2.0))
    ]
    np.testing.assert_allclose(fits[1].weights_, fits[0].weights_, atol=1e-6)
    assert fits[0].graph_.n_edges > 0


@quick
@given(st.lists(st.integers(2, 12), min_size=3, max_size=5), st.integers(0, 1000), st.booleans())
@example([2, 6, 7], 561, False)  # two rows that are alike by chance say nothing about units
def test_means_are_those_of_the_table_centred_within_parties(
    sizes: list[int], seed: int, masked: bool
) -> None:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(sum(sizes), 3)) * [1, 100, 0.01] + 7)
    parts = shifted(cut(table, sizes), 3.0, seed)
    found = Parties(parts, privacy=Privacy() if masked else OPEN).moments()
    centred = pd.concat([part - part.mean() for part in parts.values()])
    wanted = GaussianStats.from_data(centred)
    assert isinstance(found, GaussianStats)
    assert found.n == wanted.n - len(sizes) + 1
    np.testing.assert_allclose(found.mean, pd.concat(parts.values()).mean(), rtol=1e-6)
    if compared(parts).weighted:  # each party's rows divided by its overall spread
        spreads = [np.exp(np.log(part.std()).mean()) for part in parts.values()]
        nu = np.array(sizes) - 1
        typical = np.exp(np.log(spreads) @ nu / nu.sum())
        own = zip(parts.values(), spreads, strict=True)
        wanted = GaussianStats.from_data(pd.concat([(part - part.mean()) * typical / g for part, g in own]))
    scale = np.sqrt(wanted.scatter.diagonal())
    np.testing.assert_allclose(found.scatter / np.outer(scale, scale), wanted.correlation, atol=1e-6)
    np.testing.assert_allclose(found.scatter.diagonal(), wanted.scatter.diagonal(), rtol=1e-6)


def test_means_and_scales_are_those_of_columns_scaled_within_parties(parts: dict[str, pd.DataFrame]) -> None:
    gains = np.random.default_rng(1).uniform(0.5, 2, (4, 8))
    gained = {party: part * gain for (party, part), gain in zip(parts.items(), gains, strict=True)}
    first, second = (
        Parties(each, site_effects="means and scales").moments() for each in (parts, shifted(gained, 5.0))
    )
    assert isinstance(first, GaussianStats)
    assert isinstance(second, GaussianStats)
    np.testing.assert_allclose(first.correlation, second.correlation, atol=1e-9)
    scaled = pd.concat([(part - part.mean()) / part.std() for part in parts.values()])
    np.testing.assert_allclose(first.correlation, GaussianStats.from_data(scaled).correlation, atol=1e-9)
    typical = sum((len(part) - 1) * np.log(part.std()) for part in parts.values()) / 296
    np.testing.assert_allclose(np.sqrt(first.scatter.diagonal() / 296), np.exp(typical), rtol=1e-9)


def test_random_intercepts_are_linked_rows_with_one_group_for_each_party(
    parts: dict[str, pd.DataFrame],
) -> None:
    apart = shifted(parts, 0.7)
    random = Parties(apart, site_effects="random")
    found = random.moments()
    rho = float(random._outcomes[0].result["correlation"])
    assert rho == pytest.approx(in_principal_directions(apart), rel=0.05)  # squares of rows are rounded
    assert 0.1 < rho < 0.9
    whole = pd.concat(apart.values(), ignore_index=True)
    whole["party"] = [party for party, part in apart.items() for _ in range(len(part))]
    wanted = LinkedRows(whole, groups="party", correlation=rho).moments()
    assert isinstance(found, GaussianStats)
    # Rows of correlation one half have half of their variance within the group.
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-6)
    np.testing.assert_allclose(found.correlation, wanted.correlation, atol=1e-8)
    assert found.n == 300
    assert random.disclosure_["round"].nunique() == 3
    assert any(f"correlated by {rho:.2f}" in note for note in random.notes)


def in_principal_directions(parts: dict[str, pd.DataFrame]) -> float:
    """The correlation of two rows of a party by the mean F statistic of the principal directions."""
    sizes = np.array([len(part) for part in parts.values()])
    n, k = sizes.sum(), len(sizes)
    centred = pd.concat([part - part.mean() for part in parts.values()]).to_numpy()
    whole = pd.concat(parts.values()).to_numpy()
    within, total = centred.T @ centred, np.cov(whole.T) * (n - 1)
    d, freedom = len(within), n - k
    mean_f = np.trace(np.linalg.solve(within, total - within)) / (d * (k - 1)) * (freedom - d - 1)
    ratio = max(mean_f - 1, 0.0) * (k - 1) / (n - (sizes**2).sum() / n)
    return float(ratio / (1 + ratio))


def test_random_intercepts_see_shifts_beside_the_errors_of_single_columns() -> None:
    """A column varies much within parties if it sums up its causes; that does not hide a shift."""
    dag = Graph(np.diag(np.full(9, 2.0), 1))
    X = simulate.linear(dag, n=120, random_state=0)
    rng = np.random.default_rng(1)
    parts = {f"p{k}": X.iloc[4 * k : 4 * k + 4] + rng.normal(size=10) for k in range(30)}
    alone = compared(parts).correlation
    assert alone < 0.2 < 0.5 < in_principal_directions(parts)
    used = Parties(parts, site_effects="random", privacy=OPEN)
    found = used.moments()
    none = Parties(parts, site_effects="none", privacy=OPEN).moments()
    assert isinstance(found, GaussianStats)
    assert isinstance(none, GaussianStats)
    assert found.scatter[9, 9] < none.scatter[9, 9]
    same = {name: part - part.mean() + X.mean() for name, part in parts.items()}
    equal = Parties(same, site_effects="random", privacy=OPEN)
    assert equal.moments().n == 120  # type: ignore[union-attr]
    assert any("correlated by 0.00" in note for note in equal.notes)


def test_interventions_are_kept_when_means_are_taken_out() -> None:
    """A knock-out shows in means alone: these are taken relative to each party's own rows."""
    rng = np.random.default_rng(3)
    tables = {}
    for k in range(3):
        x = rng.normal(size=200)
        x[100:] = 4.0  # set
        y = 2 * x + 0.3 * rng.normal(size=200)
        frame = pd.DataFrame({"x": x, "y": y}) + rng.normal(size=2) * 5
        tables[f"p{k}"] = InMemory(frame, interventions=[[]] * 100 + [["x"]] * 100)
    found = Parties(tables).moments()
    assert isinstance(found, Regimes)
    merged = found.for_node("y")
    slope = merged.scatter[0, 1] / merged.scatter[0, 0]
    assert slope == pytest.approx(2.0, abs=0.05)
    assert merged.scatter[0, 0] > 1000  # the means' difference of about four
    assert {targets: part.n for targets, part in found.parts.items()} == {
        frozenset(): 298.0,
        frozenset({"x"}): 300.0,
    }
    with pytest.raises(UsageError, match="cannot be combined with interventions"):
        Parties(tables, site_effects="random").moments()


@quick
@given(st.lists(st.integers(3, 30), min_size=2, max_size=6), st.integers(0, 10_000))
def test_the_tests_are_those_of_scipy(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = cut(pd.DataFrame(rng.normal(size=(sum(sizes), 3)) * [1, 5, 0.2]), sizes)
    parts = shifted(parts, 0.3, seed)
    found = compared(parts, about=0.1)
    for j in range(3):
        columns = [part.iloc[:, j] for part in parts.values()]
        assert found.mean_p_values[j] == pytest.approx(reference.f_oneway(*columns).pvalue, abs=1e-9)
        # The correction of Bartlett's statistic is computed from rounded numbers of rows.
        assert found.spread_p_values[j] == pytest.approx(reference.bartlett(*columns).pvalue, abs=0.02)


def test_the_test_of_overall_spreads_keeps_its_level_and_has_power(dag: Any) -> None:
    rejected = {1.0: 0, 1.5: 0}
    for gain, seed in ((gain, seed) for gain in rejected for seed in range(60)):
        parts = cut(simulate.linear(dag, n=240, random_state=seed), [60, 60, 60, 60])
        parts["p0"] = parts["p0"] * gain
        rejected[gain] += compared(parts).weighted
    assert rejected[1.0] <= 6
    assert rejected[1.5] >= 55


@pytest.mark.filterwarnings("ignore:.*compare the units:polydag.errors.DataWarning")
def test_parties_with_large_errors_do_not_outweigh_the_others(dag: Any) -> None:
    """Error sizes from 0.2 to 10: without weights nearly all rows come from one party."""
    sizes, gains = [60] * 6, [0.2, 0.5, 1, 2, 5, 10]
    errors = {"means": 0, "none": 0}
    for seed in range(4):
        parts = cut(simulate.linear(dag, n=360, random_state=seed), sizes)
        loud = {party: part * gain for (party, part), gain in zip(parts.items(), gains, strict=True)}
        for effects in errors:
            graph = BOSS().fit(Parties(loud, privacy=OPEN, site_effects=effects)).graph_
            errors[effects] += metrics.shd_cpdag(true=dag, estimate=graph)
    assert errors["means"] < errors["none"]
    parties = Parties(loud, privacy=OPEN)
    parties.moments()
    assert any("Overall spreads differ" in note for note in parties.notes)


@pytest.mark.parametrize(
    ("by", "effects", "said"),
    [
        (0.0, "means", "do not differ noticeably. Rows were centred within each party. This costs 3 of 300"),
        (3.0, "means", "Means differ between the 4 parties in 8 of 8 columns"),
        (3.0, "none", "can cause false edges"),
    ],
)
def test_what_is_said(by: float, effects: str, said: str, parts: dict[str, pd.DataFrame]) -> None:
    model = BOSS().fit(Parties(shifted(parts, by), site_effects=effects))
    assert any(said in note for note in model.notes_)
    if effects != "none":
        admm = FederatedNotears().fit(Parties(shifted(parts, by), site_effects=effects))
        assert any(said in note for note in admm.notes_)


def test_small_parties_are_told_of_the_cost(dag: Any) -> None:
    parts = cut(simulate.linear(dag, n=120, random_state=1), [4] * 30)
    parties = Parties(parts, privacy=OPEN)
    parties.moments()
    (note,) = [note for note in parties.notes if "rows" in note and "costs" in note]
    assert "This costs 29 of 120 rows" in note
    assert "site_effects='none' keeps them" in note
    apart = Parties(shifted(parts, 5.0), privacy=OPEN)
    apart.moments()
    assert not any("keeps them" in note for note in apart.notes)
    single = Parties(cut(simulate.linear(dag, n=5, random_state=1), [1] * 5), privacy=OPEN)
    with pytest.raises(DataError, match="single row"):
        single.moments()


def test_a_word_that_is_no_site_effect(parts: dict[str, pd.DataFrame]) -> None:
    with pytest.raises(UsageError, match="site_effects"):
        Parties(parts, site_effects="mean")


def test_linked_rows_inside_parties_are_centred_on_their_own_mean() -> None:
    dag = simulate.dag(5, n_edges=5, random_state=0)
    X = simulate.linked(dag, row_covariance=simulate.clusters("equi", 90, 3, base=0.6), random_state=0)
    X = X.assign(ward=[row // 3 for row in range(90)])
    linked = {f"p{k}": LinkedRows(X[30 * k : 30 * k + 30], groups="ward", correlation=0.5) for k in range(3)}
    own = [source.moments() for source in linked.values()]
    found, _ = summed_moments({name: s.moments() for name, s in linked.items()}, OPEN, site_effects="means")
    assert isinstance(found, GaussianStats)
    np.testing.assert_allclose(found.scatter, reduce(add, [each.scatter for each in own]), rtol=1e-9)
    assert found.n == 88


def test_least_squares_on_standardised_columns_is_cautioned_against(parts: dict[str, pd.DataFrame]) -> None:
    whole = pd.concat(parts.values())
    scaled = {party: (part - whole.mean()) / whole.std() for party, part in parts.items()}
    for tables, said in ((parts, False), (scaled, True)):
        model = FederatedNotears().fit(Parties(tables, privacy=OPEN))
        assert any("as standardised ones do" in note for note in model.notes_) == said


def test_the_graph_of_standardised_columns_is_compared(parts: dict[str, pd.DataFrame]) -> None:
    table = pd.concat(parts.values(), ignore_index=True)
    model = Notears().fit(table)
    again = Notears().fit((table - table.mean()) / table.std(ddof=0))
    differ = {frozenset((i, j)) for i, j in np.argwhere(model.graph_.adjacency != again.graph_.adjacency)}
    assert differ
    assert model.standardized_difference() == len(differ)
    (note,) = scale_caution(model)
    assert note.startswith(f"With every column standardised, {len(differ)} edges would differ")
    parties = Parties(parts)
    (over_parties,) = scale_caution(Notears().fit(parties))
    assert "edges would differ" in over_parties
    assert parties.disclosure_["round"].nunique() == 1  # nothing more was asked for
    assert scale_caution(BOSS().fit(table)) == ()
    assert again.standardized_difference() == 0


def test_admm_is_compared_with_standardised_columns_on_request(parts: dict[str, pd.DataFrame]) -> None:
    pooled = pd.concat([part - part.mean() for part in parts.values()])
    scaled = {party: part / pooled.std(ddof=0) for party, part in parts.items()}
    first, second = (FederatedNotears().fit(Parties(each, privacy=OPEN)) for each in (parts, scaled))
    expected = metrics.shd(true=first.graph_, estimate=second.graph_)
    assert first.standardized_difference(Parties(parts, privacy=OPEN)) == expected > 0
    networks = FederatedNotears(model="mlp", network=Network(hidden=1), random_state=0)
    with pytest.raises(UsageError, match="needs the linear model"):
        networks.fit(Parties(parts, privacy=OPEN)).standardized_difference(Parties(parts, privacy=OPEN))
