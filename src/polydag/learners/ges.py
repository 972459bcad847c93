"""Greedy equivalence search."""

from __future__ import annotations

from polydag.knowledge import Knowledge, Masks
from polydag.learners.equivalence import EquivalenceLearner, Found
from polydag.scores import Score
from polydag.search.ges.search import ges


class GES(EquivalenceLearner):
    """Greedy equivalence search: the CPDAG that no single change improves, by a decomposable score.

    Scale-free: directions come from conditional independences, not from variances. Deterministic.

    Parameters
    ----------
    penalty : float
        Of the BIC: each edge must pay for this many times its parameters' `½ log n`. Only for score "bic".
    score : {"auto", "bic", "bge", "bdeu", "bds", "k2"}
        "auto" is BIC for numbers and BDeu for labels. "bge" scores standardised columns.
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

    def _search(self, score: Score, masks: Masks | None) -> Found:
        return ges(score, knowledge=masks, max_degree=self.max_degree, screen=self.screen)
