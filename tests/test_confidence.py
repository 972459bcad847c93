"""One confidence per pair, from posteriors, bootstraps and votes alike."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from polydag import BOSS, BayesianDiscovery, Bootstrap, simulate
from polydag.confidence import COLUMNS, Confidence
from polydag.errors import UsageError
from polydag.graph import Edge

NAMES = tuple("abcd")


@settings(max_examples=50)
@given(graphs=arrays(bool, (7, 4, 4)))
def test_shares_are_counts_over_graphs(graphs: np.ndarray) -> None:
    graphs = graphs & ~np.eye(4, dtype=bool)
    found = Confidence.of_graphs(graphs, NAMES, "frequency")
    table = found.pairs(least=0.0)
    assert list(table.columns) == list(COLUMNS)
    assert len(table) == 6
    for row in table.itertuples():
        i, j = NAMES.index(row.a), NAMES.index(row.b)
        assert row.adjacent == pytest.approx(np.mean([g[i, j] or g[j, i] for g in graphs]))
        assert row.forward == pytest.approx(np.mean([g[i, j] and not g[j, i] for g in graphs]))
        assert row.backward == pytest.approx(np.mean([g[j, i] and not g[i, j] for g in graphs]))
        assert row.forward + row.backward + row.undirected == pytest.approx(row.adjacent)
        assert row.low <= row.adjacent + 1e-12
        assert row.adjacent <= row.high + 1e-12
    assert table["adjacent"].is_monotonic_decreasing


@settings(max_examples=50)
@given(P=arrays(float, (4, 4), elements=st.floats(0, 0.5)), threshold=st.floats(0.05, 0.95))
def test_a_graph_thresholds_connections_and_then_directions(P: np.ndarray, threshold: float) -> None:
    np.fill_diagonal(P, 0.0)
    found = Confidence(NAMES, P, "probability")
    graph, removed = found.graph(threshold)
    connected = graph.adjacency | graph.adjacency.T
    for edge in removed:
        i, j = NAMES.index(edge.source), NAMES.index(edge.target)
        connected[i, j] = connected[j, i] = True
    assert np.array_equal(connected, found.adjacent > threshold)
    for edge in graph.edges():
        i, j = graph.index(edge.source), graph.index(edge.target)
        assert edge.directed == ((P[i, j] > threshold) != (P[j, i] > threshold))
        assert edge.weight == pytest.approx(found.of_edge(edge))
    directed = graph.adjacency & ~graph.adjacency.T
    assert np.linalg.matrix_power(directed.astype(int), 4).sum() == 0


def test_the_weakest_edge_of_a_cycle_is_removed_unless_it_is_required() -> None:
    P = np.array([[0, 0.8, 0.1], [0.15, 0, 0.7], [0.6, 0.2, 0]])
    found = Confidence(("a", "b", "c"), P, "probability")
    graph, removed = found.graph()
    assert graph.is_dag
    assert [(e.source, e.target, e.weight) for e in removed] == [("c", "a", 0.6)]
    required = np.zeros((3, 3), dtype=bool)
    required[2, 0] = True
    graph, removed = found.graph(keep=required)
    assert [(e.source, e.target) for e in removed] == [("b", "c")]
    # A required edge is there, in its direction, however improbable it is.
    graph, _ = found.graph(0.65, keep=required.T)
    assert [str(e) for e in graph.edges() if {e.source, e.target} == {"a", "c"}] == [str(Edge("a", "c", 0.1))]


def test_a_sure_connection_without_a_direction_is_undirected() -> None:
    P = np.array([[0.0, 0.49], [0.51, 0.0]])
    (edge,) = Confidence(("raf", "mek"), P, "probability").graph(0.6)[0].edges()
    assert not edge.directed
    assert edge.weight == 1.0
    with pytest.raises(UsageError, match=r"lie in \[0, 1\]; got 2"):
        Confidence(("raf", "mek"), P, "probability").graph(2)


def test_posteriors_and_bootstraps_have_the_same_table() -> None:
    X = simulate.linear(simulate.dag(4, n_edges=4, random_state=1), n=100, random_state=1)
    posterior = BayesianDiscovery(criterion="bge").fit(X).posterior_
    pairs = posterior.pairs(least=0.0)
    assert list(pairs.columns) == list(COLUMNS)
    assert set(pairs["kind"]) == {"probability"}
    assert pairs[["low", "high"]].isna().all(axis=None)
    row = pairs.iloc[0]
    P = posterior.edges
    assert row["adjacent"] == pytest.approx(P.loc[row["a"], row["b"]] + P.loc[row["b"], row["a"]])
    again = Bootstrap(BOSS(), n_resamples=10, random_state=0).fit(X)
    assert list(again.pairs_.columns) == list(COLUMNS)
    assert (again.pairs_["adjacent"] >= 0.05).all()
    expected = again.confidence_.forward + 0.5 * again.confidence_.undirected
    pd.testing.assert_frame_equal(
        again.frequencies_, pd.DataFrame(expected, index=list(X.columns), columns=list(X.columns))
    )
