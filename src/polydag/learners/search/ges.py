"""Greedy equivalence search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from polydag.knowledge import Knowledge, Masks
from polydag.learners.search.equivalence import EquivalenceLearner, Found
from polydag.parameters import TRUTH, Constraint, optional, whole
from polydag.scores import Score
from polydag.scores.penalty import Penalty
from polydag.search.ges.search import ges


class GES(EquivalenceLearner):
    """Greedy equivalence search: the CPDAG that no single change improves, by a decomposable score.

    The result does not depend on the units of the columns: directions come from conditional independences,
    not from variances. The search is deterministic.

    Parameters
    ----------
    penalty : float or "auto"
        The cost of an edge, for scores that have a penalty, such as "bic": this multiple of `½ log n`, or
        that of the extended BIC ("auto"), which grows with the number of variables.
    criterion : str
        A name in `polydag.scores.SCORES`, or "auto": BIC for numbers, BDeu for labels, and the degenerate
        Gaussian score where there are both. For numbers there are "bic" and "bge" (which scores standardised
        columns), for labels "bdeu", "bds" and "k2", for both "dg" and
        "cg" (conditional Gaussian).
    criterion_options : mapping, optional
        Options of the score, such as `{"equivalent_sample_size": 10}` for "bdeu".
    max_parents : int, optional
        No variable has more parents than this. Where counts are asked of a source that keeps its rows, it
        bounds the tables and is 3 by default.
    max_degree : int, optional
        No edge is added at a node that has this many.
    screen : bool, optional
        Whether two variables may be connected only if an edge between them improves the score of the empty
        graph. This halves the false edges where there are more columns than rows, which is when it is the
        default, and costs true edges where there are many rows.
    escape : bool
        Whether a search over orders continues from local optima, which are frequent in dense graphs. It has
        no effect with `max_degree`: the search is then that of Chickering.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    random_state : int, optional
        Accepted by every learner; this one is deterministic.

    Attributes
    ----------
    score_ : float
        The score of the class.
    penalty_ : float
        The penalty as a multiple of `½ log n`, where the score has one.
    dag_ : Graph
        One DAG of the class.
    notes_ : tuple of str
        Remarks on the data and on what was chosen automatically.

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

    constraints: ClassVar[Mapping[str, Constraint]] = {
        **EquivalenceLearner.constraints,
        "max_degree": optional(whole(least=0)),
        "screen": optional(TRUTH),
        "escape": TRUTH,
    }

    def __init__(
        self,
        *,
        penalty: Penalty = "auto",
        criterion: str = "auto",
        criterion_options: Mapping[str, Any] | None = None,
        max_parents: int | None = None,
        max_degree: int | None = None,
        screen: bool | None = None,
        escape: bool = True,
        knowledge: Knowledge | None = None,
        random_state: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.criterion = criterion
        self.criterion_options = criterion_options
        self.max_parents = max_parents
        self.max_degree = max_degree
        self.screen = screen
        self.escape = escape
        self.knowledge = knowledge
        self.random_state = random_state

    def _search(self, score: Score, masks: Masks | None, max_parents: int | None) -> Found:
        return ges(
            score,
            knowledge=masks,
            max_degree=self.max_degree,
            max_parents=max_parents,
            screen=self.screen,
            escape=self.escape,
        )
