"""Labels in linked rows as cuts of Gaussian variables: pairs of rows, draws, and what learners get."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from polydag import BOSS, GES, PC, GaussianStats, LinkedRows, LinkedRowsDAG, Parties, metrics, simulate
from polydag.errors import DataError, UsageError
from polydag.rows.latent import _draws_kernels, _normal_kernels
from polydag.rows.latent.classes import definite
from polydag.rows.latent.decorrelation import LatentDecorrelation
from polydag.rows.latent.pairs import PairColumns, log_probabilities, standardised
from polydag.rows.linked_table import LinkedTable
from polydag.rows.precision import Layout
from polydag.rows.structures.exchangeable import Exchangeable


def cut(Z: pd.DataFrame, *shares: float) -> pd.DataFrame:
    """Codes of levels that begin at these quantiles of each column."""
    found = [np.searchsorted(np.quantile(z, shares), z) for z in Z.to_numpy().T]
    return pd.DataFrame(np.stack(found, axis=1), columns=Z.columns)


def linked_values(
    groups: int, size: int, p: int, correlation: float, seed: int, *, edges: int = 0
) -> tuple[Any, pd.DataFrame]:
    dag = simulate.dag(p, n_edges=edges, weight_range=(0.6, 1.0), random_state=seed)
    Sigma = simulate.clusters("equi", groups * size, size, base=correlation)
    return dag, simulate.linked(dag, row_covariance=Sigma, random_state=seed + 1)


def decorrelation(rows: LinkedRows) -> LatentDecorrelation:
    found = rows.decorrelation_
    assert isinstance(found, LatentDecorrelation)
    return found


# The normal distribution


def test_quantiles_are_those_of_scipy() -> None:
    p = np.concatenate([np.logspace(-300, -1, 300), np.linspace(0.001, 0.999, 301)])
    np.testing.assert_allclose(_normal_kernels.quantiles(p), stats.norm.ppf(p), rtol=1e-9, atol=1e-12)
    assert _normal_kernels.quantiles(np.array([0.0, 1.0])).tolist() == [-np.inf, np.inf]


@given(st.floats(-6, 6), st.floats(0.01, 5), st.floats(0.001, 0.999))
@settings(max_examples=100, deadline=None)
def test_draws_between_bounds_are_quantiles_of_the_truncated_distribution(
    a: float, width: float, u: float
) -> None:
    b = a + width
    drawn = _normal_kernels.truncated(np.array([a]), np.array([b]), np.array([u]))[0]
    np.testing.assert_allclose(drawn, stats.truncnorm.ppf(u, a, b), rtol=1e-6, atol=1e-6)


def test_draws_far_in_the_tails_stay_within_bounds() -> None:
    low = np.array([12.0, -np.inf, 38.0, -40.0])
    high = np.array([np.inf, -12.0, 39.0, -39.9])
    drawn = _normal_kernels.truncated(low, high, np.full(4, 0.5))
    assert ((low <= drawn) & (drawn <= high)).all()
    assert drawn[0] == pytest.approx(12 + np.log(2) / 12, abs=1e-3)


@pytest.mark.parametrize("r", [-0.99, -0.6, 0.0, 0.3, 0.9, 0.985])
def test_rectangles_are_bivariate_normal_probabilities(r: float) -> None:
    cuts = np.array([-1.2, 0.1, 2.0])
    nodes, weights = np.polynomial.legendre.leggauss(48)
    found = _normal_kernels.rectangles(cuts, np.array([np.arcsin(r)]), (nodes + 1) / 2, weights / 2)[..., 0]
    normal = stats.multivariate_normal([0, 0], [[1, r], [r, 1]])
    for a, b in np.ndindex(3, 3):
        assert found[: a + 1, : b + 1].sum() == pytest.approx(normal.cdf([cuts[a], cuts[b]]), abs=2e-7)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(
        found.sum(axis=1), np.diff(stats.norm.cdf([-np.inf, *cuts, np.inf])), atol=1e-12
    )


# Pairs of rows


def pairs_of(X: pd.DataFrame, groups: Any, levels: dict[str, Any]) -> tuple[PairColumns, Layout, list[Any]]:
    table = LinkedTable.of(X, np.asarray(groups), indicators=list(levels))
    layout = Layout.of(table.links)
    values, cuts = standardised(table, levels)
    return PairColumns.of(values, cuts, table, layout, np.random.default_rng(0)), layout, cuts


@pytest.mark.parametrize("r", [-0.3, 0.0, 0.437, 0.9])
def test_the_likelihood_of_pairs_is_that_of_rectangles_and_densities(r: float) -> None:
    _, Z = linked_values(6, 3, 3, 0.5, 3)
    X = cut(Z, 0.3, 0.7).assign(V3=Z.iloc[:, 2].to_numpy()).set_axis(["a", "b", "spare", "c"], axis=1)
    X = X.drop(columns="spare")
    groups = np.repeat(np.arange(6), 3)
    columns, layout, cuts = pairs_of(X, groups, {"a": (0, 1, 2), "b": (0, 1, 2)})
    found = columns.deviances(Exchangeable(layout).at(r))
    expected = np.zeros(3)
    z = (X["c"] - X["c"].mean()) / X["c"].std(ddof=0)
    normal = stats.multivariate_normal([0, 0], [[1, r], [r, 1]])

    def below(x: float, y: float) -> float:
        return float(normal.cdf([min(x, 9.0), min(y, 9.0)])) if min(x, y) > -9 else 0.0

    for i in range(18):
        for k in range(i + 1, 18):
            if groups[i] != groups[k]:
                continue
            for j, name in enumerate("ab"):
                ends = [-np.inf, *cuts[j], np.inf]
                (a, b), (c, d) = ([ends[X[name][row]], ends[X[name][row] + 1]] for row in (i, k))
                chance = below(b, d) - below(a, d) - below(b, c) + below(a, c)
                expected[j] -= 2 * np.log(chance)
            apart = normal.logpdf([z[i], z[k]]) - stats.norm.logpdf(z[i]) - stats.norm.logpdf(z[k])
            expected[2] -= 2 * apart
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-9)


def test_a_pair_of_places_has_the_polychoric_correlation_of_its_rows() -> None:
    """Two rows in each group, one column: the rows have the tetrachoric correlation of their table."""
    _, Z = linked_values(400, 2, 1, 0.6, 5)
    X = cut(Z, 0.4).set_axis(["a"], axis=1)
    columns, _, cuts = pairs_of(X, np.repeat(np.arange(400), 2), {"a": (0, 1)})
    found = columns.by_class(np.zeros(400, dtype=np.int64), 1, np.array([True]))[0]
    counts = np.zeros((2, 2))
    np.add.at(counts, (X["a"][::2], X["a"][1::2]), 1)

    def deviance(r: float) -> float:
        both = stats.multivariate_normal([0, 0], [[1, r], [r, 1]]).cdf([cuts[0][0]] * 2)
        low = stats.norm.cdf(cuts[0][0])
        chances = np.array([[both, low - both], [low - both, 1 - 2 * low + both]])
        return -float((counts * np.log(chances)).sum())

    best = optimize.minimize_scalar(deviance, bounds=(-0.9, 0.95), method="bounded").x
    assert found == pytest.approx(best, abs=2e-3)


@pytest.mark.parametrize("structure", ["common", "decay", "block", "free", "auto"])
def test_pairs_recover_a_known_correlation_of_the_rows(structure: str) -> None:
    _, Z = linked_values(80, 4, 24, 0.5, 11, edges=24)
    X = cut(Z, 0.3, 0.8).assign(school=np.repeat(np.arange(80), 4))
    kinds: Any = dict.fromkeys(Z.columns, "discrete")
    found = LinkedRows(X, groups="school", kinds=kinds, labels="latent", structure=structure, random_state=0)
    assert decorrelation(found).correlation == pytest.approx(0.5, abs=0.06)
    if structure == "auto":
        assert decorrelation(found).structure == "common"


def test_auto_finds_that_correlation_falls_with_distance() -> None:
    dag = simulate.dag(12, n_edges=8, random_state=1)
    block = 0.85 ** np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    Z = simulate.linked(dag, row_covariance=[block] * 40, random_state=2)
    rows = LinkedRows(cut(Z, 0.5), groups=np.repeat(np.arange(40), 10), labels="latent", random_state=0)
    found = decorrelation(rows)
    assert found.structure in ("decay", "block")  # an even block is much the same
    np.testing.assert_allclose(found.precision.correlations[0], block, atol=0.12)


def test_matrices_are_made_definite_and_left_alone_where_they_are() -> None:
    R = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    found = definite(R)
    assert np.linalg.eigvalsh(found)[0] > 0.005
    np.testing.assert_allclose(found.diagonal(), 1.0)
    own = np.array([[1.0, 0.5], [0.5, 1.0]])
    np.testing.assert_array_equal(definite(own), own)


# Draws


def test_draws_have_the_moments_of_the_truncated_distribution() -> None:
    """Two linked rows in two columns that depend on each other; one column is seen, the other a label."""
    r, psi, seen = 0.6, 0.5, np.array([0.8, -0.4])
    Sigma, Psi = np.array([[1, r], [r, 1]]), np.array([[1, psi], [psi, 1]])
    Theta, K = np.linalg.inv(Sigma), np.linalg.inv(Psi)
    low, high = np.array([[0.2], [-np.inf]]), np.array([[np.inf], [0.5]])
    # Given the seen column, the other is normal with mean ψ z and covariance (1 − ψ²) Σ.
    normal = stats.multivariate_normal(psi * seen, (1 - psi**2) * Sigma)

    def moment(f: Any) -> float:
        return float(
            integrate.dblquad(lambda y, x: f(x, y) * normal.pdf([x, y]), 0.2, 5, -5, 0.5, epsabs=1e-6)[0]
        )

    total = moment(lambda x, y: 1.0)
    expected = [moment(f) / total for f in (lambda x, y: x, lambda x, y: y, lambda x, y: x * y)]
    rng = np.random.default_rng(0)
    R = np.ascontiguousarray(np.stack([seen, [0.5, 0.0]], axis=1))
    starts, squares = np.array([0, 2]), np.array([0, 4])
    drawn = []
    for _ in range(30_000):
        uniforms = rng.random((2, 1))
        _draws_kernels.sweep(R, Theta.ravel(), starts, squares, K, low, high, np.array([1]), uniforms)
        drawn.append((R[0, 1], R[1, 1], R[0, 1] * R[1, 1]))
    np.testing.assert_allclose(np.mean(drawn[100:], axis=0), expected, atol=0.02)
    np.testing.assert_array_equal(R[:, 0], seen)


def test_of_independent_rows_the_moments_are_polychoric_correlations() -> None:
    rng = np.random.default_rng(2)
    Z = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 1500)
    X = pd.DataFrame({"a": (Z[:, 0] > 0.3).astype(int), "b": np.searchsorted([-0.5, 0.9], Z[:, 1])})
    rows = LinkedRows(
        X, groups=np.arange(1500) // 2, kinds={"b": "discrete"}, labels="latent", structure="independent"
    )
    a, b = decorrelation(rows).cuts
    counts = pd.crosstab(X["a"], X["b"]).to_numpy()

    def deviance(r: float) -> float:
        normal = stats.multivariate_normal([0, 0], [[1, r], [r, 1]])
        first, second = [-9.0, *a, 9.0], [-9.0, *b, 9.0]
        below = np.array([[normal.cdf([x, y]) for y in second] for x in first])
        return -float((counts * np.log(np.diff(np.diff(below, axis=0), axis=1))).sum())

    best = optimize.minimize_scalar(deviance, bounds=(0, 0.95), method="bounded").x
    assert decorrelation(rows).drawn.covariance[0, 1] == pytest.approx(best, abs=0.015)


def test_numbers_beside_labels_keep_their_own_moments() -> None:
    _, Z = linked_values(40, 5, 4, 0.6, 7, edges=3)
    X = Z.copy()
    X.iloc[:, 0] = cut(Z, 0.5).iloc[:, 0]
    groups = np.repeat(np.arange(40), 5)
    rows = LinkedRows(X, groups=groups, labels="latent", correlation=0.6, random_state=0)
    numbers = LinkedRows(X.iloc[:, 1:], groups=groups, correlation=0.6)
    found, expected = rows.moments(), numbers.moments()
    assert isinstance(found, GaussianStats)
    assert isinstance(expected, GaussianStats)
    np.testing.assert_allclose(found.covariance[1:, 1:], expected.scatter / expected.n, rtol=1e-9)
    np.testing.assert_allclose(found.mean[1:], expected.mean, rtol=1e-9)
    assert found.covariance[0, 0] == pytest.approx(1.0)
    assert found.mean[0] == 0.0


def test_of_independent_columns_halves_are_worth_two_fifths_of_numbers() -> None:
    """At the median a label keeps 2/π of a number's information, and two labels 4/π² of a correlation's."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame((rng.standard_normal((600, 8)) > 0).astype(int), columns=list("abcdefgh"))
    groups = np.arange(600) // 3
    rows = LinkedRows(X, groups=groups, labels="latent", structure="independent", random_state=0)
    assert rows.moments().n / 600 == pytest.approx(4 / np.pi**2, abs=0.05)  # type: ignore[union-attr]


