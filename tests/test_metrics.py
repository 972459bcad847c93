"""Metrics, compared with cases worked by hand, brute force, scikit-learn and the definition of the AID."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, permutations

import gadjid
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score
from sklearn.metrics import roc_curve as sklearn_roc_curve

import oracles
from oracles import Mask
from polydag import metrics, orientation
from polydag.errors import DataError, UsageError
from polydag.graph import Graph
from polydag.stats import GaussianStats

quick = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def graph_pairs(draw: st.DrawFn, max_nodes: int = 6) -> tuple[Graph, Graph]:
    """Two graphs with directed and undirected edges; the second has its nodes in another order."""
    A = draw(oracles.masks(max_nodes))
    bits = draw(st.lists(st.booleans(), min_size=A.size, max_size=A.size))
    B = np.array(bits, dtype=bool).reshape(A.shape) & ~np.eye(len(A), dtype=bool)
    names = [f"n{i}" for i in range(len(A))]
    return Graph(A, names), Graph(B, names).reorder(draw(st.permutations(names)))


def hand_made() -> tuple[Graph, Graph]:
    """Correct a -> b; reversed b -> c; c -> d made undirected; missing d -> e; extra a -> e, b - d."""
    true = Graph.from_edges("abcde", ["ab", "bc", "cd", "de"])
    return true, Graph.from_edges("ecadb", ["ab", "cb", "ae"], undirected=["cd", "bd"])


def test_hand_made_case() -> None:
    true, estimate = hand_made()
    counts = metrics.confusion(true=true, estimate=estimate)
    assert counts == (1, 1, 1, 2, 1)
    assert (counts.adjacency_precision, counts.adjacency_recall) == (3 / 5, 3 / 4)
    assert metrics.arrowheads(true=true, estimate=estimate) == (1, 4, 3)
    assert (counts.n_true, counts.n_estimated) == (4, 5)
    assert metrics.shd(true=true, estimate=estimate) == 5
    assert metrics.reversed_edges(true=true, estimate=estimate) == 1
    assert metrics.tpr(true=true, estimate=estimate) == 1 / 4
    assert metrics.recall(true=true, estimate=estimate) == 1 / 4
    assert metrics.precision(true=true, estimate=estimate) == 1 / 5
    assert metrics.fdr(true=true, estimate=estimate) == 4 / 5
    assert metrics.f1(true=true, estimate=estimate) == pytest.approx(2 / 9)
    assert metrics.jaccard(true=true, estimate=estimate) == 3 / 6


def test_the_formulas_of_the_linked_rows_tables() -> None:
    """The paper's TP includes reversed edges: Table 2, GES on Toeplitz rows with s0 = 400 (rounded)."""
    counts = metrics.Confusion(correct=60, reversed=50, undirected=5, extra=329, missing=285)
    assert counts.n_true == 400
    assert counts.shd == 329 + (400 - 115) + 55
    assert counts.jaccard == pytest.approx(0.16, abs=0.005)


def edge_kind(graph: Graph, a: str, b: str) -> str:
    if b in graph.children(a):
        return "->"
    if b in graph.parents(a):
        return "<-"
    return "--" if b in graph.neighbors(a) else "none"


@quick
@given(graph_pairs())
def test_confusion_by_a_loop_over_pairs(pair: tuple[Graph, Graph]) -> None:
    true, estimate = pair
    correct = opposite = undirected = extra = missing = 0
    for a, b in combinations(true.names, 2):
        ours, theirs = edge_kind(true, a, b), edge_kind(estimate, a, b)
        if ours == theirs:
            correct += ours != "none"
        elif ours == "none":
            extra += 1
        elif theirs == "none":
            missing += 1
        elif "--" in (ours, theirs):
            undirected += 1
        else:
            opposite += 1
    counts = metrics.confusion(true=true, estimate=estimate)
    assert counts == (correct, opposite, undirected, extra, missing)
    assert counts.n_true == true.n_edges
    assert counts.n_estimated == estimate.n_edges
    assert counts.fdr == pytest.approx(1 - counts.precision)
    assert metrics.shd(true=true, estimate=estimate) == extra + missing + opposite + undirected
    if counts.correct:
        assert counts.f1 == pytest.approx(2 / (1 / counts.precision + 1 / counts.recall))


