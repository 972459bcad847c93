"""The test of independence that belongs to some statistics."""

from __future__ import annotations

from polydag.errors import UsageError
from polydag.search.pc.fisher_z import FisherZ
from polydag.search.pc.g_square import AskedGSquare, GSquare
from polydag.search.pc.mixed import BlockTest
from polydag.search.pc.sweeps import IndependenceTest
from polydag.stats import CountTables, DiscreteCounts, GaussianStats, MixedStats, Regimes


def make_test(stats: object, alpha: float) -> IndependenceTest:
    """Fisher's z for Gaussian statistics, G² for counts, Wilks' Λ of blocks for both."""
    if not 0 < alpha < 1:
        raise UsageError(f"alpha is a level of significance between 0 and 1; got {alpha!r}.")
    if isinstance(stats, GaussianStats):
        return FisherZ(stats, alpha)
    if isinstance(stats, MixedStats):
        return BlockTest(stats, alpha)
    if isinstance(stats, DiscreteCounts):
        return GSquare(stats, alpha)
    if isinstance(stats, CountTables):
        return AskedGSquare(stats, alpha)
    if isinstance(stats, Regimes):
        raise UsageError("PC does not use interventions. Give it the rows without any, or use GES.")
    raise UsageError(f"PC needs GaussianStats or CountTables, not {type(stats).__name__}.")