@pytest.mark.slow
def test_what_rows_are_worth_is_the_precision_of_correlations() -> None:
    """Of independent columns in linked rows, correlations vary as those of so many rows of numbers."""
    spread, worth = [], []
    for seed in range(12):
        _, Z = linked_values(60, 5, 12, 0.6, 100 + 2 * seed)
        rows = LinkedRows(cut(Z, 0.4), groups=np.repeat(np.arange(60), 5), labels="latent", random_state=seed)
        found = decorrelation(rows).drawn
        spread.append(np.mean(found.covariance[np.triu_indices(12, 1)] ** 2))
        worth.append(found.n)
    assert np.mean(worth) * np.mean(spread) == pytest.approx(1.0, abs=0.15)


@pytest.mark.slow
def test_decorrelated_labels_give_better_graphs_than_labels_as_if_independent() -> None:
    f1: dict[str, list[float]] = {"ignored": [], "latent": []}
    for seed in range(6):
        dag, Z = linked_values(50, 10, 12, 0.6, 300 + 2 * seed, edges=14)
        X = cut(Z, 0.5)
        rows = LinkedRows(X, groups=np.repeat(np.arange(50), 10), labels="latent", random_state=seed)
        for way, source in (("ignored", X.astype("category")), ("latent", rows)):
            f1[way].append(metrics.f1(true=dag.to_cpdag(), estimate=BOSS().fit(source).graph_))
    assert np.mean(f1["latent"]) > np.mean(f1["ignored"]) + 0.05