@quick
@given(graph_pairs())
def test_shd_is_a_distance_and_swapping_swaps_precision_and_recall(pair: tuple[Graph, Graph]) -> None:
    true, estimate = pair
    assert metrics.shd(true=true, estimate=true) == 0
    assert metrics.shd(true=true, estimate=estimate) == metrics.shd(true=estimate, estimate=true)
    assert metrics.recall(true=true, estimate=estimate) == metrics.precision(true=estimate, estimate=true)
    assert metrics.jaccard(true=true, estimate=estimate) == metrics.jaccard(true=estimate, estimate=true)


@quick
@given(oracles.dags(), seeds)
def test_shd_as_gadjid(A: Mask, seed: int) -> None:
    B = A[np.ix_(order := np.random.default_rng(seed).permutation(len(A)), order)]
    _, expected = gadjid.shd(A.astype(np.int8), B.astype(np.int8)) if len(A) > 1 else (0.0, 0)
    assert metrics.shd(true=Graph(A), estimate=Graph(B)) == expected


@quick
@given(graph_pairs())
def test_adjacencies_are_those_of_skeletons_and_arrowheads_those_of_directed_edges(
    pair: tuple[Graph, Graph],
) -> None:
    def undirected(graph: Graph) -> Graph:
        return Graph(graph.adjacency | graph.adjacency.T, graph.names)

    def directed(graph: Graph) -> Graph:
        return Graph(graph.adjacency & ~graph.adjacency.T, graph.names)

    true, estimate = pair
    counts = metrics.confusion(true=true, estimate=estimate)
    skeletons = metrics.confusion(true=undirected(true), estimate=undirected(estimate))
    assert (counts.adjacency_precision, counts.adjacency_recall) == (skeletons.precision, skeletons.recall)
    heads = metrics.arrowheads(true=true, estimate=estimate)
    arrows = metrics.confusion(true=directed(true), estimate=directed(estimate))
    assert (heads.precision, heads.recall) == (arrows.precision, arrows.recall)


def test_a_perfect_skeleton_without_directions_finds_every_adjacency_and_no_arrowhead() -> None:
    true = Graph.from_edges("abc", ["ab", "bc"])
    table = metrics.compare(true=true, estimate=Graph.from_edges("abc", undirected=["ab", "bc"]))
    assert (table["adjacency_precision"], table["adjacency_recall"]) == (1.0, 1.0)
    assert (table["arrowhead_precision"], table["arrowhead_recall"]) == (1.0, 0.0)
    assert (table["reversed"], table["undirected"]) == (0, 2)


def test_shd_cpdag_is_zero_exactly_between_equivalent_dags() -> None:
    for A, B in combinations(oracles.all_dags(3), 2):
        true, estimate = Graph(A), Graph(B)
        distance = metrics.shd_cpdag(true=true, estimate=estimate)
        assert (distance == 0) is (oracles.markov_key(A) == oracles.markov_key(B))
        assert distance == metrics.shd(true=true.to_cpdag(), estimate=estimate.to_cpdag())
    assert metrics.shd_cpdag(true=true, estimate=true.to_cpdag()) == 0


def test_nothing_to_find_and_nothing_claimed() -> None:
    empty, edge = Graph.from_edges("ab"), Graph.from_edges("ab", ["ab"])
    assert metrics.confusion(true=empty, estimate=empty)[:] == (0, 0, 0, 0, 0)
    for name in ("tpr", "recall", "precision", "f1", "jaccard"):
        assert getattr(metrics, name)(true=empty, estimate=empty) == 1.0
    assert metrics.fdr(true=edge, estimate=empty) == 0.0
    assert metrics.precision(true=edge, estimate=empty) == 1.0
    assert metrics.recall(true=edge, estimate=empty) == 0.0
    assert metrics.recall(true=empty, estimate=edge) == 1.0
    assert metrics.fdr(true=empty, estimate=edge) == 1.0


