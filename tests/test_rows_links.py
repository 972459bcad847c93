"""Links between rows, from whatever holds them; and the test whether they matter."""

from __future__ import annotations

from itertools import permutations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from polydag.errors import DataError, DataWarning, UsageError
from polydag.rows import Links, as_links, column_correlations, row_dependence
from polydag.rows.dependence import _product_sums, _square_sums, _standardised, _Sums, sentence
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


def mantel_by_brute_force(A: np.ndarray, K: np.ndarray) -> tuple[float, float]:
    values = []
    for order in permutations(range(len(A))):
        values.append(np.sum(A * K[np.ix_(order, order)]))
    return float(np.mean(values)), float(np.std(values))


@given(st.integers(0, 10**6))
@settings(max_examples=5, deadline=None)
def test_moments_over_all_permutations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    U = rng.standard_normal((6, 3))
    A = np.triu(rng.random((6, 6)) < 0.5, 1).astype(float)
    A[0, 1] = 1.0
    A += A.T
    off = 1.0 - np.eye(6)
    degree = A.sum(axis=1)
    network = _Sums(float(degree.sum()), float(degree @ degree), float(degree.sum()))
    for sums, K in ((_product_sums(U), U @ U.T / 3 * off), (_square_sums(U), (U @ U.T / 3) ** 2 * off)):
        mean, sd = mantel_by_brute_force(A, K)
        statistic = float(np.sum(A * K))
        expected = (statistic - mean) / sd if sd > 1e-6 else 0.0
        assert _standardised(statistic, network, sums, 6) == pytest.approx(expected, abs=1e-6)


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


def test_columns_are_told_apart() -> None:
    rng = np.random.default_rng(2)
    links = Links.from_groups(np.arange(400) // 4)
    shared = np.repeat(rng.standard_normal(100), 4)
    X = np.stack([shared, shared + rng.standard_normal(400), rng.standard_normal(400)], axis=1)
    np.testing.assert_allclose(column_correlations(X, links), [1.0, 0.5, 0.0], atol=0.12)


def test_the_sentence() -> None:
    links = Links.from_groups([0, 0, 1, 1])
    test = row_dependence(np.random.default_rng(0).standard_normal((4, 2)), links)._replace(
        correlation=0.31, p_value=1e-9
    )
    assert sentence(test, 2287, 1153.2, links, "schools") == (
        "Rows are correlated within schools (about 0.31, p = 1e-09): for edges, "
        "2,287 rows are worth about 1,150."
    )
    assert "No dependence" in sentence(test._replace(p_value=0.4), 4, 4.0, links)
