"""Sufficient statistics: parts merged are the whole, however the rows arrive."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.stats import DiscreteCounts, GaussianStats, Regimes
from polydag.stats.rows import numeric_rows

Array = NDArray[np.float64]
quick = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def longdouble_moments(X: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Mean and scatter by the textbook formula, in extended precision."""
    rows = X.astype(np.longdouble)
    w = np.ones(len(X), dtype=np.longdouble) if weights is None else weights.astype(np.longdouble)
    mean = (w[:, None] * rows).sum(axis=0) / w.sum()
    centred = rows - mean
    return mean.astype(float), ((w[:, None] * centred).T @ centred).astype(float)


def assert_same(a: GaussianStats, b: GaussianStats, rtol: float = 1e-10) -> None:
    assert a.names == b.names
    assert a.n == pytest.approx(b.n, rel=1e-12)
    assert a.mass == pytest.approx(b.mass, rel=1e-10)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12, atol=1e-12)
    scale = max(1.0, b.scatter.diagonal().max())  # columns here spread by about one
    np.testing.assert_allclose(a.scatter, b.scatter, rtol=rtol, atol=rtol * scale)


@st.composite
def split_rows(draw: st.DrawFn) -> tuple[Array, list[Array]]:
    """A table and the same rows cut into parts."""
    rng = np.random.default_rng(draw(seeds))
    n, d = draw(st.integers(2, 60)), draw(st.integers(1, 5))
    offset = draw(st.sampled_from([0.0, 1.0, -1e4, 1e8]))
    X = rng.normal(size=(n, d)) * rng.uniform(0.5, 2, size=d) + offset
    cuts = sorted(draw(st.sets(st.integers(1, n - 1), max_size=4)))
    return X, np.split(X, cuts)


@quick
@given(split_rows())
def test_merged_parts_are_the_whole(case: tuple[Array, list[Array]]) -> None:
    X, parts = case
    merged = reduce(add, (GaussianStats.from_data(part) for part in parts))
    mean, scatter = longdouble_moments(X)
    # At an offset of 1e8 a column carries eight digits of the spread: more cannot be asked for.
    tolerance = 1e-10 if abs(X).max() < 1e6 else 1e-6
    assert_same(merged, GaussianStats(len(X), mean, scatter, merged.names, len(X)), tolerance)
    assert_same(GaussianStats.from_data(X), merged, tolerance)
    assert_same(GaussianStats.from_batches(parts), merged, tolerance)


@quick
@given(split_rows())
def test_merging_is_commutative_and_associative(case: tuple[Array, list[Array]]) -> None:
    a, *rest = [GaussianStats.from_data(part) for part in case[1]]
    if len(rest) < 2:
        rest = [a, a]
    b, c = rest[:2]
    tolerance = 1e-10 if abs(case[0]).max() < 1e6 else 1e-6
    assert_same(a + b, b + a, tolerance)
    assert_same((a + b) + c, a + (b + c), tolerance)