GRAPH_METRICS = [
    metrics.confusion,
    metrics.shd,
    metrics.shd_cpdag,
    metrics.tpr,
    metrics.fdr,
    metrics.precision,
    metrics.recall,
    metrics.f1,
    metrics.jaccard,
    metrics.reversed_edges,
    metrics.parent_aid,
    metrics.ancestor_aid,
    metrics.compare,
]


@pytest.mark.parametrize("metric", GRAPH_METRICS, ids=lambda metric: metric.__name__)
def test_arguments_are_keywords_and_nodes_are_matched_by_name(metric: Callable[..., object]) -> None:
    graph = Graph.from_edges("abcd", ["ab", "bc", "ad"])
    other = Graph.from_edges("abcd", ["ba", "bc", "cd"])
    with pytest.raises(TypeError):
        metric(graph, other)
    expected = metric(true=graph, estimate=other)
    assert metric(true=graph, estimate=other.reorder("dbca")) == expected
    assert metric(true=graph.reorder("cdab"), estimate=other) == expected
    with pytest.raises(DataError, match="the estimate lacks d; the true graph lacks e"):
        metric(true=graph, estimate=Graph.from_edges("abce", ["ab"]))
    if metric is not metrics.shd_cpdag:
        with pytest.raises(UsageError, match="estimate must be a Graph, not ndarray"):
            metric(true=graph, estimate=other.weights)


def test_compare_holds_every_metric() -> None:
    true, estimate = Graph.from_edges("abc", ["ab", "bc"]), Graph.from_edges("abc", ["ab", "cb"])
    table = metrics.compare(true=true, estimate=estimate)
    for name in ("shd", "shd_cpdag", "tpr", "fdr", "precision", "recall", "f1", "jaccard"):
        assert table[name] == getattr(metrics, name)(true=true, estimate=estimate)
    assert (table["correct"], table["reversed"], table["extra"], table["missing"]) == (1, 1, 0, 0)
    assert (table["true_edges"], table["estimated_edges"]) == (2, 2)
    for name in ("parent_aid", "ancestor_aid"):
        assert table[name] == getattr(metrics, name)(true=true, estimate=estimate).normalized > 0


def test_compare_says_nan_where_the_aid_is_not_defined() -> None:
    square = Graph.from_edges("abcd", undirected=["ab", "bc", "cd", "da"])
    table = metrics.compare(true=Graph.from_edges("abcd", ["ab"]), estimate=square)
    assert math.isnan(table["parent_aid"])
    assert math.isnan(table["ancestor_aid"])
    assert table["shd_cpdag"] == 3


# --- rankings -----------------------------------------------------------------------------------------


@st.composite
def scored(draw: st.DrawFn) -> tuple[Graph, np.ndarray]:
    """A graph with at least one edge and one non-edge, and scores with many ties."""
    A = draw(oracles.masks())
    off = ~np.eye(len(A), dtype=bool)
    assume(A.any() and not A[off].all())
    rng = np.random.default_rng(draw(seeds))
    levels = draw(st.sampled_from([1, 2, 4, 10**9]))
    return Graph(A, [f"n{i}" for i in range(len(A))]), rng.integers(0, levels, size=A.shape) / levels


