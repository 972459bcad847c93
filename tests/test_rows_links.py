"""Links between rows, from whatever holds them; and the test whether they matter."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from polydag.errors import DataError, DataWarning, UsageError
from polydag.rows import Links, _dependence_kernels, as_links, row_dependence
from polydag.rows.dependence import sentence
from polydag.rows.precision import Layout

PAIRS = [(0, 2), (2, 3), (1, 4)]


def matrix() -> np.ndarray:
    A = np.zeros((5, 5), dtype=int)
    for i, j in PAIRS:
        A[i, j] = A[j, i] = 1
    return A


@pytest.mark.parametrize(
    "links",
    [
        PAIRS,
        np.array(PAIRS),
        pd.DataFrame(PAIRS, columns=["u", "v"]),
        nx.Graph(PAIRS),
        csr_array(matrix()),
        matrix(),
        Links.from_edges(PAIRS, 5),
    ],
)
def test_all_ways_to_give_links_agree(links: object) -> None:
    assert as_links(links, 5).pairs.tolist() == sorted(map(list, PAIRS))


def test_rows_by_name() -> None:
    links = as_links([("b", "a"), ("a", "d")], ["a", "b", "c", "d"])
    assert links.pairs.tolist() == [[0, 1], [0, 3]]


def test_decimal_tables_are_coordinates() -> None:
    line = np.array([[0.0, 0.0], [1.0, 0.0], [2.5, 0.0], [10.0, 0.0], [11.0, 0.0], [12.5, 0.0], [13.0, 0.1]])
    assert Links.from_coordinates(line, k=1).pairs.tolist() == [[0, 1], [1, 2], [3, 4], [5, 6]]
    assert as_links(line, 7).what == "neighbours"


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
@settings(max_examples=30, deadline=None)
def test_groups_link_all_who_share_a_label(labels: list[int]) -> None:
    n = len(labels)
    expected = [[i, j] for i in range(n) for j in range(i + 1, n) if labels[i] == labels[j]]
    assert Links.from_groups(labels).pairs.tolist() == expected


@given(st.integers(2, 12), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_the_layout_holds_every_link_once(n: int, seed: int) -> None:
    A = np.triu(np.random.default_rng(seed).random((n, n)) < 0.2, 1)
    layout = Layout.of(Links.from_matrix(A))
    found = np.zeros((n, n), dtype=bool)
    for c in range(len(layout.sizes)):
        free = slice(layout.frees[c], layout.frees[c + 1])
        where = layout.order[layout.starts[c] : layout.starts[c + 1]]
        found[where[layout.rows[free]], where[layout.columns[free]]] = True
    assert np.array_equal(found | found.T, A | A.T | np.eye(n, dtype=bool))


@pytest.mark.parametrize(
    ("links", "rows", "error", "said"),
    [
        ([(0, 9)], 5, DataError, "do not exist: 9; rows are numbered 0 to 4"),
        ([("a", "x"), ("y", "b")], ["a", "b"], DataError, "'x', 'y'; rows are called 'a', 'b'"),
        ([("a", "b")], ["a", "b", "a"], DataError, "Two rows are called 'a'"),
        (csr_array(np.eye(4)), 5, DataError, "4 rows, the data has 5"),
        (["x", "y"], 5, DataError, "2 rows, the data has 5"),
        (["x", None, "y"], 3, DataError, "Row 2 has no group label"),
        (np.zeros((3, 4, 2)), 3, UsageError, "links are pairs"),
        (np.array([[0.0, np.nan], [1, 1], [2, 2], [3, 3]]), 4, DataError, "finite"),
        (np.zeros(9000 * 2), 18_000, DataError, "too many"),
    ],
)
def test_links_that_cannot_be_meant(links: object, rows: object, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        as_links(links, rows)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ([(0, 1), (1, 0), (2, 3)], "1 link is given more than once"),
        ([(0, 1), (2, 2), (3, 3)], r"2 links are from a row to itself \(first: 2\)"),
        ([], "no links: rows are taken as independent"),
    ],
)
def test_odd_links_are_told_and_used(links: list[tuple[int, int]], said: str) -> None:
    with pytest.warns(DataWarning, match=said):
        result = as_links(links, 5)
    assert result.n_links == len({frozenset(pair) for pair in links if pair[0] != pair[1]})


def test_neighbours_need_as_many_rows() -> None:
    with pytest.raises(UsageError, match="from 1 to 3"):
        Links.from_coordinates(np.zeros((4, 2)), k=4)


@given(st.integers(0, 10**6), st.integers(0, 2))
@settings(max_examples=20, deadline=None)
def test_link_statistics_against_plain_numpy(seed: int, q: int) -> None:
    rng = np.random.default_rng(seed)
    n, p = 7, 3
    U = rng.standard_normal((n, p))
    Q = np.linalg.qr(rng.standard_normal((n, 2)))[0][:, :q]
    A = np.triu(rng.random((n, n)) < 0.5, 1)
    A[0, 1] = True
    pairs, weights = np.argwhere(A), rng.random(int(A.sum()))
    orders = np.array([rng.permutation(n) for _ in range(4)])
    found = _dependence_kernels.link_statistics(U, np.ascontiguousarray(Q), orders, pairs, weights)
    for order, own in zip(orders, found, strict=True):
        V = U[order] - Q @ (Q.T @ U[order])
        V = V * np.sqrt(n / (V**2).sum(axis=0)) if q else V
        products = weights[:, None] * V[pairs[:, 0]] * V[pairs[:, 1]]
        along = products.mean(axis=1)
        np.testing.assert_allclose(own, [along.sum(), (along**2).sum(), (products.sum(axis=0) ** 2).sum()])


def rejections(levels: tuple[float, ...], p: int, covariates: int, times: int, seed: int) -> list[float]:
    """How often independent rows in 40 groups of 5 are called dependent, given covariates of the groups."""
    rng = np.random.default_rng(seed)
    groups = np.arange(200) // 5
    links = Links.from_groups(groups)
    found = []
    for number in range(times):
        Z = rng.standard_normal((40, covariates))[groups] if covariates else None
        X = rng.standard_normal((200, p)) @ rng.standard_normal((p, p))
        found.append(row_dependence(X, links, covariates=Z, random_state=number).p_value)
    return [float(np.mean(np.array(found) <= level)) for level in levels]


@pytest.mark.parametrize("covariates", [0, 10])
def test_covariates_of_groups_are_not_dependence(covariates: int) -> None:
    (share,) = rejections((0.05,), 6, covariates, 100, 0)
    assert share <= 0.12


@pytest.mark.slow
@pytest.mark.parametrize("covariates", [0, 5, 10])
@pytest.mark.parametrize("p", [1, 6])
def test_the_size_of_the_test(p: int, covariates: int) -> None:
    share, tail = rejections((0.05, 0.001), p, covariates, 3000, 1)
    assert 0.04 <= share <= 0.06
    assert tail <= 0.003


def test_columns_of_opposite_dependence_are_found() -> None:
    rng = np.random.default_rng(5)
    groups = np.arange(200) // 2
    X = rng.standard_normal((200, 2))
    X[:, 0] += rng.standard_normal(100)[groups]
    X[1::2, 1] = -X[::2, 1] + rng.standard_normal(100)
    test = row_dependence(X, Links.from_groups(groups))
    assert test.dependent
    assert test.z_columns > abs(test.z)


def test_dependence_is_found_where_it_is_and_only_there() -> None:
    rng = np.random.default_rng(0)
    links = Links.from_groups(np.arange(200) // 4)
    shared = np.repeat(rng.standard_normal((50, 6)), 4, axis=0)
    test = row_dependence(rng.standard_normal((200, 6)) + shared, links)
    assert test.dependent
    assert test.correlation == pytest.approx(0.5, abs=0.1)
    chances = [row_dependence(rng.standard_normal((200, 6)), links).p_value for _ in range(100)]
    assert sum(chance < 0.05 for chance in chances) <= 12


def test_correlations_of_either_sign_are_found() -> None:
    rng = np.random.default_rng(1)
    links = Links.from_edges([(2 * i, 2 * i + 1) for i in range(100)], 200)
    X = rng.standard_normal((200, 20))
    X[1::2] += np.where(np.arange(100) % 2, 2.0, -2.0)[:, None] * X[::2]
    test = row_dependence(X, links)
    assert abs(test.z) < 3 < test.z_squares
    assert test.dependent


def test_the_sentence() -> None:
    links = Links.from_groups([0, 0, 1, 1])
    test = row_dependence(np.random.default_rng(0).standard_normal((4, 2)), links)._replace(p_value=0.001)
    assert sentence(test, 0.31, (2287, 1153.2, 2286), links, "schools") == (
        "Rows are correlated within schools (about 0.31, p ≤ 0.001). Taken as independent, 2,287 rows "
        "would be "
        "worth about 1,150 for edges; decorrelated, about 2,290."
    )
    assert "No dependence" in sentence(test._replace(p_value=0.4), 0.0, (4, 4.0, 3), links)


def test_a_table_of_whole_numbers_may_be_two_things() -> None:
    pairs = np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 3.0], [3.0, 0.0]])
    for table in (pairs, pd.DataFrame(pairs)):
        with pytest.raises(UsageError, match="pairs of rows or coordinates"):
            as_links(table, 4)


def test_values_of_a_matrix_of_links_are_not_silently_ignored() -> None:
    with pytest.warns(DataWarning, match="give covariance= instead"):
        assert as_links(np.array([[1.0, 0.5], [0.5, 1.0]]), 2).n_links == 1


def test_links_of_several_kinds() -> None:
    pairs = pd.DataFrame({"a": [2, 0], "b": [1, 1], "kind": ["cousins", "siblings"]})
    links = as_links(pairs, 3)
    assert links.kinds is not None
    assert (links.pairs.tolist(), links.kinds.tolist()) == ([[0, 1], [1, 2]], ["siblings", "cousins"])
    with pytest.raises(DataError, match="two kinds"):
        Links.from_edges([(0, 1), (1, 0)], 2, kinds=["siblings", "cousins"])


def test_clusters_one_by_one() -> None:
    """Effective rows of each block by its own matrix, and correlations by hand."""
    from polydag import LinkedRows
    from polydag.rows.clusters import by_cluster

    rng = np.random.default_rng(3)
    groups = np.repeat(["a", "b", "c", "d"], [2, 5, 1, 12])
    X = (
        rng.standard_normal((20, 3))
        + rng.standard_normal((4, 3))[np.searchsorted(["a", "b", "c", "d"], groups)]
    )
    found = LinkedRows(X, groups=groups.tolist(), correlation=0.5).decorrelation_
    table = by_cluster(found).set_index("cluster")
    assert list(table.index) == ["a", "b", "d"]  # one row is no cluster
    residuals = X - found.means
    unit = residuals / np.sqrt(np.mean(residuals**2, axis=0))
    for name, row in table.iterrows():
        own = unit[groups == name]
        m = len(own)
        sigma = np.full((m, m), 0.5) + 0.5 * np.eye(m)
        assert row["effective_n"] == pytest.approx(m**2 / np.sum(sigma**2))
        products = [float(own[i] @ own[j]) for i in range(m) for j in range(i)]
        assert row["correlation"] == pytest.approx(np.mean(products) / np.mean(np.sum(own**2, axis=1)))
        assert -1 <= row["correlation_after"] <= 1
    assert table["decorrelated_n"].sum() == pytest.approx(19 * 19 / 20)
