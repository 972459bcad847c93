"""Sufficient statistics: built from a table or a stream of batches, merged with `+`, summed over parties."""

from polydag.stats.by_node import ByNode
from polydag.stats.count_tables import CountTables
from polydag.stats.discrete import DiscreteCounts
from polydag.stats.gaussian import GaussianStats
from polydag.stats.mixed import MixedStats
from polydag.stats.regimes import Regimes

__all__ = ["ByNode", "CountTables", "DiscreteCounts", "GaussianStats", "MixedStats", "Regimes"]
