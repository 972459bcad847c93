"""Greedy equivalence search (Chickering 2002; Hauser and Bühlmann 2012), with an escape from local optima.

`polydag.search.ges.class_search` has the operators and phases. Where no operator gains, a search over orders
goes on from an order of the class, and the phases from what that finds, in turn (`polydag.search.climber`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polydag.arrays import Mask
from polydag.computing import interruption
from polydag.errors import UsageError
from polydag.knowledge import Masks
from polydag.parameters import check, optional, whole
from polydag.scores.penalty import Penalty
from polydag.search.climber import Climber
from polydag.search.ges.class_search import PHASES, Step
from polydag.search.usual_score import as_score


@dataclass(frozen=True, eq=False)
class GESResult:
    """The result of a search.

    Attributes
    ----------
    adjacency : bool array of shape (d, d)
        The essential graph (CPDAG), `[i, j]` is `i -> j`, both entries true where undirected; with background
        knowledge, oriented further by it.
    score : float
        The score of the class: that of any of its DAGs.
    trace : list of Step
        The operators in the order taken, and "restart" where a search over orders found something better;
        `pandas.DataFrame(trace)` makes a table of them.
    complete : bool
        False if the search was interrupted (Ctrl-C): the result is the best class found so far.
    """

    adjacency: Mask
    score: float
    trace: list[Step]
    complete: bool = True


def ges(
    source: Any,
    *,
    penalty: Penalty = "auto",
    knowledge: Masks | None = None,
    max_degree: int | None = None,
    max_parents: int | None = None,
    phases: Sequence[str] = PHASES,
    screen: bool | None = None,
    escape: bool = True,
) -> GESResult:
    """Search greedily over classes of equivalent DAGs.

    Parameters
    ----------
    source : GaussianStats, CountTables, Regimes of either, or a score
        Gaussian statistics are scored by BIC, counts by BDeu. A score is any object with `names` and
        `local_score(node, parents)` (and `targets`, the sets of intervened nodes, if there are any); it
        should give equivalent DAGs the same score.
    penalty : float or "auto"
        The penalty discount of BIC, or the extended BIC, where `source` is not a score.
    knowledge : Masks, optional
        Required and forbidden edges, from `Knowledge.masks`.
    max_degree : int, optional
        No edge is added at a node that has this many.
    max_parents : int, optional
        No family has more parents than this. With a score that asks for tables, it bounds their size.
    phases : sequence of {"forward", "backward", "turning"}
        Repeated, in this order, until none of them improves the score; a single phase runs once.
    screen : bool, optional
        Whether two variables may be connected only if an edge between them improves the score of the empty
        graph ("faithfulness assumed" in Tetrad). This halves the false edges where there are more columns
        than rows, which is when it is the default, and costs true edges where there are many rows.
    escape : bool
        Whether to continue from local optima: by a search over orders, and with background knowledge also
        from the graph that is found without it. Not with `max_degree`, which a search over orders does not
        bound.

    References
    ----------
    Chickering, D. M. (2002). Optimal structure identification with greedy search.
    Hauser, A. and Bühlmann, P. (2012). Characterization and greedy learning of interventional Markov
    equivalence classes of directed acyclic graphs.

    Examples
    --------
    >>> import numpy as np
    >>> from polydag.stats import GaussianStats
    >>> causes, noise = np.split(np.random.default_rng(0).normal(size=(500, 3)), [2], axis=1)
    >>> stats = GaussianStats.from_data(np.c_[causes, causes.sum(axis=1, keepdims=True) + noise])
    >>> ges(stats).adjacency.astype(int).tolist()
    [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    """
    if unknown := [phase for phase in phases if phase not in PHASES]:
        raise UsageError(f"There is no phase {unknown[0]!r}; known are {', '.join(PHASES)}.")
    for name, bound in (("max_degree", max_degree), ("max_parents", max_parents)):
        check(name, bound, optional(whole(least=0)))
    score = as_score(source, penalty)
    if screen is None:
        screen = float(getattr(score, "n", np.inf)) < len(score.names)
    climber = Climber(score, knowledge, screen, max_degree, max_parents)
    trace: list[Step] = []
    try:
        first = climber.climb(phases=phases)
        trace = first.trace
        if escape and max_degree is None and set(phases) == set(PHASES):
            climber.alternate(first)
            if knowledge is not None:
                climber.alternate(climber.from_free_search())
    except KeyboardInterrupt:
        interruption.take()
        found, complete = climber.so_far(), False
    else:
        found, complete = climber.best, True
    if complete and found.total > first.total:
        gain = found.total - first.total
        trace = [*trace, Step("orders", "restart", "", "", (), gain, found.total)]
    return GESResult(found.oriented(), found.total, trace, complete)
