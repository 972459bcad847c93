"""The likelihood-ratio test G² of contingency tables, from rows at hand or tables asked of a source.

`2 Σ N log(N N_s / (N_as N_bs))` over the strata s of S, against χ². A stratum has `(a_s - 1)(b_s - 1)`
degrees of freedom, where only levels that occur in it count: empty rows, columns and strata hold no
information and must not cost any. A test without degrees of freedom, or with fewer than `ROWS_PER_DF` rows
for each, is skipped: χ² would be far off, and the edge has not been tested.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Index
from polydag.errors import DataError
from polydag.search.pc.independence_tests import _independence_kernels as _kernels
from polydag.search.pc.independence_tests._independence_kernels import Tally
from polydag.search.pc.independence_tests.sweeps import (
    Plan,
    PlannedTest,
    SweptTest,
    require_rows,
    sweep_one_by_one,
    tests_of,
)
from polydag.stats import CountTables, DiscreteCounts
from polydag.stats.count_tables import AnsweredTables, SelectedTables

ROWS_PER_DF = 5


@dataclass(frozen=True, eq=False)
class GSquare(SweptTest):
    """The likelihood-ratio test G² of contingency tables.

    Parameters
    ----------
    stats : DiscreteCounts
        At least 4 rows, and no column with one level only.
    alpha : float
        The level: variables with a larger p-value count as independent.
    """

    stats: DiscreteCounts
    _columns: NDArray[np.int32] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_rows(self.stats.n)
        columns = np.ascontiguousarray(self.stats.rows.T)
        _require_varying(
            name for name, own in zip(self.stats.names, columns, strict=True) if (own == own[0]).all()
        )
        object.__setattr__(self, "_columns", columns)

    def ordered(self, names: tuple[str, ...]) -> GSquare:
        """The same test with the variables in another order."""
        where = [self.stats.names.index(name) for name in names]
        levels = tuple(self.stats.levels[i] for i in where)
        counts = DiscreteCounts(names, levels, self.stats.rows[:, where], self.stats.counts)
        return GSquare(counts, self.alpha)

    def sweep(self, plan: Plan, nodes: Index, tally: Tally) -> None:
        """Make the tests of some nodes."""
        _kernels.g2_sweep(
            self._columns, self.stats.counts, self.stats.arities, ROWS_PER_DF, nodes, plan.candidates,
            plan.targets, plan.may_hold, plan.low, plan.high, self.alpha, plan.voting, tally,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class AskedGSquare(SweptTest):
    """The same test on tables asked of a source that keeps its rows; the tests of a sweep are one question.

    Parameters
    ----------
    stats : CountTables
        At least 4 rows, and no column with one level only.
    alpha : float
        The level: variables with a larger p-value count as independent.
    """

    stats: CountTables
    _answered: AnsweredTables = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_rows(self.stats.n)
        object.__setattr__(self, "_answered", AnsweredTables(self.stats, "max_conditioning"))

    def ordered(self, names: tuple[str, ...]) -> AskedGSquare:
        """The same test with the variables in another order."""
        where = tuple(self.stats.names.index(name) for name in names)
        return AskedGSquare(SelectedTables(self.stats, where), self.alpha)

    def prepare(self, plan: Plan, nodes: Index) -> None:
        """Ask for the tables of all tests of some nodes, in one question."""
        tests = list(tests_of(plan, nodes))
        self._answered.fetch((*test.given, test.node, test.target) for test in tests)
        used = sorted({column for test in tests for column in (test.node, test.target)})
        _require_varying(
            self.names[column] for column in used if np.count_nonzero(self._answered.table((column,))) < 2
        )

    def sweep(self, plan: Plan, nodes: Index, tally: Tally) -> None:
        """Make the tests of some nodes."""

        def p_value(test: PlannedTest) -> float | None:
            g2, df = self._g_square(test)
            enough = df > 0 and self.stats.n >= ROWS_PER_DF * df
            return float(_kernels.chi2_tail(g2, df)) if enough else None

        sweep_one_by_one(plan, nodes, tally, self.alpha, p_value)

    def _g_square(self, test: PlannedTest) -> tuple[float, int]:
        table = self._answered.table((*test.given, test.node, test.target))
        *strata, a, b = table.shape
        found: tuple[float, int] = _kernels.g_square_of_table(
            np.ascontiguousarray(table).ravel(), int(np.prod(strata, dtype=np.int64)), a, b
        )
        return found


def _require_varying(constant: Iterable[str]) -> None:
    if names := list(constant):
        raise DataError(f"The data: column {', '.join(names)} is constant. Leave it out.")
