"""Scores: equivalence, independent formulas, gains against the oracle, interventions, bad input."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats as distributions

from polydag.errors import DataError, UsageError
from polydag.scores import SCORES, ParentSets, gains_by_family, kind_of, make_score, total_score
from polydag.scores.penalty import GAMMA
from polydag.stats import DiscreteCounts, GaussianStats, MixedStats, Regimes
from polydag.stats.cells import CellStats

COMPILED = [name for name, score in SCORES.items() if hasattr(score, "gains")]
DISCRETE = ("bdeu", "bds", "k2")
BY_CELL = ("cg",)  # the conditional Gaussian needs cells of labels, and has no interventions
seeds = st.integers(0, 10_000)


def gaussian_rows(seed: int, n: int = 40, d: int = 5) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)


def discrete_rows(seed: int, n: int = 60, d: int = 5) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    arities = rng.integers(2, 5, d)
    X = rng.integers(0, arities, size=(n, d))
    X[:, 1:] = np.where(rng.random((n, d - 1)) < 0.5, X[:, :-1] % arities[1:], X[:, 1:])
    return X


MIXED_LEVELS = {"x1": (0, 1, 2), "x3": (0, 1)}


def mixed_rows(seed: int) -> pd.DataFrame:
    """Columns x1 and x3 cut into labels, the others numbers."""
    frame = pd.DataFrame(gaussian_rows(seed)).add_prefix("x")
    for name, levels in MIXED_LEVELS.items():
        frame[name] = pd.qcut(frame[name], len(levels), labels=False)
    return frame


def statistics(name: str, seed: int) -> GaussianStats | DiscreteCounts | MixedStats | CellStats:
    if kind_of(name) == "numbers":
        return GaussianStats.from_data(gaussian_rows(seed))
    if kind_of(name) == "mixed":
        kind = CellStats if name in BY_CELL else MixedStats
        return kind.from_data(mixed_rows(seed), MIXED_LEVELS)
    return DiscreteCounts.from_data(discrete_rows(seed))


def random_dag(d: int, rng: np.random.Generator, density: float = 0.5) -> NDArray[np.bool_]:
    place = rng.permutation(d)
    return np.triu(rng.random((d, d)) < density, 1)[np.ix_(place, place)]


def equivalent(dag: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Another DAG of the class: reverse covered edges (Chickering 1995)."""
    result = dag.copy()
    for _ in range(10):
        covered = []
        for i, j in np.argwhere(result):
            others = result[:, j].copy()
            others[i] = False
            if np.array_equal(others, result[:, i]):
                covered.append((i, j))
        if covered:
            i, j = covered[rng.integers(len(covered))]
            result[i, j], result[j, i] = False, True
    return result


