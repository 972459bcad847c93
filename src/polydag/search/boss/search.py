"""Best order score search (Andrews, Ramsey, Sánchez-Romero, Camchong and Kummerfeld 2023), with restarts.

`polydag.search.boss.order_search` moves variables until no move gains. The phases of GES go on from the
class of that order, and the order search from theirs, in turn; the last backward phase makes the result exact
in the limit of many rows. Both stop at local optima. So several orders are tried where variables are few, and
two where many variables have few candidates each:

1. from the variable with the fewest others that would gain as its only parent to the one with the most;
2. an order of what GES finds;
3. random permutations, always the same;

and with background knowledge what is found without it. The second and third are for Gaussian scores, which
need no more than moments. Counts may have to be asked of parties, family by family, and one table must give
what its parties give: the order is improved, its class by the backward phase, and both in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polydag import orientation
from polydag.arrays import Mask
from polydag.computing import interruption
from polydag.knowledge import Masks
from polydag.parameters import check, optional, whole
from polydag.scores.penalty import Penalty
from polydag.search.boss.order_search import OrderSearch, Sweep, first_order
from polydag.search.climber import Climber
from polydag.search.usual_score import as_score

_MOST_STARTS = 8
_STARTS_TIMES_VARIABLES = 300
_LIGHT = 2**21  # entries of lists of candidates, up to which a search is light: about half a second


@dataclass(frozen=True, eq=False)
class BOSSResult:
    """The result of a search.

    Attributes
    ----------
    adjacency : bool array of shape (d, d)
        The essential graph (CPDAG), `[i, j]` is `i -> j`, both entries true where undirected; with background
        knowledge, oriented further by it.
    score : float
        The score of the class: that of any of its DAGs.
    order : tuple of int
        An order of the variables that belongs to the class.
    trace : list of Sweep
        The score after each sweep.
    complete : bool
        False if the search was interrupted (Ctrl-C): the result is the best class found so far.
    """

    adjacency: Mask
    score: float
    order: tuple[int, ...]
    trace: list[Sweep]
    complete: bool = True


def boss(
    source: Any,
    *,
    penalty: Penalty = "auto",
    knowledge: Masks | None = None,
    max_parents: int | None = None,
    screen: bool | None = None,
    partial: bool = True,
) -> BOSSResult:
    """Search over orders of the variables.

    Parameters
    ----------
    source : GaussianStats, CountTables, Regimes of either, or a score
        As for `polydag.search.ges.search.ges`; Gaussian scores run compiled.
    penalty : float or "auto"
        The penalty discount of BIC, or the extended BIC, where `source` is not a score.
    knowledge : Masks, optional
        Required and forbidden edges, from `Knowledge.masks`.
    max_parents : int, optional
        No family has more parents than this.
    screen : bool, optional
        Whether two variables may be connected only if an edge between them improves the score of the empty
        graph; by default if there are more columns than rows, as in `ges`.
    partial : bool
        Whether Ctrl-C ends the search with the best class found so far. Otherwise it is passed on.

    References
    ----------
    Andrews, B., Ramsey, J., Sánchez-Romero, R., Camchong, J. and Kummerfeld, E. (2023). Fast scalable and
    accurate discovery of DAGs using the best order score search and grow-shrink trees.

    Examples
    --------
    >>> import numpy as np
    >>> from polydag.stats import GaussianStats
    >>> causes, noise = np.split(np.random.default_rng(0).normal(size=(500, 3)), [2], axis=1)
    >>> stats = GaussianStats.from_data(np.c_[causes, causes.sum(axis=1, keepdims=True) + noise])
    >>> boss(stats).adjacency.astype(int).tolist()
    [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    """
    check("max_parents", max_parents, optional(whole(least=0)))
    score = as_score(source, penalty)
    if screen is None:
        screen = float(getattr(score, "n", np.inf)) < len(score.names)
    climber = Climber(score, knowledge, screen, None, max_parents)
    try:
        _from_all_starts(climber)
    except KeyboardInterrupt:
        if not partial:
            raise
        interruption.take()
        found, complete = climber.so_far(), False
    else:
        found, complete = climber.best, True
    order = orientation.topological_order(found.member())
    assert order is not None
    trace = climber.orders.trace
    return BOSSResult(found.oriented(), found.total, tuple(order), trace, complete)


def _from_all_starts(climber: Climber) -> None:
    orders = climber.orders
    orders.run()
    number = _number_of_starts(orders) if climber.cheap else 1
    if climber.cheap:
        climber.alternate(climber.climb(orders.dag()))
    else:
        backward = climber.climb(orders.dag(), ("backward",))
        climber.alternate(climber.climb(backward.member()))
    if climber.knowledge is not None:
        climber.alternate(climber.from_free_search())
    if number > 1:
        climber.alternate(climber.climb())
    for seed in range(number - 2):
        shuffled = np.random.default_rng(seed).permutation(orders.p)
        climber.climb_from_order(first_order(orders.masks, shuffled))


def _number_of_starts(orders: OrderSearch) -> int:
    """More where variables are few; at least two where the first start was light."""
    return min(_MOST_STARTS, max(_STARTS_TIMES_VARIABLES // orders.p, 2 if orders.n_entries <= _LIGHT else 1))