def test_blocks_do_not_show() -> None:
    X = np.random.default_rng(0).normal(loc=1e8, size=(10_001, 3))
    stats = GaussianStats.from_data(X)
    mean, scatter = longdouble_moments(X)
    assert stats.n == 10_001
    np.testing.assert_allclose(stats.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(stats.covariance, scatter / 10_001, rtol=1e-7, atol=1e-7)


@quick
@given(split_rows(), seeds)
def test_whole_weights_are_repeated_rows(case: tuple[Array, list[Array]], seed: int) -> None:
    X = case[0]
    weights = np.random.default_rng(seed).integers(0, 4, size=len(X))
    weights[0] += 1
    tolerance = 1e-10 if abs(X).max() < 1e6 else 1e-6
    repeated = GaussianStats.from_data(np.repeat(X, weights, axis=0))
    assert_same(GaussianStats.from_data(X, weights=weights), repeated, tolerance)


@quick
@given(split_rows(), seeds)
def test_weighted_parts_are_the_weighted_whole(case: tuple[Array, list[Array]], seed: int) -> None:
    X, parts = case
    weights = np.random.default_rng(seed).uniform(0.1, 3, size=len(X))
    own = np.split(weights, np.cumsum([len(part) for part in parts])[:-1])
    merged = reduce(add, map(lambda part, w: GaussianStats.from_data(part, weights=w), parts, own))
    mean, scatter = longdouble_moments(X, weights)
    tolerance = 1e-10 if abs(X).max() < 1e6 else 1e-6
    expected = GaussianStats(float(weights.sum()), mean, scatter, merged.names, float(weights.sum()))
    assert_same(merged, expected, tolerance)
    assert_same(GaussianStats.from_data(X, weights=weights), expected, tolerance)


def random_factor(rng: np.random.Generator, n: int) -> Array:
    """An upper triangular L, so that Θ = LᵀL is positive definite."""
    return np.triu(rng.normal(size=(n, n)) * 0.3, 1) + np.diag(rng.uniform(0.5, 1.5, size=n))


@quick
@given(split_rows(), seeds)
def test_whitened_rows_have_the_generalised_least_squares_mean(
    case: tuple[Array, list[Array]], seed: int
) -> None:
    X, parts = case
    rng = np.random.default_rng(seed)
    factors = [random_factor(rng, len(part)) for part in parts]
    L = scipy.linalg.block_diag(*factors)
    theta, ones = L.T @ L, np.ones(len(X))
    mass = ones @ theta @ ones
    shift = X[0]  # the formula itself would lose digits at a large offset
    mean = shift + ones @ theta @ (X - shift) / mass
    scatter = (X - mean).T @ theta @ (X - mean)
    expected = GaussianStats(len(X), mean, scatter, tuple(f"x{i}" for i in range(X.shape[1])), mass)
    tolerance = 1e-9 if abs(X).max() < 1e6 else 1e-5
    whole = GaussianStats.from_data(X, row_factor=L)
    assert_same(whole, expected, tolerance)
    merged = reduce(add, map(lambda part, f: GaussianStats.from_data(part, row_factor=f), parts, factors))
    assert_same(merged, whole, tolerance)
    assert_same(GaussianStats.from_data(X, row_factor=scipy.sparse.csr_array(L)), whole, tolerance)


def test_a_diagonal_factor_is_a_weight_and_the_identity_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(20, 3)), rng.uniform(0.5, 2, size=20)
    by_factor = GaussianStats.from_data(X, row_factor=np.diag(np.sqrt(weights)))
    by_weight = GaussianStats.from_data(X, weights=weights)
    np.testing.assert_allclose(by_factor.mean, by_weight.mean)
    np.testing.assert_allclose(by_factor.scatter, by_weight.scatter)
    assert_same(GaussianStats.from_data(X, row_factor=np.eye(20)), GaussianStats.from_data(X))


def test_every_kind_of_table_gives_the_same() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"count": rng.integers(0, 9, 50), "size": rng.normal(size=50), "on": rng.random(50) < 0.5}
    )
    table = pa.Table.from_pandas(frame)
    expected = GaussianStats.from_data(frame.to_numpy(dtype=float), names=frame.columns)
    nullable = frame.astype({"count": "Int64", "size": "Float64", "on": "boolean"})
    for data in (frame, nullable, table, table.combine_chunks().to_batches()[0]):
        assert_same(GaussianStats.from_data(data), expected)
    assert_same(GaussianStats.from_batches(table.to_batches(max_chunksize=7)), expected)
    assert_same(GaussianStats.from_batches([frame[:0], frame[:30], frame[30:30], frame[30:]]), expected)
    decimals = table.set_column(0, "count", table["count"].cast(pa.decimal128(25, 2)))
    assert_same(GaussianStats.from_data(decimals), expected)


def test_the_callers_data_is_not_changed() -> None:
    X = np.random.default_rng(0).normal(loc=3, size=(9, 2))
    before = X.copy()
    GaussianStats.from_data(X)
    GaussianStats.from_data(X, weights=np.arange(9), row_factor=np.eye(9))
    np.testing.assert_array_equal(X, before)


