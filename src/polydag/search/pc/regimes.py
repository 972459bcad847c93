"""Tests of independence from rows under known interventions, and the directions that the interventions give.

Setting a variable removes the edges into it, so what a set separates in the graph it separates in every
regime. Each regime is tested by itself, given the set and whatever else was set in it, and the evidence is
added up: correlations as in a fixed-effect meta-analysis (the mean of `atanh r`, weighted by `n - |S| - 3`),
G² and Wilks' χ² with their degrees of freedom. A regime that set both ends says nothing about their edge.

An edge `i - j` of which some regime set one end j only has a direction: i responds to j if `j -> i`, and does
not if `i -> j`, since then i is no descendant of j. It responds if it depends on j where j was set, or if its
distribution differs from that in the rows in which j was not set and all else was the same.

References
----------
Hauser, A. and Bühlmann, P. (2012). Characterization and greedy learning of interventional Markov equivalence
classes of directed acyclic graphs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.knowledge import Masks
from polydag.search.pc.independence_tests import _independence_kernels as _kernels
from polydag.search.pc.independence_tests._independence_kernels import ALIKE, Tally
from polydag.search.pc.independence_tests.g_square import ROWS_PER_DF
from polydag.search.pc.independence_tests.mixed import ROWS_PER_COLUMN
from polydag.search.pc.independence_tests.sweeps import Plan, count_vote, tests_of
from polydag.stats import CountTables, GaussianStats, MixedStats
from polydag.stats.count_tables import AnsweredTables, SelectedTables


class Evidence(NamedTuple):
    """What tests say: a statistic and its weight, both of which add up; no weight is no test."""

    statistic: float
    weight: float


NOTHING = Evidence(0.0, 0.0)


class Regime(Protocol):
    """The rows of one set of intervened variables."""

    @property
    def names(self) -> tuple[str, ...]: ...  # noqa: D102
    def ordered(self, names: tuple[str, ...]) -> Regime:
        """The same with the variables in another order."""
        ...

    def fetch(self, families: Iterable[Sequence[int]]) -> None:
        """Ask for whatever the tests of some sets of variables need, once for all of them."""
        ...

    def evidence(self, i: int, j: int, given: Sequence[int]) -> Evidence:
        """Evidence against the independence of two variables given others."""
        ...

    def log_p(self, evidence: Evidence) -> float:
        """The logarithm of the p-value of evidence."""
        ...

    def changed(self, other: Regime, i: int) -> float:
        """The logarithm of the p-value of a variable's being distributed as in another regime."""
        ...


@dataclass(frozen=True, eq=False)
class Numbers:
    """Partial correlations within one regime."""

    stats: GaussianStats

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    def ordered(self, names: tuple[str, ...]) -> Numbers:
        """The same with the variables in another order."""
        return Numbers(self.stats.select(names))

    def fetch(self, families: Iterable[Sequence[int]]) -> None:
        """Nothing to ask for: moments are at hand."""

    @cached_property
    def _varying(self) -> Mask:
        variance = self.stats.covariance.diagonal()
        return np.asarray(variance > 1e-20 * self.stats.mean**2 + 1e-300)

    def evidence(self, i: int, j: int, given: Sequence[int]) -> Evidence:
        """`w atanh r` and `w = n - |S| - 3`; what was held constant says nothing."""
        given = [k for k in given if self._varying[k]]
        weight = self.stats.n - len(given) - 3
        if weight <= 0 or not (self._varying[i] and self._varying[j]):
            return NOTHING
        members = [i, j, *given]
        scatter = self.stats.covariance[np.ix_(members, members)]
        scale = np.sqrt(scatter.diagonal())
        left = np.linalg.pinv(scatter / np.outer(scale, scale), hermitian=True)
        r = -left[0, 1] / math.sqrt(max(left[0, 0] * left[1, 1], 1e-300))
        return Evidence(weight * math.atanh(max(-1 + 1e-16, min(1 - 1e-16, r))), weight)

    def log_p(self, evidence: Evidence) -> float:
        """Two-sided, of a standard normal."""
        from scipy.special import log_ndtr

        z = abs(evidence.statistic) / math.sqrt(evidence.weight)
        return min(0.0, math.log(2) + float(log_ndtr(-z)))

    def changed(self, other: Regime, i: int) -> float:
        """Of means and variances that are equal."""
        assert isinstance(other, Numbers)
        return log_p_of_moments(self.stats, other.stats, i)


