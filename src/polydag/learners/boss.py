"""Best order score search."""

from __future__ import annotations

from polydag.knowledge import Knowledge, Masks
from polydag.learners.equivalence import EquivalenceLearner, Found
from polydag.scores import Score
from polydag.search.boss.search import boss


class BOSS(EquivalenceLearner):
    """Best order score search: the CPDAG of an order of the variables that no single move improves.

    Scale-free and deterministic, as `GES`. On random sparse Gaussian models it was more accurate than GES on
    average, in 0.7 to 1.9 times the time up to 200 variables and 2.2 times at 1000.

    Parameters
    ----------
    penalty : float
        Of the BIC: each edge must pay for this many times its parameters' `½ log n`. Only for score "bic".
    score : {"auto", "bic", "bge", "bdeu", "bds", "k2"}
        "auto" is BIC for numbers and BDeu for labels. "bge" scores standardised columns.
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
    order_ : list of str
        The order that the search ended with.

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
    >>> from polydag.learners.boss import BOSS
    >>> dag = simulate.dag(10, expected_edges=10, random_state=1)
    >>> model = BOSS().fit(simulate.linear(dag, n=2000, random_state=1))
    >>> metrics.shd(true=dag.to_cpdag(), estimate=model.graph_)
    0
    """

    order_: list[str]

    def __init__(
        self,
        *,
        penalty: float = 1.0,
        score: str = "auto",
        knowledge: Knowledge | None = None,
        random_state: int | None = None,
    ) -> None:
        self.penalty = penalty
        self.score = score
        self.knowledge = knowledge
        self.random_state = random_state

    def _search(self, score: Score, masks: Masks | None) -> Found:
        result = boss(score, knowledge=masks)
        self.order_ = [score.names[i] for i in result.order]
        return result
