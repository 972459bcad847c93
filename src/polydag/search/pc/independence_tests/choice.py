"""The test of independence that belongs to some statistics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import Any

from polydag.errors import UsageError
from polydag.search.pc.independence_tests.conditional_gaussian import ConditionalGaussianTest
from polydag.search.pc.independence_tests.fisher_z import FisherZ
from polydag.search.pc.independence_tests.g_square import AskedGSquare, GSquare
from polydag.search.pc.independence_tests.mixed import BlockTest
from polydag.search.pc.independence_tests.sweeps import IndependenceTest
from polydag.search.pc.regimes import Labels, Mixed, Numbers, Regime, RegimesTest
from polydag.stats import CountTables, DiscreteCounts, GaussianStats, MixedStats, Regimes
from polydag.stats.cells import CellStats


def make_test(stats: object, alpha: float) -> IndependenceTest:
    """Fisher's z for Gaussian statistics, G² for counts, Wilks' Λ of blocks or a likelihood ratio."""
    if not 0 < alpha < 1:
        raise UsageError(f"alpha is a level of significance between 0 and 1; got {alpha!r}.")
    if isinstance(stats, GaussianStats):
        return FisherZ(stats, alpha)
    if isinstance(stats, MixedStats):
        return BlockTest(stats, alpha)
    if isinstance(stats, CellStats):
        return ConditionalGaussianTest(stats, alpha)
    if isinstance(stats, DiscreteCounts):
        return GSquare(stats, alpha)
    if isinstance(stats, CountTables):
        return AskedGSquare(stats, alpha)
    if isinstance(stats, Regimes):
        if list(stats.parts) == [frozenset()]:
            return make_test(stats.parts[frozenset()], alpha)
        parts = _with_common_levels(stats.parts)
        return RegimesTest(tuple((targets, _regime(part)) for targets, part in parts.items()), alpha)
    raise UsageError(f"PC needs GaussianStats or CountTables, not {type(stats).__name__}.")


def _with_common_levels(parts: Mapping[frozenset[str], Any]) -> Mapping[frozenset[str], Any]:
    """Counts over the levels of all regimes; anything else as it is."""
    if not all(isinstance(part, DiscreteCounts) for part in parts.values()):
        return parts
    whole: DiscreteCounts = reduce(add, parts.values())
    levels = dict(zip(whole.names, whole.levels, strict=True))
    return {targets: part.with_levels(levels) for targets, part in parts.items()}


def _regime(part: object) -> Regime:
    if isinstance(part, GaussianStats):
        return Numbers(part)
    if isinstance(part, MixedStats):
        return Mixed(part)
    if isinstance(part, CountTables):
        return Labels(part)
    raise UsageError(f"PC needs GaussianStats or CountTables, not {type(part).__name__}.")
