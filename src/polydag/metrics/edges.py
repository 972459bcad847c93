"""Edge counts and the metrics computed from them.

Each pair of nodes counts once. An edge is *correct* if both graphs join the pair in the same way (the same
direction, or undirected in both), *reversed* if they join it in opposite directions, and *undirected* if it
is directed in one graph and undirected in the other. Hence `SHD = extra + missing + reversed + undirected`
for DAGs and CPDAGs alike, and undirected edges are neither ignored nor counted twice. Compare a learned CPDAG
with the true CPDAG (`true=dag.to_cpdag()`), or use `shd_cpdag`.

Two questions are answered apart. *Adjacency* precision and recall ask which pairs are joined, whatever the
direction. *Arrowhead* precision and recall ask about the directions: an arrowhead of one graph is correct if
the other has the same directed edge; an undirected edge has none. Plain precision and recall ask for both at
once.

The tables of the linked-rows paper call `joined` TP, `extra` FP, `missing` FN and `reversed + undirected` R;
their SHD and Jaccard index are those computed here. Undefined ratios take the value of a perfect estimate:
recall is 1 if there is nothing to find, and precision is 1 (FDR 0) if nothing is claimed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polydag.arrays import Mask
from polydag.graph import Graph
from polydag.metrics.node_matching import aligned


class Confusion(NamedTuple):
    """Counts over the pairs of nodes that at least one of the two graphs joins."""

    correct: int
    reversed: int
    undirected: int
    extra: int
    missing: int

    @property
    def joined(self) -> int:
        """Number of pairs that both graphs join, in whatever direction."""
        return self.correct + self.reversed + self.undirected

    @property
    def n_true(self) -> int:
        """Number of edges in the true graph (`s0` in the linked-rows paper)."""
        return self.joined + self.missing

    @property
    def n_estimated(self) -> int:
        """Number of edges in the estimate."""
        return self.joined + self.extra

    @property
    def shd(self) -> int:
        """Structural Hamming distance."""
        return self.extra + self.missing + self.reversed + self.undirected

    @property
    def recall(self) -> float:
        """Proportion of true edges that are correct in the estimate."""
        return _ratio(self.correct, self.n_true)

    @property
    def precision(self) -> float:
        """Proportion of estimated edges that are correct."""
        return _ratio(self.correct, self.n_estimated)

    @property
    def fdr(self) -> float:
        """Proportion of estimated edges that are not correct."""
        return (self.n_estimated - self.correct) / max(self.n_estimated, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return _ratio(2 * self.correct, self.n_true + self.n_estimated)

    @property
    def jaccard(self) -> float:
        """Pairs joined in both graphs over pairs joined in either: `TP / (FP + s0)` of the skeletons."""
        return _ratio(self.joined, self.extra + self.n_true)

    @property
    def adjacency_precision(self) -> float:
        """Proportion of the pairs joined in the estimate that the true graph joins."""
        return _ratio(self.joined, self.n_estimated)

    @property
    def adjacency_recall(self) -> float:
        """Proportion of the pairs joined in the true graph that the estimate joins."""
        return _ratio(self.joined, self.n_true)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def confusion(*, true: Graph, estimate: Graph) -> Confusion:
    """Correct, reversed, undirected, extra and missing edges.

    Examples
    --------
    >>> true = Graph.from_edges("abcd", [("a", "b"), ("b", "c"), ("c", "d")])
    >>> estimate = Graph.from_edges("dcba", [("a", "b"), ("c", "b"), ("a", "d")])
    >>> confusion(true=true, estimate=estimate)
    Confusion(correct=1, reversed=1, undirected=0, extra=1, missing=1)
    """
    A, B = true.adjacency, aligned(true, estimate).adjacency
    in_true, in_estimate = A | A.T, B | B.T
    same = (A == B) & (A.T == B.T)
    opposite = (A == B.T) & (A.T == B) & ~same

    def pairs(mask: Mask) -> int:
        return int(np.triu(mask).sum())

    return Confusion(
        correct=pairs(in_true & same),
        reversed=pairs(in_true & opposite),
        undirected=pairs(in_true & in_estimate & ~same & ~opposite),
        extra=pairs(in_estimate & ~in_true),
        missing=pairs(in_true & ~in_estimate),
    )


def shd(*, true: Graph, estimate: Graph) -> int:
    """Structural Hamming distance: the number of node pairs that the two graphs join differently."""
    return confusion(true=true, estimate=estimate).shd


def shd_cpdag(*, true: Graph, estimate: Graph) -> int:
    """Structural Hamming distance between the CPDAGs; a graph that is not a DAG is used unchanged."""
    return shd(true=_class_of(true), estimate=_class_of(estimate))


def _class_of(graph: Graph) -> Graph:
    return graph.to_cpdag() if graph.is_dag else graph


def tpr(*, true: Graph, estimate: Graph) -> float:
    """True positive rate, the same as `recall`."""
    return recall(true=true, estimate=estimate)


def fdr(*, true: Graph, estimate: Graph) -> float:
    """False discovery rate: the proportion of estimated edges that are not correct."""
    return confusion(true=true, estimate=estimate).fdr


def precision(*, true: Graph, estimate: Graph) -> float:
    """Proportion of estimated edges that are correct."""
    return confusion(true=true, estimate=estimate).precision


def recall(*, true: Graph, estimate: Graph) -> float:
    """Proportion of true edges that are correct in the estimate."""
    return confusion(true=true, estimate=estimate).recall


def f1(*, true: Graph, estimate: Graph) -> float:
    """The harmonic mean of precision and recall."""
    return confusion(true=true, estimate=estimate).f1


def jaccard(*, true: Graph, estimate: Graph) -> float:
    """The Jaccard index of the skeletons, `TP / (FP + s0)`."""
    return confusion(true=true, estimate=estimate).jaccard


def reversed_edges(*, true: Graph, estimate: Graph) -> int:
    """Number of pairs that the two graphs join in opposite directions."""
    return confusion(true=true, estimate=estimate).reversed


class Arrowheads(NamedTuple):
    """Directed edges: how many both graphs have, and how many each has."""

    correct: int
    n_true: int
    n_estimated: int

    @property
    def precision(self) -> float:
        """Proportion of the estimate's arrowheads that the true graph has."""
        return _ratio(self.correct, self.n_estimated)

    @property
    def recall(self) -> float:
        """Proportion of the true graph's arrowheads that the estimate has."""
        return _ratio(self.correct, self.n_true)


def arrowheads(*, true: Graph, estimate: Graph) -> Arrowheads:
    """Compare the directed edges alone; undirected edges have no arrowhead.

    Examples
    --------
    >>> true = Graph.from_edges("abc", ["ab", "bc"])
    >>> arrowheads(true=true, estimate=Graph.from_edges("abc", ["ab"], undirected=["bc"]))
    Arrowheads(correct=1, n_true=2, n_estimated=1)
    """
    A, B = (g.adjacency & ~g.adjacency.T for g in (true, aligned(true, estimate)))
    return Arrowheads(int((A & B).sum()), int(A.sum()), int(B.sum()))
