"""Counts of right and wrong edges, and everything computed from them.

A pair of nodes is counted once. An edge is *correct* where both graphs join the pair in the same way (the
same direction, or undirected in both) and *reversed* where both join it, but differently: the other way
round, or directed in one and undirected in the other. So undirected edges of a CPDAG are neither forgiven
nor counted twice, and `SHD = extra + missing + reversed` for DAGs and CPDAGs alike. A learner that returns
a CPDAG is compared with the true CPDAG (`true=dag.to_cpdag()`), or by `shd_cpdag`.

The linked-rows paper's tables call `correct + reversed` TP, `extra` FP and `missing` FN; their SHD and
Jaccard index are those here. A ratio with nothing to find or nothing claimed is that of a perfect answer:
recall is 1 for an empty truth, precision is 1 (FDR 0) for an empty estimate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polydag.graph import Graph
from polydag.metrics.matching import aligned


class Confusion(NamedTuple):
    """How the pairs of nodes that at least one of the two graphs joins fall out."""

    correct: int
    reversed: int
    extra: int
    missing: int

    @property
    def n_true(self) -> int:
        """Edges of the truth (`s0` in the linked-rows paper)."""
        return self.correct + self.reversed + self.missing

    @property
    def n_estimated(self) -> int:
        """Edges of the estimate."""
        return self.correct + self.reversed + self.extra

    @property
    def shd(self) -> int:
        """Structural Hamming distance."""
        return self.extra + self.missing + self.reversed

    @property
    def recall(self) -> float:
        """Correct edges among the true ones."""
        return _ratio(self.correct, self.n_true)

    @property
    def precision(self) -> float:
        """Correct edges among the estimated ones."""
        return _ratio(self.correct, self.n_estimated)

    @property
    def fdr(self) -> float:
        """Reversed and extra edges among the estimated ones."""
        return (self.reversed + self.extra) / max(self.n_estimated, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return _ratio(2 * self.correct, self.n_true + self.n_estimated)

    @property
    def jaccard(self) -> float:
        """Pairs joined in both graphs among those joined in either: `TP / (FP + s0)` of the skeletons."""
        return _ratio(self.correct + self.reversed, self.extra + self.n_true)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def confusion(*, true: Graph, estimate: Graph) -> Confusion:
    """Correct, reversed, extra and missing edges.

    Examples
    --------
    >>> true = Graph.from_edges("abcd", [("a", "b"), ("b", "c"), ("c", "d")])
    >>> estimate = Graph.from_edges("dcba", [("a", "b"), ("c", "b"), ("a", "d")])
    >>> confusion(true=true, estimate=estimate)
    Confusion(correct=1, reversed=1, extra=1, missing=1)
    """
    A, B = true.adjacency, aligned(true, estimate).adjacency
    in_true, in_estimate = A | A.T, B | B.T
    same = (A == B) & (A.T == B.T)

    def pairs(mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
        return int(np.triu(mask).sum())

    return Confusion(
        correct=pairs(in_true & same),
        reversed=pairs(in_true & in_estimate & ~same),
        extra=pairs(in_estimate & ~in_true),
        missing=pairs(in_true & ~in_estimate),
    )


def shd(*, true: Graph, estimate: Graph) -> int:
    """Structural Hamming distance: pairs of nodes that the two graphs join differently."""
    return confusion(true=true, estimate=estimate).shd


def shd_cpdag(*, true: Graph, estimate: Graph) -> int:
    """Structural Hamming distance between the CPDAGs; a graph that is not a DAG is taken as it is."""
    return shd(true=_class_of(true), estimate=_class_of(estimate))


def _class_of(graph: Graph) -> Graph:
    return graph.to_cpdag() if graph.is_dag else graph


def tpr(*, true: Graph, estimate: Graph) -> float:
    """True positive rate: correct edges among the true ones; the same as `recall`."""
    return recall(true=true, estimate=estimate)


def fdr(*, true: Graph, estimate: Graph) -> float:
    """False discovery rate: reversed and extra edges among the estimated ones."""
    return confusion(true=true, estimate=estimate).fdr


def precision(*, true: Graph, estimate: Graph) -> float:
    """Correct edges among the estimated ones."""
    return confusion(true=true, estimate=estimate).precision


def recall(*, true: Graph, estimate: Graph) -> float:
    """Correct edges among the true ones."""
    return confusion(true=true, estimate=estimate).recall


def f1(*, true: Graph, estimate: Graph) -> float:
    """The harmonic mean of precision and recall."""
    return confusion(true=true, estimate=estimate).f1


def jaccard(*, true: Graph, estimate: Graph) -> float:
    """The Jaccard index of the skeletons, `TP / (FP + s0)`."""
    return confusion(true=true, estimate=estimate).jaccard


def reversed_edges(*, true: Graph, estimate: Graph) -> int:
    """Edges in both graphs with another direction, or directed in one only."""
    return confusion(true=true, estimate=estimate).reversed
