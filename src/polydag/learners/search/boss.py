"""Best order score search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polydag.knowledge import Knowledge, Masks
from polydag.learners.search.equivalence import EquivalenceLearner, Found
from polydag.scores import Score
from polydag.scores.penalty import Penalty
from polydag.search.boss.search import boss


class BOSS(EquivalenceLearner):
    """Best order score search: the CPDAG of an order of the variables that no single move improves.

    Like `GES`, it does not depend on the units of the columns, and is deterministic.

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
    order_ : list of str
        The order in which the search ended.

    Notes
    -----
    With `Regimes`, known interventions direct further edges, as in GIES. The weights of a Gaussian result are
    least-squares coefficients in `dag_`.

    References
    ----------
    Andrews, B., Ramsey, J., Sánchez-Romero, R., Camchong, J. and Kummerfeld, E. (2023). Fast scalable and
    accurate discovery of DAGs using the best order score search and grow-shrink trees.

    Examples
    --------
    >>> from polydag import metrics, simulate
    >>> from polydag.learners.search.boss import BOSS
    >>> dag = simulate.dag(10, expected_edges=10, random_state=1)
    >>> model = BOSS().fit(simulate.linear(dag, n=2000, random_state=1))
    >>> metrics.shd(true=dag.to_cpdag(), estimate=model.graph_)
    0
    """

    order_: list[str]

    def __init__(
        self,
        *,
        penalty: Penalty = "auto",
        criterion: str = "auto",
        criterion_options: Mapping[str, Any] | None = None,
        max_parents: int | None = None,
        knowledge: Knowledge | None = None,
        random_state: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.criterion = criterion
        self.criterion_options = criterion_options
        self.max_parents = max_parents
        self.knowledge = knowledge
        self.random_state = random_state

    def _search(self, score: Score, masks: Masks | None, max_parents: int | None) -> Found:
        result = boss(score, knowledge=masks, max_parents=max_parents)
        self.order_ = [score.names[i] for i in result.order]
        return result