# Sources and learners


@pytest.fixture(scope="module")
def pupils() -> pd.DataFrame:
    _, Z = linked_values(40, 5, 5, 0.6, 21, edges=4)
    X = cut(Z, 0.5).set_axis(["read", "write", "count", "sex", "mood"], axis=1)
    X["count"] = Z.iloc[:, 2].to_numpy()
    X["sex"] = np.where(X["sex"] == 1, "f", "m")
    X["mood"] = pd.Categorical.from_codes(
        cut(Z, 0.2, 0.7).iloc[:, 4], categories=["low", "so-so", "high"], ordered=True
    )
    return X.assign(school=np.repeat([f"s{k}" for k in range(40)], 5))


def test_learners_take_what_lies_behind_labels_as_numbers(pupils: pd.DataFrame) -> None:
    rows = LinkedRows(pupils, groups="school", labels="latent", random_state=0)
    assert rows.names == ("read", "write", "count", "sex", "mood")
    assert set(rows.kinds.values()) == {"continuous"}
    assert rows.latent == {
        "read": (0, 1),
        "write": (0, 1),
        "sex": ("f", "m"),
        "mood": ("low", "so-so", "high"),
    }
    for learner in (BOSS(), GES(), PC()):
        graph = learner.fit(rows).graph_
        assert graph.names == rows.names
    note = next(each for each in rows.notes if each.startswith("Labels (read, write, sex, mood) show"))
    assert "160 draws" in note
    assert "seed 0" in note
    again = LinkedRows(pupils, groups="school", labels="latent", random_state=0)
    np.testing.assert_array_equal(again.moments().scatter, rows.moments().scatter)  # type: ignore[union-attr]
    other = LinkedRows(pupils, groups="school", labels="latent", random_state=1)
    assert not np.array_equal(other.moments().scatter, rows.moments().scatter)  # type: ignore[union-attr]


