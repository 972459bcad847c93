"""Fisher's z: `√(n - |S| - 3) · |atanh r|` is standard normal where a partial correlation r is 0."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polydag.arrays import Array, Index
from polydag.search.pc.independence_tests import _independence_kernels as _kernels
from polydag.search.pc.independence_tests._independence_kernels import Tally
from polydag.search.pc.independence_tests.sweeps import Plan, require_rows
from polydag.stats import GaussianStats


@dataclass(frozen=True, eq=False)
class FisherZ:
    """Fisher's z of partial correlations.

    Parameters
    ----------
    stats : GaussianStats
        At least 4 rows.
    alpha : float
        The level: variables with a larger p-value count as independent.
    """

    stats: GaussianStats
    alpha: float
    _correlation: Array = field(init=False, repr=False)
    _bound: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        from scipy.special import ndtri

        require_rows(self.stats.n)
        sizes = np.arange(self.largest_set + 1)
        bound = np.tanh(-ndtri(self.alpha / 2) / np.sqrt(self.stats.n - sizes - 3)) ** 2
        object.__setattr__(self, "_correlation", np.ascontiguousarray(self.stats.correlation))
        object.__setattr__(self, "_bound", bound)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    @property
    def largest_set(self) -> int:
        """The most variables that a test can condition on: `n - |S| - 3` must be positive."""
        return min(int(np.ceil(self.stats.n)) - 4, self.stats.d)

    def ordered(self, names: tuple[str, ...]) -> FisherZ:
        """The same test with the variables in another order."""
        return FisherZ(self.stats.select(names), self.alpha)

    def prepare(self, plan: Plan, nodes: Index) -> None:
        """Nothing to fetch: correlations are at hand."""

    def sweep(self, plan: Plan, nodes: Index, tally: Tally) -> None:
        """Make the tests of some nodes; raises for a variable that others determine."""
        _kernels.fisher_sweep(
            self._correlation, nodes, plan.candidates, plan.targets, plan.may_hold, plan.low, plan.high,
            self._bound, plan.voting, tally,
        )  # fmt: skip

    def p_values(self, best: Array, size: int) -> Array:
        """P-values of squared partial correlations given sets of one size."""
        from scipy.special import ndtr

        r = np.minimum(np.sqrt(best), 1 - 1e-16)
        z = np.arctanh(r) * np.sqrt(self.stats.n - size - 3)
        result: Array = 2 * ndtr(-z)
        return result
