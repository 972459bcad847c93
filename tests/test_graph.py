"""The Graph type: an immutable value with named nodes, and its error messages."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from oracles import Mask
from polydag.errors import DataError
from polydag.graph import Edge, Graph, node_names

quick = settings(max_examples=40, deadline=None)


@pytest.fixture
def sprinkler() -> Graph:
    edges = [("season", "rain"), ("season", "sprinkler"), ("rain", "wet", 2.0), ("sprinkler", "wet", -0.5)]
    return Graph.from_edges(["season", "rain", "sprinkler", "wet"], edges)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """An arbitrary graph with weights of both signs."""
    A = draw(oracles.masks())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return Graph(A, [f"node {i}" for i in range(len(A))], np.where(A, rng.normal(size=A.shape), 0.0))


def test_arrays_are_read_only_and_not_shared_with_the_caller() -> None:
    adjacency, weights = np.array([[False, True], [False, False]]), np.array([[0.0, 2.0], [0.0, 0.0]])
    graph = Graph(adjacency, weights=weights)
    adjacency[1, 0], weights[0, 1] = True, 7.0
    assert graph.edges() == [Edge("x0", "x1", 2.0)]
    for array in (graph.adjacency, graph.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 1] = 0
    with pytest.raises(AttributeError):
        graph.names = ("a", "b")  # type: ignore[misc]


def test_edges_in_node_order_undirected_once(sprinkler: Graph) -> None:
    assert [str(edge) for edge in sprinkler.edges()] == [
        "season -> rain",
        "season -> sprinkler",
        "rain -> wet",
        "sprinkler -> wet",
    ]
    assert [edge.weight for edge in sprinkler.edges()] == [1.0, 1.0, 2.0, -0.5]
    cpdag = sprinkler.to_cpdag()
    assert [str(edge) for edge in cpdag.edges()] == [
        "season -- rain",
        "season -- sprinkler",
        "rain -> wet",
        "sprinkler -> wet",
    ]
    assert cpdag.n_edges == sprinkler.n_edges == 4
    assert cpdag.has_undirected
    assert not sprinkler.has_undirected


def test_neighbourhoods(sprinkler: Graph) -> None:
    assert sprinkler.parents("wet") == ["rain", "sprinkler"]
    assert sprinkler.children("season") == ["rain", "sprinkler"]
    assert sprinkler.neighbors("season") == []
    assert sprinkler.to_cpdag().neighbors("season") == ["rain", "sprinkler"]
    assert sprinkler.to_cpdag().children("season") == []
    assert sprinkler.to_cpdag().parents("wet") == ["rain", "sprinkler"]
    assert sprinkler.topological_order() == ["season", "rain", "sprinkler", "wet"]


def test_d_separation_by_names(sprinkler: Graph) -> None:
    assert not sprinkler.d_separated("rain", "sprinkler")
    assert sprinkler.d_separated("rain", "sprinkler", "season")
    assert not sprinkler.d_separated("rain", "sprinkler", ["season", "wet"])
    assert sprinkler.d_separated("season", ["wet"], given={"rain", "sprinkler"})
    with pytest.raises(DataError, match="rain is in a and given"):
        sprinkler.d_separated("rain", "wet", "rain")
    with pytest.raises(DataError, match="needs a DAG, but it has undirected edges"):
        sprinkler.to_cpdag().d_separated("rain", "wet")


@quick
@given(oracles.dags(), st.data())
def test_markov_blanket_is_the_smallest_set_that_separates_from_the_rest(
    A: Mask, data: st.DataObject
) -> None:
    graph = Graph(A)
    node = data.draw(st.sampled_from(graph.names))
    blanket = graph.markov_blanket(node)
    rest = set(graph.names) - set(blanket) - {node}
    assert graph.d_separated(node, rest, blanket)
    for name in blanket:
        assert not graph.d_separated(node, rest | {name}, set(blanket) - {name})


@quick
@given(graphs())
def test_values_survive_pickling_and_reordering(graph: Graph) -> None:
    copy = pickle.loads(pickle.dumps(graph))
    assert copy == graph
    assert hash(copy) == hash(graph)
    assert not copy.weights.flags.writeable
    backwards = graph.reorder(graph.names[::-1])
    assert set(backwards.edges()) == set(graph.edges()) or graph.has_undirected
    assert backwards.reorder(graph.names) == graph
    assert (backwards == graph) is (graph.n_nodes == 1)


@quick
@given(graphs())
def test_from_edges_undoes_edges(graph: Graph) -> None:
    directed = [edge[:3] for edge in graph.edges() if edge.directed]
    undirected = [edge[:3] for edge in graph.edges() if not edge.directed]
    again = Graph.from_edges(graph.names, directed, undirected)
    np.testing.assert_array_equal(again.adjacency, graph.adjacency)
    assert again.edges() == graph.edges()


def test_equality_is_of_names_edges_and_weights() -> None:
    graph = Graph.from_edges("ab", [("a", "b", 2.0)])
    assert graph == Graph.from_weights([[0, 2.0], [0, 0]], "ab")
    assert graph != Graph.from_edges("ab", [("a", "b", 3.0)])
    assert graph != Graph.from_edges("ac", [("a", "c", 2.0)])
    assert graph != "a -> b"
    assert hash(Graph.from_weights([[0.0, 2.0], [-0.0, 0.0]])) == hash(Graph.from_weights([[0, 2.0], [0, 0]]))


@quick
@given(graphs())
def test_pruning_reports_exactly_what_it_removed(graph: Graph) -> None:
    if graph.has_undirected:
        with pytest.raises(DataError, match="undirected"):
            graph.prune_cycles()
        return
    pruned, removed = graph.prune_cycles()
    assert pruned.is_dag
    assert set(pruned.edges()) | set(removed) == set(graph.edges())
    assert pruned.n_edges + len(removed) == graph.n_edges
    assert (removed == []) is graph.is_dag


def test_pruning_takes_the_weakest_edge_by_size_unless_it_is_kept() -> None:
    graph = Graph.from_edges("abc", [("a", "b", -0.1), ("b", "c", 0.5), ("c", "a", 2.0)])
    assert graph.prune_cycles()[1] == [Edge("a", "b", -0.1)]
    assert graph.prune_cycles(keep=[[0, 1, 0], [0, 0, 0], [0, 0, 0]])[1] == [Edge("b", "c", 0.5)]
    with pytest.raises(DataError, match="keep form a cycle"):
        graph.prune_cycles(keep=graph.adjacency)
    with pytest.raises(DataError, match=r"shape \(2, 2\)"):
        graph.prune_cycles(keep=np.zeros((2, 2)))


@quick
@given(oracles.dags(), st.integers(0, 2**32 - 1))
def test_a_weight_follows_its_edge_through_cpdag_and_back(A: Mask, seed: int) -> None:
    graph = Graph.from_weights(np.where(A, np.random.default_rng(seed).uniform(1, 2, A.shape), 0.0))
    there = graph.to_cpdag()
    back = there.to_dag()
    strengths = graph.weights + graph.weights.T
    for other in (there, back):
        np.testing.assert_array_equal(other.weights[other.adjacency], strengths[other.adjacency])
    assert back.is_dag
    assert back.to_cpdag() == there == there.meek()


def test_to_dag_refuses_what_is_no_cpdag() -> None:
    square = Graph.from_edges("abcd", undirected=["ab", "bc", "cd", "da"])
    with pytest.raises(DataError, match="not the CPDAG of any DAG"):
        square.to_dag()


def test_names() -> None:
    assert Graph(np.zeros((2, 2))).names == ("x0", "x1")
    assert Graph(np.zeros((2, 2)), [1, "b"]).names == ("1", "b")
    assert Graph(np.zeros((2, 2)), [1, "b"]).index(1) == 0
    with pytest.raises(DataError, match="more than once: a"):
        node_names(["a", "b", "a"], 3)
    with pytest.raises(DataError, match="2 names were given for 3"):
        node_names(["a", "b"], 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Graph(np.zeros((2, 3))), r"square; this one has shape \(2, 3\)"),
        (lambda: Graph(np.eye(2), ["a", "b"]), "an edge a -> a"),
        (lambda: Graph([[0, 1], [0, 0]], weights=[[0, np.nan], [0, 0]]), "x0 -> x1 is nan"),
        (
            lambda: Graph([[0, 0], [0, 0]], weights=[[0, 1], [0, 0]]),
            "x0 -> x1 has a weight but is not an edge",
        ),
        (lambda: Graph([[0, 1], [0, 0]], weights=[1.0]), "do not match 2 nodes"),
        (lambda: Graph.from_edges("ab", [("a", "c")]), "a -> c refers to c, which is not a node"),
        (lambda: Graph.from_edges("ab").parents("c"), "'c' is not a node"),
        (lambda: Graph.from_edges("ab").reorder("aa"), "every node exactly once"),
        (lambda: Graph.from_edges("ab").reorder("a"), "every node exactly once"),
        (lambda: Graph.from_edges("abc", ["ab", "bc", "ca"]).topological_order(), "it has a directed cycle"),
        (lambda: Graph.from_edges("ab", undirected=["ab"]).to_cpdag(), "it has undirected edges"),
    ],
)
def test_errors_say_which_node_or_edge(make: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()  # type: ignore[operator]


def test_repr_says_what_it_is(sprinkler: Graph) -> None:
    assert repr(sprinkler) == "<Graph: DAG with 4 nodes and 4 edges>"
    assert "partially directed" in repr(sprinkler.to_cpdag())
    assert "cyclic" in repr(Graph.from_edges("abc", ["ab", "bc", "ca"]))


def test_a_graph_without_nodes_works() -> None:
    empty = Graph(np.zeros((0, 0)))
    assert empty.is_dag
    assert empty.prune_cycles() == (empty, [])
    assert empty.to_cpdag().to_dag() == empty


@quick
@given(oracles.masks())
def test_is_dag_as_networkx(A: Mask) -> None:
    assert Graph(A).is_dag is nx.is_directed_acyclic_graph(oracles.as_networkx(A))


def test_printed_edges_are_rounded_and_values_are_not() -> None:
    (edge,) = Graph.from_edges(["a", "b"], [("a", "b", 2 / 3)]).edges()
    assert repr(edge) == "Edge(source='a', target='b', weight=0.666667, directed=True)"
    assert edge.weight == 2 / 3