@pytest.mark.parametrize("name", ["bic", "bge", "bdeu"])
@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_equivalent_dags_score_the_same(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    score = make_score(name, statistics(name, seed))
    dag = random_dag(5, rng)
    assert total_score(score, equivalent(dag, rng)) == pytest.approx(total_score(score, dag), abs=1e-6)


@pytest.mark.parametrize("name", ["k2", "bds"])
def test_k2_and_bds_are_not_score_equivalent(name: str) -> None:
    rows = np.array([[0, 0], [0, 1], [1, 2], [1, 2], [2, 2], [3, 0]])
    score = make_score(
        name, DiscreteCounts.from_data(rows, levels={"x0": range(7)})
    )  # levels 4 to 6 are unseen
    forward = score.local_score(0, []) + score.local_score(1, [0])
    backward = score.local_score(1, []) + score.local_score(0, [1])
    assert abs(forward - backward) > 0.01


@given(seed=seeds, k=st.integers(0, 4), penalty=st.floats(0.5, 3))
@settings(max_examples=20, deadline=None)
def test_bic_is_the_least_squares_likelihood_less_the_penalty(seed: int, k: int, penalty: float) -> None:
    X = gaussian_rows(seed)
    n = len(X)
    design = np.c_[np.ones(n), X[:, 1 : 1 + k]]
    residual = X[:, 0] - design @ np.linalg.lstsq(design, X[:, 0], rcond=None)[0]
    scale = math.sqrt((residual @ residual) / n)
    expected = distributions.norm.logpdf(residual, scale=scale).sum() - penalty * (k + 2) / 2 * math.log(n)
    score = make_score("bic", GaussianStats.from_data(X), penalty=penalty)
    assert score.local_score(0, range(1, 1 + k)) == pytest.approx(expected, rel=1e-9)


@given(seed=seeds, k=st.integers(0, 4))
@settings(max_examples=20, deadline=None)
def test_the_automatic_penalty_adds_a_price_for_the_number_of_variables(seed: int, k: int) -> None:
    stats = GaussianStats.from_data(gaussian_rows(seed))
    plain, extended = (make_score("bic", stats, penalty=penalty) for penalty in (1.0, "auto"))
    parents = [1, 2, 3, 4][:k]
    price = (k + 2) * GAMMA * math.log(stats.d)
    assert plain.local_score(0, parents) - extended.local_score(0, parents) == pytest.approx(price)
    discount = 1 + 2 * GAMMA * math.log(stats.d) / math.log(stats.n)
    same = make_score("bic", stats, penalty=discount)
    assert same.local_score(0, parents) == pytest.approx(extended.local_score(0, parents))


def test_a_family_that_fits_anything_is_worth_nothing() -> None:
    score = make_score("bic", GaussianStats.from_data(gaussian_rows(0, n=6, d=8)))
    sets = ParentSets(np.array([1, 2]), np.array([-1, 3]), np.array([0, 1]))
    gains = score.gains(0, np.array([5]), sets, np.ones((2, 1), dtype=bool))[:, 0]
    assert np.isfinite([score.local_score(0, [1, 2, 3]), gains[0]]).all()
    assert score.local_score(0, [1, 2, 3, 4]) == gains[1] == -math.inf


def sequential_t(
    X: NDArray[np.float64], nu: NDArray[np.float64], mu: float, dof: float, T: NDArray[np.float64]
) -> float:
    """The log marginal likelihood under a normal-Wishart prior, one multivariate t after the other."""
    d = X.shape[1]
    total = 0.0
    for x in X:
        free = dof - d + 1
        shape = T * (mu + 1) / (mu * free)
        total += distributions.multivariate_t.logpdf(x, nu, shape, df=free)
        T = T + mu / (mu + 1) * np.outer(x - nu, x - nu)
        nu = (mu * nu + x) / (mu + 1)
        mu, dof = mu + 1, dof + 1
    return float(total)


@given(
    seed=seeds, alpha_mu=st.floats(0.5, 3), more=st.floats(0.5, 4), d=st.integers(1, 3), full=st.booleans()
)
@settings(max_examples=20, deadline=None)
def test_bge_is_the_product_of_its_predictions(
    seed: int, alpha_mu: float, more: float, d: int, full: bool
) -> None:
    X = gaussian_rows(seed, n=8, d=d)
    alpha_w = d + 1 + more
    T = np.cov(gaussian_rows(seed + 1, n=20, d=d), rowvar=False).reshape(d, d) if full else 0.7 * np.eye(d)
    given = {"alpha_mu": alpha_mu, "alpha_w": alpha_w, "prior_matrix": T if full else 0.7}
    score = make_score("bge", GaussianStats.from_data(X), **given)
    complete = np.triu(np.ones((d, d), dtype=bool), 1)
    expected = sequential_t(X, X.mean(axis=0), alpha_mu, alpha_w, T)
    assert total_score(score, complete) == pytest.approx(expected, rel=1e-8)
    # A subset has the prior's marginal: as many degrees of freedom fewer as there are variables fewer.
    alone = sequential_t(X[:, :1], X[:, :1].mean(axis=0), alpha_mu, alpha_w - d + 1, T[:1, :1])
    assert score.local_score(0, []) == pytest.approx(alone, rel=1e-8)


def test_bge_defaults() -> None:
    stats = GaussianStats.from_data(gaussian_rows(0))
    default = make_score("bge", stats)
    written = make_score("bge", stats, alpha_mu=1.0, alpha_w=stats.d + 2, prior_matrix=np.eye(stats.d))
    assert default.local_score(0, [1, 2]) == pytest.approx(written.local_score(0, [1, 2]), rel=1e-12)


def test_a_matrix_as_the_prior_of_bge() -> None:
    stats = GaussianStats.from_data(gaussian_rows(0))
    T = np.cov(gaussian_rows(1), rowvar=False)
    score = make_score("bge", stats, prior_matrix=T)
    sets = ParentSets(np.array([1, 2]), np.array([-1, 3]), np.array([0, 1]))
    gains = score.gains(0, np.array([4]), sets, np.ones((2, 1), dtype=bool))[:, 0]
    expected = [score.local_score(0, [*own, 4]) - score.local_score(0, own) for own in ([1, 2], [1, 2, 3])]
    np.testing.assert_allclose(gains, expected, rtol=1e-9)
    with pytest.raises(UsageError, match="prior_matrix must be a number above 0 or a symmetric"):
        make_score("bge", stats, prior_matrix=-T)
    with pytest.raises(UsageError, match=r"has the shape \(2, 2\), but there are"):
        make_score("bge", stats, prior_matrix=np.eye(2))


def urn(name: str, X: NDArray[np.int64], arity: int, parents: NDArray[np.int64], sizes: list[int]) -> float:
    """The predictive probabilities of a Pólya urn per parent configuration, multiplied up."""
    configurations = [tuple(row) for row in parents]
    everything = len(set(configurations)) if name == "bds" else math.prod(sizes)
    prior = 1.0 if name == "k2" else 2.5 / (everything * arity)
    seen: dict[tuple[tuple[int, ...], int], float] = {}
    total = 0.0
    for value, configuration in zip(X.tolist(), configurations, strict=True):
        drawn = sum(seen.get((configuration, level), 0.0) for level in range(arity))
        total += math.log((prior + seen.get((configuration, value), 0.0)) / (prior * arity + drawn))
        seen[configuration, value] = seen.get((configuration, value), 0.0) + 1
    return total


@pytest.mark.parametrize("name", DISCRETE)
@given(seed=seeds, k=st.integers(0, 4))
@settings(max_examples=15, deadline=None)
def test_discrete_scores_are_urns(name: str, seed: int, k: int) -> None:
    X = discrete_rows(seed)
    counts = DiscreteCounts.from_data(X)
    codes = np.array([[counts.levels[j].index(v) for j, v in enumerate(row)] for row in X.tolist()])
    arities = counts.arities.tolist()
    options = {} if name == "k2" else {"equivalent_sample_size": 2.5}
    expected = urn(name, codes[:, 0], arities[0], codes[:, 1 : 1 + k], arities[1 : 1 + k])
    score = make_score(name, counts, **options)
    assert score.local_score(0, range(1, 1 + k)) == pytest.approx(expected, rel=1e-9)


def regimes(name: str, seed: int) -> Regimes[Any]:
    targets = [frozenset[str](), frozenset({"x1"}), frozenset({"x0", "x2"})]
    if kind_of(name) == "numbers":
        return Regimes({t: GaussianStats.from_data(gaussian_rows(seed + k)) for k, t in enumerate(targets)})
    if kind_of(name) == "mixed":
        return Regimes({t: statistics(name, seed + k) for k, t in enumerate(targets)})
    return Regimes({t: DiscreteCounts.from_data(discrete_rows(seed + k)) for k, t in enumerate(targets)})


@pytest.mark.parametrize("shape", ["table", "regimes"])
@pytest.mark.parametrize("name", COMPILED)
@given(seed=st.integers(0, 500))
@settings(max_examples=8, deadline=None)
def test_gains_are_differences_of_local_scores(name: str, shape: str, seed: int) -> None:
    stats = statistics(name, seed) if shape == "table" else regimes(name, seed)
    score = make_score(name, stats)
    # A tree below the root {4}: {}, {3}, {3, 2}, {2}.
    sets = ParentSets(np.array([4]), np.array([-1, 3, 2, 2]), np.array([0, 1, 2, 1]))
    assert sets.sets() == [(4,), (4, 3), (4, 3, 2), (4, 2)]
    candidates = np.array([1])
    wanted = np.ones((4, 1), dtype=bool)
    expected = gains_by_family(score, 0, candidates, sets, wanted)
    np.testing.assert_allclose(score.gains(0, candidates, sets, wanted), expected, rtol=1e-7, atol=1e-7)
    positive = score.gains(0, candidates, sets, wanted, positive_only=True)
    np.testing.assert_allclose(positive[expected > 0], expected[expected > 0], rtol=1e-7, atol=1e-7)
    assert (positive[expected < 0] <= 0).all()


def test_many_configurations_are_counted_sparsely() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, size=(300, 4))
    score = make_score("bdeu", DiscreteCounts.from_data(X))
    sets = ParentSets(np.array([1, 2]), np.array([-1]), np.array([0]))
    wanted = np.ones((1, 1), dtype=bool)
    expected = score.local_score(0, [1, 2, 3]) - score.local_score(0, [1, 2])
    assert score.gains(0, np.array([3]), sets, wanted)[0, 0] == pytest.approx(expected)


