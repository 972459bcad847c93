"""Greedy equivalence search."""

from __future__ import annotations

from typing import Any, Self

from polydag import orientation
from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.knowledge import Knowledge
from polydag.learners.base import StructureLearner
from polydag.learners.classes import class_and_member
from polydag.learners.inputs import discrete_counts, gaussian_statistics, is_discrete, knowledge_masks
from polydag.scores import SCORES, make_score
from polydag.search.ges import ges

_DISCRETE = ("bdeu", "bds", "k2")


class GES(StructureLearner):
    """Greedy equivalence search: the CPDAG that no single change improves, by a decomposable score.

    Scale-free: directions come from conditional independences, not from variances. Deterministic.

    Parameters
    ----------
    penalty : float
        Of the BIC: each edge must pay for this many times its parameters' `½ log n`. Only for score "bic".
    score : {"auto", "bic", "bge", "bdeu", "bds", "k2"}
        "auto" is BIC for numbers and BDeu for labels.
    max_degree : int, optional
        No edge is added at a node that has this many.
    screen : bool, optional
        Whether two variables may be joined only if one edge between them would gain in the empty graph. It
        halves the false edges where columns outnumber rows, which is when it is done by default, and costs
        true edges where rows abound.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    random_state : int, optional
        Taken by every learner; nothing is random here.

    Attributes
    ----------
    score_ : float
        The score of the class.
    dag_ : Graph
        One DAG of the class.

    Notes
    -----
    With `Regimes`, known interventions direct further edges (GIES). The weights of a Gaussian result are
    least-squares coefficients in `dag_`.

    References
    ----------
    Chickering, D. M. (2002). Optimal structure identification with greedy search.
    Hauser, A. and Bühlmann, P. (2012). Characterization and greedy learning of interventional Markov
    equivalence classes of directed acyclic graphs.

    Examples
    --------
    >>> from polydag import GES, metrics, simulate
    >>> dag = simulate.dag(10, expected_edges=10, random_state=1)
    >>> model = GES().fit(simulate.linear(dag, n=2000, random_state=1))
    >>> metrics.shd(true=dag.to_cpdag(), estimate=model.graph_)
    0
    """

    score_: float
    dag_: Graph

    def __init__(
        self,
        *,
        penalty: float = 1.0,
        score: str = "auto",
        max_degree: int | None = None,
        screen: bool | None = None,
        knowledge: Knowledge | None = None,
        random_state: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.score = score
        self.max_degree = max_degree
        self.screen = screen
        self.knowledge = knowledge
        self.random_state = random_state

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a DataFrame, an array, a `Table`, or statistics; `y` is ignored."""
        if self.score not in ("auto", *SCORES):
            raise UsageError(f"score must be one of auto, {', '.join(SCORES)}; got {self.score!r}.")
        labels = self.score in _DISCRETE if self.score != "auto" else is_discrete(X)
        stats = discrete_counts(X) if labels else gaussian_statistics(X)
        name = self.score if self.score != "auto" else "bdeu" if labels else "bic"
        options = {"penalty": self.penalty} if name == "bic" else {}
        result = ges(
            make_score(name, stats, **options),
            knowledge=knowledge_masks(self.knowledge, stats.names),
            max_degree=self.max_degree,
            screen=self.screen,
        )
        member = orientation.consistent_extension(result.adjacency)
        assert member is not None  # the search stays within classes of DAGs
        graph, self.dag_ = class_and_member(result.adjacency, member, stats)
        self.score_ = result.score
        self._keep(
            graph,
            raw_weights=graph.weights,
            history=result.trace,
            pruned=[],
            converged=True,
            n_iter=len(result.trace),
        )
        return self