@dataclass(frozen=True, eq=False)
class Labels:
    """Contingency tables of one regime, at hand or asked of a source that keeps its rows."""

    stats: CountTables

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    def ordered(self, names: tuple[str, ...]) -> Labels:
        """The same with the variables in another order."""
        return Labels(SelectedTables(self.stats, tuple(self.names.index(name) for name in names)))

    @cached_property
    def _answered(self) -> AnsweredTables:
        return AnsweredTables(self.stats, "max_conditioning")

    def fetch(self, families: Iterable[Sequence[int]]) -> None:
        """Ask for the tables of all families, in one question."""
        self._answered.fetch(families)

    def evidence(self, i: int, j: int, given: Sequence[int]) -> Evidence:
        """G² and its degrees of freedom, where there are enough rows for them."""
        table = self._answered.table((*given, i, j))
        *strata, a, b = table.shape
        g2, df = _kernels.g_square_of_table(
            np.ascontiguousarray(table).ravel(), int(np.prod(strata, dtype=np.int64)), a, b
        )
        return NOTHING if df == 0 or self.stats.n < ROWS_PER_DF * df else Evidence(g2, float(df))

    def log_p(self, evidence: Evidence) -> float:
        """Of χ²."""
        return log_p_of_chi2(*evidence)

    def changed(self, other: Regime, i: int) -> float:
        """Of label counts in the same proportions."""
        assert isinstance(other, Labels)
        return log_p_of_counts(self._answered.table((i,)), other._answered.table((i,)))


@dataclass(frozen=True, eq=False)
class Mixed:
    """Wilks' Λ of blocks of columns within one regime."""

    stats: MixedStats

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    def ordered(self, names: tuple[str, ...]) -> Mixed:
        """The same with the variables in another order."""
        return Mixed(self.stats.select(names))

    def fetch(self, families: Iterable[Sequence[int]]) -> None:
        """Nothing to ask for: moments are at hand."""

    @cached_property
    def _matrix(self) -> Array:
        """Correlations between blocks; labels that determine each other keep one row's worth of variance."""
        blocks = self.stats.blocks
        return np.asarray(blocks.matrix + np.diag(np.where(blocks.labels, 1 / self.stats.n, 0.0)))

    def evidence(self, i: int, j: int, given: Sequence[int]) -> Evidence:
        """Bartlett's χ² of Λ and its degrees of freedom, where there are enough rows for the columns."""
        a, b, B = (self._columns(own) for own in ([i], [j], given))
        n, df = self.stats.n, len(a) * len(b)
        factor = n - len(B) - 0.5 * (len(a) + len(b) + 3)
        if df == 0 or n < ROWS_PER_COLUMN * (len(a) + len(b) + len(B)) or factor <= 0:
            return NOTHING
        log_ratio = sum(
            sign * np.linalg.slogdet(self._matrix[np.ix_(own, own)])[1]
            for sign, own in ((1, [*a, *b, *B]), (-1, [*a, *B]), (-1, [*b, *B]), (1, B))
        )
        return Evidence(max(0.0, -factor * float(log_ratio)), float(df))

    def _columns(self, members: Sequence[int]) -> list[int]:
        start = self.stats.blocks.start
        return [column for k in members for column in range(start[k], start[k + 1])]

    def log_p(self, evidence: Evidence) -> float:
        """Of χ²."""
        return log_p_of_chi2(*evidence)

    def changed(self, other: Regime, i: int) -> float:
        """Of equal means and variances, or of label counts in the same proportions."""
        assert isinstance(other, Mixed)
        name = self.names[i]
        if name not in self.stats.levels:
            where = self.stats.moments.names.index(name)
            return log_p_of_moments(self.stats.moments, other.stats.moments, where)
        return log_p_of_counts(self._counts(name), other._counts(name))

    def _counts(self, name: str) -> Array:
        only = self.stats.select([name]).moments
        shown = only.mean * only.n  # of all levels but one
        return np.array([*shown, max(0.0, only.n - shown.sum())])


def log_p_of_chi2(statistic: float, df: float) -> float:
    """The logarithm of P(χ² > x); its leading term where the probability is below what a float holds."""
    tail = float(_kernels.chi2_tail(statistic, df))
    return math.log(tail) if tail > 1e-300 else -0.5 * statistic


def log_p_of_moments(a: GaussianStats, b: GaussianStats, i: int) -> float:
    """The logarithm of the p-value of equal means and variances, by χ² with two degrees of freedom."""
    if a.n < 2 or b.n < 2:
        return 0.0
    va, vb = float(a.covariance[i, i]), float(b.covariance[i, i])
    if va <= 0 or vb <= 0:
        return 0.0
    mean = (a.mean[i] - b.mean[i]) ** 2 / (va / a.n + vb / b.n)
    spread = math.log(va / vb) ** 2 / (2 / (a.n - 1) + 2 / (b.n - 1))
    return log_p_of_chi2(float(mean + spread), 2)


def log_p_of_counts(a: Array, b: Array) -> float:
    """The logarithm of the p-value of the same proportions, by G²."""
    g2, df = _kernels.g_square_of_table(np.concatenate([a, b]), 1, 2, len(a))
    return log_p_of_chi2(g2, df) if df > 0 else 0.0


