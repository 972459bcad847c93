"""The likelihood-ratio test of the conditional Gaussian model (Andrews, Ramsey and Cooper 2018).

With L and q the log-likelihood and the parameters of a set of columns
(`polydag.scores.mixed.conditional_gaussian`), `2 (L(xyS) - L(xS) - L(yS) + L(S))` is χ² with the same
difference of parameters as degrees of freedom where x and y are independent given S. A test without degrees
of freedom, or with fewer than `ROWS_PER_DF` rows for each, is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from polydag.arrays import Index
from polydag.scores.mixed.conditional_gaussian import ConditionalGaussianModel
from polydag.search.pc.independence_tests._independence_kernels import Tally, chi2_tail
from polydag.search.pc.independence_tests.g_square import ROWS_PER_DF
from polydag.search.pc.independence_tests.sweeps import (
    Plan,
    PlannedTest,
    SweptTest,
    require_rows,
    sweep_one_by_one,
)
from polydag.stats.cells import CellStats


@dataclass(frozen=True, eq=False)
class ConditionalGaussianTest(SweptTest):
    """The likelihood-ratio test of the conditional Gaussian model.

    Parameters
    ----------
    stats : CellStats
        At least 4 rows.
    alpha : float
        The level: variables with a larger p-value count as independent.
    """

    stats: CellStats
    _model: ConditionalGaussianModel = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_rows(self.stats.n)
        object.__setattr__(self, "_model", ConditionalGaussianModel(self.stats))

    def ordered(self, names: tuple[str, ...]) -> ConditionalGaussianTest:
        """The same test with the variables in another order."""
        return ConditionalGaussianTest(self.stats.select(names), self.alpha)

    def sweep(self, plan: Plan, nodes: Index, tally: Tally) -> None:
        """Make the tests of some nodes."""
        sweep_one_by_one(plan, nodes, tally, self.alpha, self._p_value)

    def _p_value(self, test: PlannedTest) -> float | None:
        x, y, given = test.node, test.target, test.given
        if len(given) + 4 > self.stats.n:
            return None
        sets = ((*given, x, y), (*given, x), (*given, y), given)
        both, with_x, with_y, alone = (self._model.fit(own) for own in sets)
        df = both.parameters - with_x.parameters - with_y.parameters + alone.parameters
        if df < 1 or self.stats.n < ROWS_PER_DF * df:
            return None
        ratio = 2 * (
            both.log_likelihood - with_x.log_likelihood - with_y.log_likelihood + alone.log_likelihood
        )
        return float(chi2_tail(max(ratio, 0.0), int(df)))
