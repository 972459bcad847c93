"""The test of the degenerate Gaussian model: partial correlations between blocks of columns.

A label is a block of indicators, a number a block of one column (`polydag.stats.mixed`). With Λ the ratio of
determinants `|S_xy·B| / (|S_x·B| |S_y·B|)` of what is left of two blocks of a and b columns given B, of q
columns, `-(n - q - (a + b + 3)/2) log Λ` is χ² with a b degrees of freedom where they are independent given
B (Bartlett 1938). A test with fewer than five rows for each column is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polydag.arrays import Array, Index
from polydag.search.pc.independence_tests import _mixed_kernels as _kernels
from polydag.search.pc.independence_tests._independence_kernels import Tally
from polydag.search.pc.independence_tests.sweeps import Plan, SweptTest, require_rows
from polydag.stats import MixedStats

ROWS_PER_COLUMN = 5


@dataclass(frozen=True, eq=False)
class BlockTest(SweptTest):
    """Wilks' Λ of blocks of columns.

    Parameters
    ----------
    stats : MixedStats
        At least 4 rows.
    alpha : float
        The level: variables with a larger p-value count as independent.
    """

    stats: MixedStats
    _matrix: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_rows(self.stats.n)
        blocks = self.stats.blocks
        # Labels that determine each other keep one row's worth of variance, as in the score.
        own = np.where(blocks.labels, 1 / self.stats.n, 0.0)
        object.__setattr__(self, "_matrix", np.ascontiguousarray(blocks.matrix + np.diag(own)))

    def ordered(self, names: tuple[str, ...]) -> BlockTest:
        """The same test with the variables in another order."""
        return BlockTest(self.stats.select(names), self.alpha)

    def sweep(self, plan: Plan, nodes: Index, tally: Tally) -> None:
        """Make the tests of some nodes."""
        _kernels.block_sweep(
            self._matrix, self.stats.blocks.start, self.stats.n, ROWS_PER_COLUMN, nodes, plan.candidates,
            plan.targets, plan.may_hold, plan.low, plan.high, self.alpha, plan.voting, tally,
        )  # fmt: skip