@dataclass(frozen=True, eq=False)
class RegimesTest:
    """The tests of all regimes, added up.

    Parameters
    ----------
    regimes : tuple of (targets, regime)
        The names that were set, and the rows in which they were.
    alpha : float
        The level: variables with a larger p-value count as independent.
    """

    regimes: tuple[tuple[frozenset[str], Regime], ...]
    alpha: float

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.regimes[0][1].names

    @property
    def largest_set(self) -> int:
        """The most variables that a test can condition on; regimes with too few rows show one by one."""
        return len(self.names)

    def ordered(self, names: tuple[str, ...]) -> RegimesTest:
        """The same test with the variables in another order."""
        return RegimesTest(tuple((set_, part.ordered(names)) for set_, part in self.regimes), self.alpha)

    @cached_property
    def _targets(self) -> tuple[frozenset[int], ...]:
        return tuple(frozenset(map(self.names.index, own)) for own, _ in self.regimes)

    def prepare(self, plan: Plan, nodes: Index) -> None:
        """Ask for what the tests of some nodes need, in one question per regime."""
        tests = list(tests_of(plan, nodes))
        for targets, (_, part) in zip(self._targets, self.regimes, strict=True):
            families = [(targets.union(test.given), {test.node, test.target}) for test in tests]
            part.fetch([tuple(given | ends) for given, ends in families if not ends <= targets])

    def sweep(self, plan: Plan, nodes: Index, tally: Tally) -> None:
        """Make the tests of some nodes."""
        for test in tests_of(plan, nodes):
            log_p = self.log_p(test.node, test.target, test.given)
            if log_p is None:
                tally.skipped[test.node] += 1
                continue
            tally.made[test.node] += 1
            p = math.exp(log_p)
            if plan.voting:
                if p > self.alpha:
                    count_vote(plan, test, tally)
            elif not tally.best[test.slot] * (1.0 + ALIKE) >= p:  # NaN before the first test
                tally.best[test.slot] = p
                tally.best_set[test.slot, : len(test.given)] = test.given

    def p_values(self, best: Array, size: int) -> Array:
        """The p-values, which the sweep has found already."""
        return best

    def log_p(self, i: int, j: int, given: Sequence[int], *, setting: int | None = None) -> float | None:
        """The logarithm of a p-value from all regimes, or from those that set one end only; None without."""
        found = []
        for targets, (_, part) in zip(self._targets, self.regimes, strict=True):
            if {i, j} <= targets or (setting is not None and setting not in targets):
                continue
            others = sorted(targets.union(given) - {i, j})
            found.append(part.evidence(i, j, others))
        total = Evidence(sum(e.statistic for e in found), sum(e.weight for e in found))
        return self.regimes[0][1].log_p(total) if total.weight > 0 else None

    def response(self, i: int, j: int) -> float | None:
        """The logarithm of the p-value of i's ignoring that j was set; None where no regime set j alone."""
        found = [self.log_p(i, j, (), setting=j)]
        by_targets = dict(zip(self._targets, (part for _, part in self.regimes), strict=True))
        for targets, part in by_targets.items():
            without = by_targets.get(targets - {j})
            if j in targets and i not in targets and without is not None:
                part.fetch([(i,)])
                without.fetch([(i,)])
                found.append(part.changed(without, i))
        there = [log_p for log_p in found if log_p is not None]
        return min(0.0, min(there) + math.log(len(there))) if there else None


def directions(test: RegimesTest, joined: Mask, masks: Masks) -> Mask:
    """The arrows that interventions give to edges, the most certain first, as far as they close no cycle."""
    names = range(len(test.names))
    claims = []
    for i in names:
        for j in range(i):
            if not joined[i, j] or masks.required[i, j] or masks.required[j, i]:
                continue
            claim = _claim(test.response(i, j), test.response(j, i), math.log(test.alpha))
            if claim:  # positive: i responds to j
                claims.append((-abs(claim), *((j, i) if claim > 0 else (i, j))))
    arrows = masks.required | (joined & masks.forbidden.T)
    given = np.zeros_like(arrows)
    for _, a, b in sorted(claims):
        if not masks.forbidden[a, b] and not arrows[b, a] and not _leads(arrows, b, a):
            arrows[a, b] = given[a, b] = True
    return given


def _claim(to_j: float | None, to_i: float | None, level: float) -> float:
    """How certain i responds to j (positive) or j to i (negative); 0 where nothing is known."""
    if to_j is None and to_i is None:
        return 0.0
    if to_j is None or to_i is None:
        single = level - (to_j if to_i is None else to_i)  # type: ignore[operator]
        return single if to_i is None else -single
    return to_i - to_j if min(to_i, to_j) <= level else 0.0


def _leads(arrows: Mask, start: int, end: int) -> bool:
    seen, stack = {start}, [start]
    while stack:
        here = stack.pop()
        if here == end:
            return True
        fresh = set(np.flatnonzero(arrows[here]).tolist()) - seen
        seen |= fresh
        stack.extend(fresh)
    return False