@quick
@given(scored(), seeds)
def test_rankings_as_scikit_learn(case: tuple[Graph, np.ndarray], seed: int) -> None:
    true, scores = case
    off = ~np.eye(true.n_nodes, dtype=bool)
    labels, values = true.adjacency[off], scores[off]
    assert metrics.roc_auc(true=true, scores=scores) == pytest.approx(roc_auc_score(labels, values))
    expected = average_precision_score(labels, values)
    assert metrics.average_precision(true=true, scores=scores) == pytest.approx(expected)
    roc = metrics.roc_curve(true=true, scores=scores)
    for ours, theirs in zip(roc, sklearn_roc_curve(labels, values, drop_intermediate=False), strict=True):
        np.testing.assert_allclose(ours, theirs)
    pr = metrics.pr_curve(true=true, scores=scores)
    precision, recall, thresholds = precision_recall_curve(labels, values)
    np.testing.assert_allclose(pr.recall, recall[:-1][::-1])
    np.testing.assert_allclose(pr.precision, precision[:-1][::-1])
    np.testing.assert_allclose(pr.thresholds, thresholds[::-1])
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(scores, index=true.names, columns=true.names)
    table = table.iloc[rng.permutation(len(table)), rng.permutation(len(table))]
    assert metrics.roc_auc(true=true, scores=table) == metrics.roc_auc(true=true, scores=scores)


def test_rankings_by_hand() -> None:
    """One true edge: two non-edges score higher, one is tied with it, two score lower."""
    true = Graph.from_edges("abc", ["ab"])
    scores = np.array([[9.0, 3.0, 4.0], [5.0, 9.0, 3.0], [2.0, 1.0, 9.0]])
    assert metrics.roc_auc(true=true, scores=scores) == pytest.approx(2.5 / 5)
    assert metrics.average_precision(true=true, scores=scores) == pytest.approx(1 / 4)
    assert metrics.roc_auc(true=true, scores=true.adjacency) == 1.0
    assert metrics.roc_auc(true=true, scores=true.adjacency.T) == pytest.approx(0.4)
    assert metrics.roc_auc(true=true, scores=np.where(true.adjacency, 0.0, -np.inf)) == 1.0


def test_rankings_refuse_what_they_cannot_judge() -> None:
    true = Graph.from_edges("ab", ["ab"])
    with pytest.raises(DataError, match="no edges"):
        metrics.roc_auc(true=Graph.from_edges("ab"), scores=np.zeros((2, 2)))
    with pytest.raises(DataError, match="every pair in both directions"):
        metrics.roc_auc(true=Graph.from_edges("ab", undirected=["ab"]), scores=np.zeros((2, 2)))
    with pytest.raises(DataError, match="b -> a is missing"):
        metrics.average_precision(true=true, scores=[[np.nan, 1], [np.nan, 0]])
    with pytest.raises(DataError, match=r"shape \(3, 3\) do not match 2 nodes"):
        metrics.roc_auc(true=true, scores=np.zeros((3, 3)))
    with pytest.raises(DataError, match=r"\(its columns\) lacks b; the true graph lacks c"):
        metrics.roc_auc(
            true=true, scores=pd.DataFrame(np.zeros((2, 2)), index=list("ab"), columns=list("ac"))
        )
    with pytest.raises(TypeError):
        metrics.roc_auc(true, np.zeros((2, 2)))  # type: ignore[misc]


# --- adjustment identification distance -----------------------------------------------------------------


def valid_adjustment(A: Mask, t: int, y: int, given_: set[int]) -> bool:
    """In a DAG: the set has no descendant of a causal path, and blocks every other path."""
    causal = list(oracles.simple_paths(A, t, y))
    forbidden = {d for path in causal for node in path[1:] for d in oracles.descendants(A, node)}
    others = (path for path in oracles.simple_paths(A | A.T, t, y) if path not in causal)
    return not given_ & forbidden and all(oracles.path_blocked(A, path, given_) for path in others)


def amenable(P: Mask, t: int, y: int) -> bool:
    """Every possibly directed path from t to y starts with a directed edge."""
    directed = P & ~P.T
    for path in oracles.simple_paths(P, t, y):
        possible = not any(directed[b, a] for a, b in combinations(path, 2))
        if possible and not directed[path[0], path[1]]:
            return False
    return True


