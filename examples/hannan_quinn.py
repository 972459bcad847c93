"""A score in one file: the Hannan–Quinn criterion, `log-likelihood − k · log log n`.

It asks more of an edge than AIC and less than BIC. A score needs `names` and `local_score`; larger is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from polydag import GaussianStats


class HannanQuinn:
    """The score of linear Gaussian families."""

    def __init__(self, stats: GaussianStats) -> None:
        self.stats = stats

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The log-likelihood of `node` given its parents, less the penalty."""
        S, n, where = self.stats.covariance, self.stats.n, list(parents)
        explained = S[where, node] @ np.linalg.solve(S[np.ix_(where, where)], S[where, node]) if where else 0
        likelihood = -0.5 * n * (math.log(2 * math.pi * (S[node, node] - explained)) + 1)
        return likelihood - (len(where) + 2) * math.log(math.log(n))


if __name__ == "__main__":
    from polydag import simulate
    from polydag.scores import total_score

    truth = simulate.dag(6, n_edges=6, random_state=0)
    score = HannanQuinn(GaussianStats.from_data(simulate.linear(truth, n=500, random_state=1)))
    empty = np.zeros_like(truth.adjacency)
    print("true graph better than no edges:", total_score(score, truth.adjacency) > total_score(score, empty))
