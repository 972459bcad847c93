"""PC on sufficient statistics or counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pandas as pd

from polydag.graph import Edge, Graph
from polydag.knowledge import Knowledge, joined, knowledge_masks
from polydag.learners.base import StructureLearner
from polydag.learners.held_out import HeldOutScore
from polydag.parameters import Constraint, Either, Number, one_of, optional, whole
from polydag.regression.class_weights import class_and_member
from polydag.search.pc import COLLIDERS, SeparatingSets, automatic_level, pc
from polydag.sources.checked import statistics, used_kinds
from polydag.sources.interface import Contents, Source
from polydag.stats.count_tables import bound_on_tables

_TESTS: dict[str, Contents] = {"fisher-z": "numbers", "g2": "labels", "dg": "mixed", "cg": "mixed"}


class PC(HeldOutScore, StructureLearner):
    """The PC algorithm: an edge is removed where some set of neighbours makes its ends independent.

    Order-independent (PC-stable, with colliders by vote): the order of the columns does not matter. Works on
    a table, on `GaussianStats` (a stream, a sum over parties, decorrelated rows) and on `CountTables`.

    Parameters
    ----------
    alpha : float or "auto"
        The level of the tests: an edge stays while all its p-values are at most this. "auto" is
        `3 / (d √n)` for n rows and d variables, at most 0.05.
    test : {"auto", "fisher-z", "g2", "dg", "cg"}
        Fisher's z for numbers, G² for labels, and the degenerate Gaussian test where there are both (labels
        as blocks of indicators, Wilks' Λ of their partial correlations). "auto" chooses by the kinds of the
        columns. "cg" is the likelihood-ratio test of the conditional Gaussian model, which also sees spreads
        and slopes that differ between labels.
    colliders : {"majority", "conservative"}
        `i - k - j` becomes a collider when k is in fewer than half, or in none, of the sets of neighbours
        that separate i and j. With "conservative", edges whose direction rests on a mixed answer stay
        undirected.
    max_conditioning : int, optional
        The most variables to condition on; without it the number of tests grows exponentially with the
        largest degree. Where counts are asked of a source that keeps its rows, it bounds the tables and is 3
        by default.
    knowledge : Knowledge, optional
        Required edges are kept and directed; pairs forbidden both ways are not tested; forbidden directions
        and tiers direct edges and leave out of the conditioning sets what cannot be a cause.
    n_jobs : int
        Threads; -1 for all cores. The result does not depend on it.
    random_state : int, optional
        Accepted by every learner; this one is deterministic.

    Attributes
    ----------
    graph_ : Graph
        With "majority", always the CPDAG of some DAG (directed further where knowledge says so).
    dag_ : Graph
        One DAG that agrees with it; weights are its least-squares coefficients (1 for labels).
    alpha_ : float
        The level that was used.
    pvalues_ : DataFrame
        The largest p-value among all tests of each pair, by name; NaN where none was made.
    separating_sets_ : mapping of frozenset to frozenset
        For each removed pair of names, the names that separate it.
    history_ : DataFrame
        level, tests, removed, skipped: one row a size of conditioning sets. A test is skipped when its set is
        too large for the rows: `n - |S| - 3 <= 0`, or for G² no or too many degrees of freedom.
    ambiguous_ : list of (name, name, name)
        Unshielded triples for which the tests do not decide whether they are colliders.
    conflicts_ : list of (name, name, name)
        Colliders found but not drawn, since more certain ones contradict them.
    notes_ : tuple of str
        Remarks on the data and on what was chosen automatically.

    Notes
    -----
    With `Regimes`, known interventions direct further edges: tests are made within each set of intervened
    variables, and edges are directed from variables that were set to those that respond.

    References
    ----------
    Spirtes, P., Glymour, C. and Scheines, R. (2000). Causation, prediction, and search.
    Colombo, D. and Maathuis, M. H. (2014). Order-independent constraint-based causal structure learning.

    Examples
    --------
    >>> from polydag import PC, metrics, simulate
    >>> dag = simulate.dag(8, n_edges=7, random_state=1)
    >>> model = PC().fit(simulate.linear(dag, n=2000, random_state=1))
    >>> metrics.shd_cpdag(true=dag, estimate=model.graph_)
    0
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "alpha": Either(one_of("auto"), Number(above=0, most=1 - 1e-12)),
        "test": one_of("auto", *_TESTS),
        "colliders": one_of(*COLLIDERS),
        "max_conditioning": optional(whole(least=0)),
        "n_jobs": whole(least=-1),
    }

    dag_: Graph
    alpha_: float
    notes_: tuple[str, ...]
    pvalues_: pd.DataFrame
    separating_sets_: SeparatingSets
    ambiguous_: list[tuple[str, str, str]]
    conflicts_: list[tuple[str, str, str]]

    def __init__(
        self,
        *,
        alpha: float | Literal["auto"] = 0.01,
        test: Literal["auto", "fisher-z", "g2", "dg", "cg"] = "auto",
        colliders: Literal["majority", "conservative"] = "majority",
        max_conditioning: int | None = None,
        knowledge: Knowledge | None = None,
        n_jobs: int = 1,
        random_state: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.test = test
        self.colliders = colliders
        self.max_conditioning = max_conditioning
        self.knowledge = knowledge
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, source: Source) -> None:
        contents = source.contents if self.test == "auto" else _TESTS[self.test]
        stats = _statistics(source, contents, self.test)
        self.kinds_ = used_kinds(source, contents)
        names = stats.names
        max_conditioning, self.notes_ = bound_on_tables("max_conditioning", self.max_conditioning, stats)
        self.alpha_ = automatic_level(stats) if self.alpha == "auto" else self.alpha
        result = pc(
            stats,
            alpha=self.alpha_,
            colliders=self.colliders,
            max_conditioning=max_conditioning,
            knowledge=knowledge_masks(joined(self.knowledge, source.knowledge), names),
            n_jobs=self.n_jobs,
        )
        graph, self.dag_ = class_and_member(result.adjacency, result.dag, stats)
        self.pvalues_ = pd.DataFrame(result.pvalues, index=list(names), columns=list(names))
        self.separating_sets_ = result.separating_sets
        self.ambiguous_ = list(result.ambiguous)
        self.conflicts_ = list(result.conflicts)
        self._keep(
            graph,
            raw_weights=graph.weights,
            history=result.levels,
            pruned=[(Edge(a, b, 1.0), "part of a cycle with knowledge") for a, b in result.dropped],
            converged=True,
            n_iter=len(result.levels),
            stats=stats,
        )


def _statistics(source: Source, contents: Contents, test: str) -> Any:
    """What a test for numbers, for labels or for both needs."""
    return statistics(source, "cells" if test == "cg" else contents)
