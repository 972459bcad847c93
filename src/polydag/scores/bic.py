"""The Bayesian information criterion of linear Gaussian families (Schwarz 1978), with a penalty discount.

`local_score = log-likelihood - penalty · k/2 · log n`, with `k = |parents| + 2` (coefficients, intercept,
error variance). It is half of what Tetrad calls the SEM BIC score; `penalty` is Tetrad's penalty discount. A
family needs `n - 3` parents or fewer: with more, the fit is perfect whatever the data, and the score is -inf.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from polydag.errors import UsageError
from polydag.scores.families import Array, Index, Mask, ParentSets
from polydag.scores.gaussian import GaussianGains, Source, node_groups, require_rows_and_rank, target_sets
from polydag.stats import GaussianStats


@dataclass(frozen=True, eq=False)
class BIC:
    """BIC from Gaussian statistics; with `Regimes`, each node is scored by the rows that did not set it.

    Parameters
    ----------
    stats : GaussianStats or Regimes of GaussianStats
        The data.
    penalty : float
        The penalty discount: 1 is BIC, larger gives sparser graphs.
    """

    stats: Source
    penalty: float = 1.0
    targets: tuple[frozenset[int], ...] = field(init=False, repr=False)
    _groups: list[GaussianStats] = field(init=False, repr=False)
    _gains: GaussianGains = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.penalty > 0:
            raise UsageError(f"The penalty must be positive; got {self.penalty}.")
        groups, group = node_groups(self.stats)
        require_rows_and_rank(self.stats)
        d = len(self.names)
        price = [0.5 * self.penalty * math.log(part.n) for part in groups]
        gains = GaussianGains(
            [part.correlation for part in groups],
            group,
            [
                np.where(np.arange(d + 1) < _most_parents(part.n), -cost, -np.inf)
                for part, cost in zip(groups, price, strict=True)
            ],
            [np.full(d + 1, 0.5 * part.n) for part in groups],
            half=0.0,
        )
        object.__setattr__(self, "targets", target_sets(self.stats))
        object.__setattr__(self, "_groups", groups)
        object.__setattr__(self, "_gains", gains)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    @property
    def n(self) -> float:
        """The number of rows."""
        return self.stats.n

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The log-likelihood of `node` given its parents, less the penalty."""
        part = self._groups[int(self._gains.group[node])]
        where = list(parents)
        S, n = part.scatter, part.n
        if len(where) > _most_parents(n):
            return -math.inf
        weights = np.linalg.solve(S[np.ix_(where, where)], S[where, node]) if where else np.zeros(0)
        variance = max(float(S[node, node] - weights @ S[where, node]) / n, 1e-300)
        likelihood = -0.5 * n * (math.log(2 * math.pi * variance) + 1)
        return float(likelihood - 0.5 * self.penalty * (len(where) + 2) * math.log(n))

    def gains(
        self, node: int, candidates: Index, sets: ParentSets, wanted: Mask, positive_only: bool = False
    ) -> Array:
        """The gain of each candidate parent over each parent set."""
        return self._gains(node, candidates, sets, positive_only)


def _most_parents(n: float) -> float:
    return max(n - 3, 0)
