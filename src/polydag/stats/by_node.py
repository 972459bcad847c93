"""Statistics that differ by the variable whose family they score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polydag.stats.gaussian import GaussianStats


@dataclass(frozen=True, eq=False)
class ByNode:
    """Gaussian statistics of which some variables have their own.

    A family is scored by the statistics of its child: rows whitened by the child's own correlation, or one
    row for each group where the child is a property of the group.

    Attributes
    ----------
    common : GaussianStats
        The statistics of all variables that have none of their own, and of what needs one matrix.
    parts : mapping of name to GaussianStats
        The others, over the same variables.
    targets : sequence of sets of names
        The sets of variables that were set by intervention, where any were; the statistics of each are those
        of rows in which it was not set.
    """

    common: GaussianStats
    parts: Mapping[str, GaussianStats]
    targets: Sequence[frozenset[str]] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.common.names

    @property
    def n(self) -> float:
        """The number of rows."""
        return self.common.n

    def for_node(self, node: object) -> GaussianStats:
        """The statistics that score `node`."""
        return self.parts.get(str(node), self.common)

    def standardized(self) -> ByNode:
        """The statistics after scaling every column to variance one over all rows."""
        scale = self.common.covariance.diagonal() ** 0.5
        parts = {name: part.rescaled(self.common.mean, scale) for name, part in self.parts.items()}
        return ByNode(self.common.standardized(), parts, self.targets)