def test_without_labels_nothing_changes(pupils: pd.DataFrame) -> None:
    _, Z = linked_values(20, 5, 4, 0.5, 2)
    X = Z.assign(school=np.repeat(np.arange(20), 5))
    latent, plain = (
        LinkedRows(X, groups="school", labels=how, structure="common") for how in ("latent", "indicators")
    )
    np.testing.assert_array_equal(latent.moments().scatter, plain.moments().scatter)  # type: ignore[union-attr]


def test_the_order_of_rows_makes_no_difference_to_pairs(pupils: pd.DataFrame) -> None:
    shuffled = pupils.sample(frac=1.0, random_state=3)
    found = [
        decorrelation(
            LinkedRows(X, groups="school", labels="latent", structure="common", random_state=0)
        ).correlation
        for X in (pupils, shuffled)
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_resamples_hold_the_labels_again(pupils: pd.DataFrame) -> None:
    rows = LinkedRows(pupils, groups="school", labels="latent", random_state=0)
    again = rows.resampled(np.random.default_rng(0))
    assert set(np.unique(again.table.values[:, 4])) == {0.0, 1.0, 2.0}
    assert decorrelation(again).correlation == pytest.approx(decorrelation(rows).correlation, abs=0.25)
    chain = [(row, row + 1) for row in range(199)]  # one component: decorrelated rows are drawn
    network = LinkedRows(pupils.drop(columns="school"), links=chain, labels="latent", random_state=0)
    drawn = network.resampled(np.random.default_rng(0))
    assert set(np.unique(drawn.table.values[:, 4])) == {0.0, 1.0, 2.0}


def test_a_known_relationship_matrix_serves_labels_too() -> None:
    family = np.array([[1, 0, 0.5, 0.5], [0, 1, 0.5, 0.5], [0.5, 0.5, 1, 0.5], [0.5, 0.5, 0.5, 1]])
    K = np.kron(np.eye(60), family)
    dag = simulate.dag(15, n_edges=10, random_state=0)
    Z = simulate.linked(dag, row_covariance=[0.8 * family + 0.2 * np.eye(4)] * 60, random_state=1)
    found = decorrelation(LinkedRows(cut(Z, 0.5), covariance=K, labels="latent", random_state=0))
    assert found.parameters["h2"] == pytest.approx(0.8, abs=0.12)
    doubled = decorrelation(LinkedRows(cut(Z, 0.5), covariance=2 * K, labels="latent", random_state=0))
    assert doubled.parameters["h2"] == pytest.approx(found.parameters["h2"], abs=1e-3)


def test_what_cannot_be_had_is_refused_by_name(pupils: pd.DataFrame) -> None:
    towns = pupils.assign(town=np.resize(["york", "bath", "hull"], 200))
    with pytest.raises(DataError, match=r"Column town has 3 levels without an order \(bath, hull, york\)"):
        LinkedRows(towns, groups="school", labels="latent")
    gaps = pupils.assign(mood=pupils["mood"].mask(pupils.index == 2))
    with pytest.raises(DataError, match=r"Column mood, row 3: the value is missing"):
        LinkedRows(gaps, groups="school", labels="latent")
    public = pupils.assign(public=np.repeat(np.arange(40) % 2, 5))
    with pytest.raises(DataError, match="Column public is the same in all linked rows"):
        LinkedRows(public, groups="school", labels="latent").moments()
    with pytest.raises(UsageError, match="has no covariates yet"):
        LinkedRows(pupils, groups="school", covariates=["count"], labels="latent").moments()
    with pytest.raises(UsageError, match="labels must be"):
        LinkedRows(pupils, groups="school", labels="gaussian")
    rows = LinkedRows(pupils, groups="school", labels="latent", random_state=0)
    with pytest.raises(UsageError, match="LinkedRowsDAG learns from numbers, and read, write, sex, mood are"):
        LinkedRowsDAG().fit(rows)
    with pytest.raises(UsageError, match=r"labels of a, b has mean zero"):
        Parties({"a": rows, "b": rows})
    chain = [(row, row + 1) for row in range(199)]
    network = LinkedRows(pupils.drop(columns="school"), links=chain, labels="latent", structure="free")
    with pytest.raises(UsageError, match="structure='free' with labels='latent' is for groups"):
        network.moments()


def test_many_levels_are_refused() -> None:
    X = pd.DataFrame({"a": np.arange(100) % 25, "b": np.arange(100) % 2})
    with pytest.raises(DataError, match="Column a has 25 levels"):
        LinkedRows(X, groups=np.arange(100) // 4, kinds={"a": "discrete"}, labels="latent")


def test_an_absent_level_of_a_resample_takes_no_room() -> None:
    table = np.exp(log_probabilities(np.array([0.0, 8.0])))
    assert table[2].max() < 1e-11
    assert np.isfinite(log_probabilities(np.array([-8.0, 8.0, 8.0]))).all()


def test_the_test_of_dependence_is_of_what_is_seen(pupils: pd.DataFrame) -> None:
    rows = LinkedRows(pupils, groups="school", labels="latent", random_state=0)
    found = decorrelation(rows)
    other = replace(found, table=replace(found.table, values=np.zeros_like(found.table.values)))
    assert other.before.p_value == found.before.p_value


def test_the_command_line_takes_them(pupils: pd.DataFrame, tmp_path: Any) -> None:
    from typer.testing import CliRunner

    from polydag.cli.main import app

    pupils.drop(columns="mood").to_csv(tmp_path / "pupils.csv", index=False)
    arguments = ["fit", str(tmp_path / "pupils.csv"), "--groups", "school", "--method", "ges", "--seed", "1"]
    out = tmp_path / "run"
    result = CliRunner().invoke(app, [*arguments, "--set", "labels=latent", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert 'labels = "latent"' in (out / "config.toml").read_text()
    assert "Labels (read, write, sex) show" in (out / "summary.txt").read_text()