def test_chains_end_at_their_sets() -> None:
    sets, ends = ParentSets.chains([7], [[1, 2], [], [3]])
    assert [sets.sets()[i] for i in ends] == [(7, 1, 2), (7,), (7, 3)]


@pytest.mark.parametrize("name", [name for name in SCORES if name not in BY_CELL])
@given(seed=st.integers(0, 500))
@settings(max_examples=5, deadline=None)
def test_a_node_is_scored_by_the_rows_that_did_not_set_it(name: str, seed: int) -> None:
    data = regimes(name, seed)
    score = make_score(name, data)
    assert score.targets == (frozenset(), frozenset({1}), frozenset({0, 2}))
    parts = list(data.parts.values())
    usable = {0: parts[0] + parts[1], 1: parts[0] + parts[2], 3: parts[0] + parts[1] + parts[2]}
    if kind_of(name) == "labels":  # a level counts wherever it was seen
        whole = usable[3]
        usable = {
            k: v.with_levels(dict(zip(whole.names, whole.levels, strict=True))) for k, v in usable.items()
        }
    for node, rows in usable.items():
        expected = make_score(name, rows).local_score(node, [4])
        assert score.local_score(node, [4]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", SCORES)
def test_the_order_of_parents_does_not_matter(name: str) -> None:
    score = make_score(name, statistics(name, 3))
    values = [score.local_score(0, order) for order in permutations([1, 2, 4])]
    np.testing.assert_allclose(values, values[0], rtol=1e-9)


def test_unknown_score_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="bic, bge, bdeu, bds, k2"):
        make_score("aic", statistics("bic", 0))


