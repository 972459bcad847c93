"""Beyond local optima: climbs over classes of DAGs and over orders, in turn.

Where no operator of GES gains, moving variables in an order of the class often does, and where no move gains,
operators on the class of that order may. With background knowledge, what is found without it is one more
start: a search that may not pass through forbidden graphs can end far from the best one that is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polydag import orientation
from polydag.arrays import Mask
from polydag.knowledge import Masks
from polydag.scores import Score
from polydag.scores.gaussian.form import GaussianForm
from polydag.search.boss.order_search import OrderSearch, first_order
from polydag.search.ges.class_search import PHASES, EquivalenceSearch


class Climber:
    """Climbs from different starts, and the best class among what they found.

    Parameters
    ----------
    score : Score
        What is climbed.
    knowledge : Masks, optional
        Required and forbidden edges.
    screen : bool
        Whether pairs that do not gain alone are left out.
    max_degree, max_parents : int, optional
        Bounds, as in `ges`.

    Attributes
    ----------
    cheap : bool
        Whether one start more costs little: families are scored from moments at hand. Counts may have to be
        asked of parties, family by family, and one table must give what its parties give.
    """

    best: EquivalenceSearch

    def __init__(
        self,
        score: Score,
        knowledge: Masks | None,
        screen: bool,
        max_degree: int | None = None,
        max_parents: int | None = None,
    ) -> None:
        self.score, self.knowledge, self.screen = score, knowledge, screen
        self.max_degree, self.max_parents = max_degree, max_parents
        self.cheap = isinstance(getattr(score, "form", None), GaussianForm)
        self._latest: EquivalenceSearch | None = None
        self._orders: OrderSearch | None = None

    @property
    def orders(self) -> OrderSearch:
        """The search over orders, which keeps what it computed from one start to the next."""
        if self._orders is None:
            self._orders = OrderSearch(self.score, self.knowledge, self.screen, self.max_parents)
        return self._orders

    def climb(self, start: Mask | None = None, phases: Sequence[str] = PHASES) -> EquivalenceSearch:
        """Climb over classes from that of a DAG."""
        search = EquivalenceSearch(
            self.score,
            self.knowledge,
            self.screen,
            max_degree=self.max_degree,
            max_parents=self.max_parents,
            start=start,
        )
        self._latest = search
        search.climb(phases)
        if not hasattr(self, "best") or search.total > self.best.total:
            self.best = search
        return search

    def climb_from_order(self, order: Sequence[int]) -> EquivalenceSearch:
        """Climb over orders, then over classes, then both in turn until neither gains."""
        self.orders.start(order)
        self.orders.run()
        return self.alternate(self.climb(self.orders.dag()))

    def alternate(self, found: EquivalenceSearch) -> EquivalenceSearch:
        """Climb over orders and over classes in turn, from a class, until that gains nothing."""
        while True:
            order = orientation.topological_order(found.member())
            assert order is not None
            self.orders.start(order)
            self.orders.run()
            other = self.climb(self.orders.dag())
            if other.total <= found.total + other.tolerance:
                return found
            found = other

    def from_free_search(self) -> EquivalenceSearch:
        """Climb from what is found without the knowledge, or from what the knowledge leaves of it."""
        assert self.knowledge is not None
        free = Climber(self.score, None, self.screen, self.max_degree, self.max_parents)
        free.alternate(free.climb())
        found = admitted(free.best.G.A, self.knowledge)
        if found is not None and self._few_parents(found):
            return self.climb(found)
        order = orientation.topological_order(free.best.member())
        self.orders.start(first_order(self.knowledge, np.argsort(np.array(order))))
        self.orders.run()
        return self.climb(self.orders.dag())

    def _few_parents(self, dag: Mask) -> bool:
        """Whether a DAG keeps the bound: directing edges by the knowledge can add parents to a node."""
        return self.max_parents is None or int(dag.sum(axis=0).max(initial=0)) <= self.max_parents

    def so_far(self) -> EquivalenceSearch:
        """The best class, even where no climb has ended."""
        if self._latest is not None and hasattr(self, "best"):
            return self.best
        if self._latest is None:
            start = None if self._orders is None else self._orders.dag()
            return EquivalenceSearch(self.score, self.knowledge, self.screen, start=start)
        # An interrupted step may have changed the graph and not yet the score.
        return EquivalenceSearch(self.score, self.knowledge, self.screen, start=self._latest.member())


def admitted(A: Mask, masks: Masks) -> Mask | None:
    """A DAG with the edges of the class, no forbidden and all required directions, if there is one."""
    A = A & ~(masks.forbidden & A.T) & ~masks.required.T
    if (masks.required & ~A).any() or (masks.forbidden & A).any():
        return None
    dag = orientation.consistent_extension(orientation.meek(A))
    if dag is None or (masks.required & ~dag).any() or (masks.forbidden & dag).any():
        return None
    return dag