def brute_force_aid(true: tuple[Mask, ...], estimate: tuple[Mask, ...], kind: str) -> int:
    """The definition, over the DAGs of two equivalence classes (single DAGs if DAGs are compared)."""
    T, G = oracles.union(true), oracles.union(estimate)
    directed = oracles.as_networkx(G & ~G.T)
    mistakes = 0
    for t, y in permutations(range(len(T)), 2):
        adjust = set(directed.predecessors(t)) if kind == "parent" else nx.ancestors(directed, t)
        possible = any(y in oracles.descendants(dag, t) for dag in estimate)
        no_effect = y in adjust if kind == "parent" else not possible
        if no_effect:
            right = not any(y in oracles.descendants(dag, t) for dag in true)
        elif not amenable(G, t, y):
            right = not amenable(T, t, y)
        else:
            right = amenable(T, t, y) and all(valid_adjustment(dag, t, y, adjust) for dag in true)
        mistakes += not right
    return mistakes


@pytest.mark.parametrize("kind", ["parent", "ancestor"])
@pytest.mark.parametrize("level", ["dag", "cpdag"])
def test_aid_by_its_definition(kind: str, level: str) -> None:
    """All pairs of three nodes, a sample of pairs of four; swapped arguments or directions would fail."""
    distance = {"parent": metrics.parent_aid, "ancestor": metrics.ancestor_aid}[kind]
    rng = np.random.default_rng(0)
    asymmetric = 0
    for n in (3, 4):
        groups = oracles.equivalence_classes(n) if level == "cpdag" else [(A,) for A in oracles.all_dags(n)]
        pairs = [(a, b) for a in groups for b in groups]
        if n == 4:
            pairs = [pairs[i] for i in rng.choice(len(pairs), size=100, replace=False)]
        for a, b in pairs:
            true, estimate = Graph(oracles.union(a)), Graph(oracles.union(b))
            result = distance(true=true, estimate=estimate)
            assert result.mistakes == brute_force_aid(a, b, kind)
            assert result.normalized == pytest.approx(result.mistakes / (n * (n - 1)))
            asymmetric += result != distance(true=estimate, estimate=true)
    assert asymmetric > 20


def test_aid_by_hand() -> None:
    """If b causes a in the estimate, a has no effect (wrong) and b needs no adjustment (also wrong)."""
    forwards, backwards = Graph.from_edges("ab", ["ab"]), Graph.from_edges("ab", ["ba"])
    empty = Graph.from_edges("ab")
    for distance in (metrics.parent_aid, metrics.ancestor_aid):
        assert distance(true=forwards, estimate=forwards) == (0.0, 0)
        assert distance(true=forwards, estimate=backwards) == (1.0, 2)
        assert distance(true=Graph.from_edges("a"), estimate=Graph.from_edges("a")) == (0.0, 0)
    # Without parents there is no adjustment, which is right for the effect of a but not for that of b.
    assert metrics.parent_aid(true=forwards, estimate=empty).mistakes == 1
    assert metrics.parent_aid(true=empty, estimate=forwards).mistakes == 0


def test_a_supergraph_in_order_makes_no_parent_aid_mistake_but_its_reverse_does() -> None:
    """Adjusting for too many parents is valid, so this fails if rows and columns are transposed."""
    rng = np.random.default_rng(1)
    full = np.triu(np.ones((8, 8), dtype=bool), 1)
    sparse = full & (rng.random((8, 8)) < 0.4)
    true, estimate = Graph(sparse), Graph(full)
    assert metrics.parent_aid(true=true, estimate=estimate).mistakes == 0
    assert metrics.parent_aid(true=Graph(sparse.T), estimate=estimate).mistakes > 0
    fork = Graph.from_edges("abc", ["ab", "ac"])
    collider = Graph.from_edges("abc", ["ba", "ca"])
    assert metrics.parent_aid(true=fork, estimate=Graph.from_edges("abc", ["ab", "ac", "bc"])).mistakes == 0
    assert (
        metrics.parent_aid(true=collider, estimate=Graph.from_edges("abc", ["ba", "ca", "cb"])).mistakes == 0
    )