def test_derived_quantities() -> None:
    X = np.random.default_rng(1).normal(size=(200, 3)) @ np.array([[1, 2, 0], [0, 1, 1], [0, 0, 3]])
    stats = GaussianStats.from_data(X, names="abc")
    np.testing.assert_allclose(stats.covariance, np.cov(X.T, bias=True))
    np.testing.assert_allclose(stats.correlation, np.corrcoef(X.T))
    np.testing.assert_allclose(stats.standardized().covariance, np.corrcoef(X.T))
    assert_same(stats.select("ca"), GaussianStats.from_data(X[:, [2, 0]], names="ca"))
    given_ = GaussianStats.from_covariance(stats.covariance, stats.n, mean=stats.mean, names="abc")
    assert_same(given_, stats)
    assert stats.for_node("a") is stats
    constant = GaussianStats.from_data(np.column_stack([X[:, 0], np.ones(200)]))
    np.testing.assert_array_equal(constant.correlation, np.eye(2))


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (frame(a=[1.0, 2.0], b=[1.0, np.nan]), {}, "Column b, row 2: the value is missing"),
        (frame(a=[1.0, np.inf]), {}, "Column a, row 2: the value is inf"),
        (frame(a=[1.0], b=["x"]), {}, "Column b is str.*not numeric"),
        (pa.table({"a": ["1"]}), {}, "Column a is string, not numeric"),
        (pa.table({"a": [None, "1"]}), {}, "Column a is string, not numeric"),
        (pa.table({"a": pa.array([1], pa.timestamp("s"))}), {}, r"Column a is timestamp\[s\], not numeric"),
        (pa.table({"a": [1, None]}), {}, "Column a, row 2: the value is missing"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), {}, "more than once: a"),
        (np.ones(3), {}, r"shape \(3,\)"),
        ([["p", "q"]], {}, "cannot be read as numbers"),
        (np.empty((0, 2)), {}, "no rows"),
        (np.ones((2, 2)), {"weights": [1.0, -1.0]}, "2 finite numbers, none negative"),
        (np.ones((2, 2)), {"weights": [1.0]}, "2 finite numbers"),
        (np.ones((2, 2)), {"weights": [0.0, 0.0]}, "All row weights are zero"),
        (np.ones((2, 2)), {"row_factor": np.eye(3)}, r"row factor is \(3, 3\), the data has 2 rows"),
        (np.ones((2, 2)), {"names": ["a"]}, "1 names were given for 2"),
        (GaussianStats.from_data(np.ones((2, 2))), {}, "a GaussianStats already"),
    ],
)
def test_bad_tables_are_told_where(data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        GaussianStats.from_data(data, **options)


def test_more_errors() -> None:
    a, b = (GaussianStats.from_data(np.ones((2, 2)), names=names) for names in ("ab", "ac"))
    with pytest.raises(DataError, match="b is missing in one of them"):
        a + b
    with pytest.raises(DataError, match="order differs"):
        a + a.select("ba")
    with pytest.raises(DataError, match="No such variable: q"):
        a.select("aq")
    with pytest.raises(DataError, match="no rows"):
        GaussianStats.from_batches([])
    with pytest.raises(DataError, match="symmetric"):
        GaussianStats.from_covariance([[1, 2], [0, 1]], 5)
    with pytest.raises(DataError, match=r"mean of the shape \(3,\)"):
        GaussianStats.from_covariance(np.eye(2), 5, mean=[1, 2, 3])


def test_a_row_of_a_stream_is_counted_from_the_beginning() -> None:
    with pytest.raises(DataError, match="Column x1, row 8:"):
        GaussianStats.from_batches(
            [np.ones((5, 2)), np.ones((0, 2)), np.array([[1, 1], [1, 1], [1, np.nan]])]
        )


def test_numeric_rows_keeps_shape_and_names() -> None:
    values, names = numeric_rows(pa.table({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}))
    np.testing.assert_array_equal(values, [[1, 0.5], [2, 1.5], [3, 2.5]])
    assert names == ["a", "b"]
    assert numeric_rows([[1, 2]])[1] is None


@st.composite
def discrete_parts(draw: st.DrawFn) -> list[pd.DataFrame]:
    """Parts of one table; each may lack levels that another has."""
    rng = np.random.default_rng(draw(seeds))
    parts = []
    for n in draw(st.lists(st.integers(1, 25), min_size=1, max_size=4)):
        arity = draw(st.integers(1, 4))
        parts.append(
            pd.DataFrame(
                {
                    "color": np.array(["red", "green", "blue", "amber"])[rng.integers(0, arity, n)],
                    "size": rng.integers(0, 3, n),
                    "on": rng.random(n) < 0.5,
                }
            )
        )
    return parts


def assert_same_counts(a: DiscreteCounts, b: DiscreteCounts) -> None:
    assert (a.names, a.levels) == (b.names, b.levels)
    np.testing.assert_array_equal(a.rows, b.rows)
    np.testing.assert_array_equal(a.counts, b.counts)


@quick
@given(discrete_parts())
def test_merged_counts_are_those_of_the_whole(parts: list[pd.DataFrame]) -> None:
    whole = pd.concat(parts, ignore_index=True)
    expected = DiscreteCounts.from_data(whole)
    counted = [DiscreteCounts.from_data(part) for part in parts]
    assert_same_counts(reduce(add, counted), expected)
    assert_same_counts(reduce(add, counted[::-1]), expected)
    assert expected.n == len(whole)
    assert_same_counts(DiscreteCounts.from_data(pa.Table.from_pandas(whole)), expected)


@quick
@given(discrete_parts())
def test_tables_are_cross_tables(parts: list[pd.DataFrame]) -> None:
    counts = reduce(add, (DiscreteCounts.from_data(part) for part in parts))
    whole = pd.concat(parts, ignore_index=True)
    expected = pd.crosstab(whole["size"], whole["color"]).to_numpy()
    np.testing.assert_array_equal(counts.table(["size", "color"]), expected)
    np.testing.assert_array_equal(counts.table(["color", "size"]), expected.T)
    np.testing.assert_array_equal(counts.table(["on"]), np.unique(whole["on"], return_counts=True)[1])
    assert counts.table([]) == len(whole)
    three = counts.table(["color", "size", "on"])
    assert three.shape == tuple(counts.arities)
    np.testing.assert_array_equal(three.sum(axis=2).T, expected)


def test_categories_keep_their_order_and_levels_that_do_not_occur() -> None:
    dtype = pd.CategoricalDtype(["low", "middle", "high"])
    data = pd.DataFrame({"dose": pd.Categorical(["high", "low", "low"], dtype=dtype)})
    counts = DiscreteCounts.from_data(data)
    assert counts.levels == (("low", "middle", "high"),)
    np.testing.assert_array_equal(counts.table(["dose"]), [2, 0, 1])
    assert (counts + counts).levels == counts.levels
    np.testing.assert_array_equal(
        DiscreteCounts.from_data(pa.Table.from_pandas(data)).table(["dose"]), [2, 0, 1]
    )


def test_counts_of_arrays_and_weights_and_given_levels() -> None:
    data = np.array([[0, 1], [0, 1], [2, 0]])
    counts = DiscreteCounts.from_data(data, weights=[1, 2, 0.5], levels={"x0": [0, 1, 2]})
    np.testing.assert_array_equal(counts.table(["x0", "x1"]), [[0, 3], [0, 0], [0.5, 0]])
    assert (counts.n, counts.d) == (3.5, 2)
    wider = counts.with_levels({"x1": [1, 0, 7]})
    np.testing.assert_array_equal(wider.table(["x1"]), [3, 0.5, 0])
    assert counts.for_node("x0") is counts


def test_levels_of_mixed_type_are_kept_apart() -> None:
    a = DiscreteCounts.from_data(pd.DataFrame({"v": ["x", "y"]}))
    b = DiscreteCounts.from_data(pd.DataFrame({"v": [1, 2]}))
    assert set((a + b).levels[0]) == {1, 2, "x", "y"}
    np.testing.assert_array_equal((a + b).table(["v"]), np.ones(4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiscreteCounts.from_data(frame(a=["x", None])), "Column a, row 2: the value is missing"),
        (
            lambda: DiscreteCounts.from_data(frame(a=pd.Categorical(["x", None]))),
            "Column a, row 2: .*missing",
        ),
        (
            lambda: DiscreteCounts.from_data(frame(a=["x", "y"]), levels={"a": ["x"]}),
            "Column a, row 2: 'y' is not among",
        ),
        (
            lambda: DiscreteCounts.from_data(frame(a=["x"]), levels={"a": ["x", "x"]}),
            "Column a: .*given twice",
        ),
        (lambda: DiscreteCounts.from_data(np.ones(3, dtype=int)), r"shape \(3,\)"),
        (lambda: DiscreteCounts.from_data(np.ones((3, 0), dtype=int)), "no columns"),
        (lambda: DiscreteCounts.from_data(frame(a=["x"]), weights=[-1.0]), "1 finite numbers, none negative"),
        (lambda: DiscreteCounts.from_data(frame(a=["x"])).table(["q"]), "No such variable: q"),
        (
            lambda: DiscreteCounts.from_data(frame(a=["x"])).with_levels({"a": ["y"]}),
            "Column a has the level 'x'",
        ),
        (
            lambda: DiscreteCounts.from_data(frame(a=["x"])) + DiscreteCounts.from_data(frame(b=["x"])),
            "a is missing in one of them",
        ),
    ],
)
def test_bad_discrete_data_is_told_where(make: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


targets_of_rows = st.lists(
    st.sampled_from([(), ("a",), ("b",), ("a", "b"), ("b", "a")]), min_size=1, max_size=30
)


@quick
@given(targets_of_rows, seeds)
def test_a_node_is_scored_by_the_rows_that_did_not_set_it(targets: list[tuple[str, ...]], seed: int) -> None:
    data = pd.DataFrame(
        np.random.default_rng(seed).integers(0, 3, size=(len(targets), 3)), columns=list("abc")
    )
    gaussian: Regimes[GaussianStats] = Regimes.from_data(data, targets, GaussianStats.from_data)
    discrete: Regimes[DiscreteCounts] = Regimes.from_data(data, targets, DiscreteCounts.from_data)
    assert gaussian.n == discrete.n == len(data)
    assert len(dict(gaussian)) == len({frozenset(row) for row in targets})
    for node in "abc":
        rows = data[[node not in row for row in targets]]
        if rows.empty:
            with pytest.raises(DataError, match=f"{node} was set in every row"):
                gaussian.for_node(node)
        else:
            assert_same(gaussian.for_node(node), GaussianStats.from_data(rows))
            np.testing.assert_array_equal(
                discrete.for_node(node).table(["a", "c"]), DiscreteCounts.from_data(rows).table(["a", "c"])
            )


@quick
@given(targets_of_rows, st.integers(0, 30), seeds)
def test_merged_regimes_are_those_of_the_whole(targets: list[tuple[str, ...]], cut: int, seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(len(targets), 2))

    def build(rows: Array) -> GaussianStats:
        return GaussianStats.from_data(rows, names="ab")

    whole = Regimes.from_data(X, targets, build)
    cut = min(cut, len(targets))
    halves = [(X[:cut], targets[:cut]), (X[cut:], targets[cut:])]
    merged = reduce(add, (Regimes.from_data(rows, own, build) for rows, own in halves if len(rows)))
    assert set(merged.parts) == set(whole.parts)
    assert merged.names == ("a", "b")
    for key, part in whole:
        assert_same(merged.parts[key], part)


def test_bad_interventions_are_named() -> None:
    data = pd.DataFrame({"age": [1.0, 2.0], "dose": [3.0, 4.0]})
    with pytest.raises(DataError, match="names sex, which is not a column"):
        Regimes.from_data(data, [["sex"], []], GaussianStats.from_data)
    with pytest.raises(DataError, match="1 intervention targets for 2 rows"):
        Regimes.from_data(data, [["age"]], GaussianStats.from_data)
    with pytest.raises(DataError, match=r"Row 2: .*got 'dose'"):
        Regimes.from_data(data, [[], "dose"], GaussianStats.from_data)
    with pytest.raises(DataError, match="no rows in any regime"):
        Regimes({})