@pytest.mark.parametrize(
    ("name", "other", "options", "message"),
    [
        ("bic", "bdeu", {}, "for numbers and needs GaussianStats; got DiscreteCounts"),
        ("bdeu", "bic", {}, "for labels and needs DiscreteCounts; got GaussianStats"),
        ("bic", "bic", {"penalty": 0.0}, "penalty must be 'auto' or a number above 0; got 0.0"),
        ("bic", "bic", {"ess": 1.0}, "no option ess; its options are penalty"),
        ("k2", "k2", {"ess": 1.0}, "no option ess; it has no options"),
        ("bdeu", "bdeu", {"equivalent_sample_size": -1.0}, "above 0; got -1.0"),
        ("bge", "bge", {"alpha_w": 5.0}, "alpha_w > 6"),
    ],
)
def test_bad_options(name: str, other: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_score(name, statistics(other, 0), **options)


def test_collinear_columns_are_named() -> None:
    X = gaussian_rows(0)
    X[:, 3] = X[:, 0] - 2 * X[:, 2]
    with pytest.raises(DataError, match=r"column x3 is a linear combination of x0, x2\."):
        make_score("bic", GaussianStats.from_data(X))


def test_copies_are_named_where_columns_outnumber_rows() -> None:
    X = gaussian_rows(0, n=6, d=9)
    make_score("bic", GaussianStats.from_data(X))
    X[:, 7] = 3 * X[:, 2] + 1
    with pytest.raises(DataError, match="x2 and x7 are copies"):
        make_score("bic", GaussianStats.from_data(X))


def test_constant_column_and_too_few_rows() -> None:
    X = gaussian_rows(0)
    with pytest.raises(DataError, match="at least 3"):
        make_score("bic", GaussianStats.from_data(X[:2]))
    X[:, 1] = 4.0
    with pytest.raises(DataError, match="x1 is constant"):
        make_score("bic", GaussianStats.from_data(X))