@pytest.mark.parametrize(
    "graph",
    [
        Graph.from_edges("abc", ["ab", "bc", "ca"]),
        Graph.from_edges("abc", ["bc"], undirected=["ab"]),
        Graph.from_edges("abcd", undirected=["ab", "bc", "cd", "da"]),
    ],
    ids=["cycle", "no CPDAG", "square"],
)
def test_aid_refuses_what_is_neither_dag_nor_cpdag(graph: Graph) -> None:
    dag = Graph.from_edges(graph.names)
    with pytest.raises(DataError, match="The estimate is neither a DAG nor a CPDAG"):
        metrics.parent_aid(true=dag, estimate=graph)
    with pytest.raises(DataError, match="The true graph is neither"):
        metrics.ancestor_aid(true=graph, estimate=dag)


# --- varsortability -------------------------------------------------------------------------------------


def with_variances(**variances: float) -> GaussianStats:
    return GaussianStats.from_covariance(np.diag(list(variances.values())), 10, names=variances)


def test_varsortability_by_hand() -> None:
    chain = Graph.from_edges("abc", ["ab", "bc"])
    assert metrics.varsortability(true=chain, stats=with_variances(a=1, b=2, c=3)) == 1.0
    assert metrics.varsortability(true=chain, stats=with_variances(c=1, b=2, a=3)) == 0.0
    assert metrics.varsortability(true=chain, stats=with_variances(a=1, b=3, c=2)) == pytest.approx(2 / 3)
    assert metrics.varsortability(true=chain, stats=with_variances(a=1, b=1 + 1e-12, c=1)) == 0.5


@quick
@given(oracles.dags(), seeds)
def test_varsortability_by_enumerating_paths(A: Mask, seed: int) -> None:
    assume(A.any())
    X = np.random.default_rng(seed).normal(size=(20, len(A)))
    variance = X.var(axis=0)
    ends = {
        (a, b, len(path)) for a, b in permutations(range(len(A)), 2) for path in oracles.simple_paths(A, a, b)
    }
    expected = np.mean([variance[a] < variance[b] for a, b, _ in ends])
    stats = GaussianStats.from_data(X)
    true = Graph(A)
    assert metrics.varsortability(true=true, stats=stats) == pytest.approx(expected)
    assert metrics.varsortability(true=true, stats=stats.select(stats.names[::-1])) == pytest.approx(expected)
    assert metrics.varsortability(true=true, stats=stats.standardized()) == 0.5


def test_varsortability_of_equal_noise_is_high() -> None:
    """Why least squares looks good on simulated data: variances increase along the causal order."""
    rng = np.random.default_rng(0)
    W = np.triu(rng.uniform(0.5, 2, (10, 10)) * rng.choice([-1, 1], (10, 10)), 1)
    mixing = np.linalg.inv(np.eye(10) - W)
    stats = GaussianStats.from_covariance(mixing.T @ mixing, 100)
    assert metrics.varsortability(true=Graph.from_weights(W), stats=stats) > 0.9


def test_varsortability_refuses_what_has_no_directed_paths() -> None:
    stats = with_variances(a=1, b=2)
    with pytest.raises(DataError, match="needs a DAG"):
        metrics.varsortability(true=Graph.from_edges("ab", undirected=["ab"]), stats=stats)
    with pytest.raises(DataError, match="with edges"):
        metrics.varsortability(true=Graph.from_edges("ab"), stats=stats)
    with pytest.raises(DataError, match="the data lacks c"):
        metrics.varsortability(true=Graph.from_edges("abc", ["ab"]), stats=stats)


def test_the_brute_force_cpdags_are_cpdags() -> None:
    for members in oracles.equivalence_classes(3):
        np.testing.assert_array_equal(orientation.cpdag(members[0]), oracles.union(members))
