"""A score in one file: the Hannan–Quinn criterion, `log-likelihood − k · log log n`.

It demands more of an edge than AIC and less than BIC. A score declares its `kind` of data and has `names` and
`local_score`; larger is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from polydag.scores.regimes import target_sets


class HannanQuinn:
    """The score of linear Gaussian families.

    Parameters
    ----------
    stats : GaussianStats or Regimes of GaussianStats
        The data; with `Regimes`, each node is scored by the rows in which it was not set.
    """

    kind: ClassVar[str] = "numbers"

    def __init__(self, stats: Any) -> None:
        self.stats = stats
        self.targets = target_sets(stats)  # what was set by intervention, which directs edges

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return tuple(self.stats.names)

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The log-likelihood of `node` given its parents, less the penalty."""
        rows = self.stats.for_node(self.names[node])
        S, n, where = rows.covariance, rows.n, sorted(parents)
        explained = (
            S[where, node] @ np.linalg.solve(S[np.ix_(where, where)], S[where, node]) if where else 0.0
        )
        likelihood = -0.5 * n * (math.log(2 * math.pi * (S[node, node] - explained)) + 1)
        return float(likelihood - (len(where) + 2) * math.log(math.log(n)))


if __name__ == "__main__":
    from polydag import BOSS, GES, BayesianDiscovery, simulate
    from polydag.scores.registry import SCORES

    SCORES["hannan-quinn"] = HannanQuinn
    X = simulate.linear(simulate.dag(6, n_edges=6, random_state=0), n=500, random_state=1)
    for learner in (GES, BOSS, BayesianDiscovery):
        edges = {score: learner(criterion=score).fit(X).graph_.n_edges for score in ("bic", "hannan-quinn")}
        print(f"edges found by {learner.__name__}:", edges)
