"""Sweeps of independence tests over many pairs and conditioning sets, and the protocol of a test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple, Protocol

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.errors import DataError
from polydag.search.pc.independence_tests._independence_kernels import ALIKE, Lists, Tally

_MIN_ROWS = 4  # Fisher's z needs n > 3 even without conditioning


class Plan(NamedTuple):
    """Tests to be made: each node's candidates for sets, its targets, and the sizes of the sets."""

    candidates: Lists
    targets: Lists
    may_hold: Mask  # [k, i]: k is a candidate of i
    low: int
    high: int
    voting: bool  # count separating sets instead of keeping the best


class PlannedTest(NamedTuple):
    """One test of a plan: its node, its target and the place of that, and its set as places and as nodes."""

    node: int
    slot: int
    target: int
    chosen: tuple[int, ...]
    given: tuple[int, ...]


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

    def prepare(self, plan: Plan, nodes: Index) -> None:
        """Fetch whatever the tests of some nodes need, once for all of them."""
        ...

    def sweep(self, plan: Plan, nodes: Index, tally: Tally) -> None:
        """Make the tests of some nodes; compiled ones release the interpreter's lock."""
        ...

    def p_values(self, best: Array, size: int) -> Array:
        """P-values from the best values of a sweep over sets of one size; NaN where no test was made."""
        ...


@dataclass(frozen=True, eq=False)
class SweptTest(ABC):
    """What the tests have in common whose sweeps find p-values.

    Parameters
    ----------
    stats : sufficient statistics
        At least 4 rows.
    alpha : float
        The level: variables with a larger p-value count as independent.
    """

    stats: Any
    alpha: float

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        names: tuple[str, ...] = self.stats.names
        return names

    @property
    def largest_set(self) -> int:
        """The most variables that a test can condition on; tests with too few rows are skipped one by one."""
        return len(self.names)

    def prepare(self, plan: Plan, nodes: Index) -> None:  # noqa: B027
        """Nothing to fetch where statistics are at hand."""

    @abstractmethod
    def sweep(self, plan: Plan, nodes: Index, tally: Tally) -> None:
        """Make the tests of some nodes."""

    def p_values(self, best: Array, size: int) -> Array:
        """The p-values, which the sweep has found already."""
        return best


def tests_of(plan: Plan, nodes: Index) -> Iterator[PlannedTest]:
    """The tests of some nodes, one by one, in the order in which compiled sweeps make them for one size."""
    K, T = plan.candidates, plan.targets
    for i in nodes.tolist():
        candidates = K.members[K.start[i] : K.start[i + 1]].tolist()
        for size in range(plan.low, min(plan.high, len(candidates)) + 1):
            for chosen in combinations(range(len(candidates)), size):
                given = tuple(candidates[place] for place in chosen)
                for slot in range(T.start[i], T.start[i + 1]):
                    t = int(T.members[slot])
                    # The later end of a pair leaves out the sets that the earlier one has tested.
                    done = t < i and all(plan.may_hold[member, t] for member in given)
                    if t not in given and not done:
                        yield PlannedTest(i, slot, t, chosen, given)


def sweep_one_by_one(
    plan: Plan, nodes: Index, tally: Tally, alpha: float, p_value: Callable[[PlannedTest], float | None]
) -> None:
    """Make the tests of some nodes one after the other; without a p-value a test is skipped."""
    for test in tests_of(plan, nodes):
        p = p_value(test)
        if p is None:
            tally.skipped[test.node] += 1
            continue
        tally.made[test.node] += 1
        if plan.voting:
            if p > alpha:
                count_vote(plan, test, tally)
        elif not tally.best[test.slot] * (1.0 + ALIKE) >= p:  # NaN before the first test
            tally.best[test.slot] = p
            tally.best_set[test.slot, : len(test.given)] = test.given


def count_vote(plan: Plan, test: PlannedTest, tally: Tally) -> None:
    """Count a separating set, and its members."""
    tally.votes[test.slot] += 1
    n_candidates = plan.candidates.start[test.node + 1] - plan.candidates.start[test.node]
    row = tally.hit_start[test.node] + (test.slot - plan.targets.start[test.node]) * n_candidates
    for place in test.chosen:
        tally.hits[row + place] += 1


def require_rows(n: float) -> None:
    """Raise where there are too few rows for any test."""
    if n < _MIN_ROWS:
        raise DataError(f"The data has {n:g} rows; tests of independence need at least {_MIN_ROWS}.")


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
    test.prepare(plan, nodes)
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
