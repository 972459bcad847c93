"""Tests of conditional independence, and sweeps of them over many conditioning sets.

- Fisher's z on `GaussianStats`: `√(n - |S| - 3) · |atanh r|` is standard normal for a partial correlation r
  of 0.
- G² on `DiscreteCounts`: `2 Σ N log(N N_s / (N_as N_bs))` over the strata s of S, against χ². A stratum has
  `(a_s - 1)(b_s - 1)` degrees of freedom, where only levels that occur in it count: empty rows, columns and
  strata tell nothing and must not be paid for. A test without degrees of freedom, or with fewer than
  `ROWS_PER_DF` rows for each, is skipped: χ² would be far off, and the edge has not been tested.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError, UsageError
from polydag.search.pc import _pc_kernels as _kernels
from polydag.search.pc._pc_kernels import Lists, Tally
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

ROWS_PER_DF = 5
_MIN_ROWS = 4  # Fisher's z needs n > 3 even without conditioning


class Plan(NamedTuple):
    """What a sweep is to do: each node's candidates for sets, its targets, and the sizes of the sets."""

    candidates: Lists
    targets: Lists
    may_hold: Mask  # [k, i]: k is a candidate of i
    low: int
    high: int
    voting: bool  # count separating sets instead of keeping the best


class IndependenceTest(Protocol):
    """A test of independence given sets of variables."""

    @property
    def names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def alpha(self) -> float: ...  # noqa: D102
    @property
    def largest_set(self) -> int:
        """The most variables that a test can condition on."""
        ...

    def ordered(self, names: tuple[str, ...]) -> IndependenceTest:
        """The same test with the variables in another order."""
        ...

    def sweep(self, plan: Plan, nodes: Index, tally: Tally) -> None:
        """Make the tests of some nodes; releases the interpreter's lock."""
        ...

    def p_values(self, best: Array, size: int) -> Array:
        """P-values from what a sweep over sets of one size found best; NaN where no test was made."""
        ...


@dataclass(frozen=True, eq=False)
class FisherZ:
    """Fisher's z of partial correlations.

    Parameters
    ----------
    stats : GaussianStats
        At least 4 rows.
    alpha : float
        The level: what has a larger p-value is taken to be independent.
    """

    stats: GaussianStats
    alpha: float
    _correlation: Array = field(init=False, repr=False)
    _bound: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        from scipy.special import ndtri

        _require_rows(self.stats.n)
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


@dataclass(frozen=True, eq=False)
class GSquare:
    """The likelihood-ratio test G² of contingency tables.

    Parameters
    ----------
    stats : DiscreteCounts
        At least 4 rows, and no column with one level only.
    alpha : float
        The level: what has a larger p-value is taken to be independent.
    """

    stats: DiscreteCounts
    alpha: float
    _columns: NDArray[np.int32] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _require_rows(self.stats.n)
        columns = np.ascontiguousarray(self.stats.rows.T)
        constant = [
            name for name, own in zip(self.stats.names, columns, strict=True) if (own == own[0]).all()
        ]
        if constant:
            raise DataError(f"The data: column {', '.join(constant)} is constant. Leave it out.")
        object.__setattr__(self, "_columns", columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    @property
    def largest_set(self) -> int:
        """The most variables that a test can condition on; which tables are too sparse is seen one by one."""
        return self.stats.d

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

    def p_values(self, best: Array, size: int) -> Array:
        """The p-values, which the sweep has found already."""
        return best


def _require_rows(n: float) -> None:
    if n < _MIN_ROWS:
        raise DataError(f"The data has {n:g} rows; tests of independence need at least {_MIN_ROWS}.")


def make_test(stats: object, alpha: float) -> IndependenceTest:
    """Fisher's z for Gaussian statistics, G² for counts."""
    if not 0 < alpha < 1:
        raise UsageError(f"alpha is a level of significance between 0 and 1; got {alpha!r}.")
    if isinstance(stats, GaussianStats):
        return FisherZ(stats, alpha)
    if isinstance(stats, DiscreteCounts):
        return GSquare(stats, alpha)
    if isinstance(stats, Regimes):
        raise UsageError("PC does not use interventions. Give it the rows without any, or use GES.")
    raise UsageError(f"PC needs GaussianStats or DiscreteCounts, not {type(stats).__name__}.")


def lists(mask: Mask) -> Lists:
    """The true entries of each row, in increasing order."""
    start = np.concatenate([[0], mask.sum(axis=1).cumsum()]).astype(np.int64)
    return Lists(start, np.nonzero(mask)[1].astype(np.int64))


def sweep(test: IndependenceTest, plan: Plan, n_jobs: int) -> Tally:
    """Make all tests of a plan, nodes in parallel; the result does not depend on `n_jobs`."""
    d, slots = len(test.names), len(plan.targets.members)
    high = min(plan.high, int(np.diff(plan.candidates.start).max(initial=0)))
    plan = plan._replace(high=high)
    grid = (
        np.diff(plan.targets.start) * np.diff(plan.candidates.start) if plan.voting else np.zeros(d, np.int64)
    )
    tally = Tally(
        best=np.full(slots, np.nan),
        best_set=np.empty((slots, 0 if plan.voting else high), dtype=np.int32),
        votes=np.zeros(slots, dtype=np.int64),
        hit_start=np.concatenate([[0], grid.cumsum()]).astype(np.int64),
        hits=np.zeros(grid.sum(), dtype=np.int64),
        made=np.zeros(d, dtype=np.int64),
        skipped=np.zeros(d, dtype=np.int64),
        failed=np.zeros((d, high + 2), dtype=np.int64),
    )
    nodes = np.flatnonzero(np.diff(plan.targets.start))
    if n_jobs == 1:
        test.sweep(plan, nodes, tally)
    else:
        from joblib import Parallel, delayed, effective_n_jobs

        # More shares than threads: a hub can take as long as all the other nodes.
        n_shares = 8 * effective_n_jobs(n_jobs)
        shares = [nodes[k::n_shares].copy() for k in range(n_shares)]
        Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(test.sweep)(plan, share, tally) for share in shares if len(share)
        )
    _require_independent(test, tally.failed)
    return tally


def _require_independent(test: IndependenceTest, failed: Index) -> None:
    where = np.flatnonzero(failed[:, 0])
    if not len(where):
        return
    variable, size, *members = failed[where[0]]
    others = ", ".join(test.names[k] for k in members[:size])
    raise DataError(
        f"Column {test.names[variable - 1]} is a combination of {others}: given these, nothing is left "
        "of it to test. Leave one of them out."
    )
