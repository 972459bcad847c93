"""What learners ask of a source: moments or counts, checked."""

from __future__ import annotations

from typing import Any

from polydag.data.quality import require_usable
from polydag.errors import DataError
from polydag.sources.adapt import as_source
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

Gaussian = GaussianStats | Regimes[GaussianStats]
Discrete = DiscreteCounts | Regimes[DiscreteCounts]


def is_discrete(X: Any) -> bool:
    """Whether the data is of labels rather than numbers; a mixture of both is an error."""
    return as_source(X).is_discrete


def gaussian_statistics(X: Any, *, independent: bool = False) -> Gaussian:
    """The moments of a source, once its columns have been checked."""
    stats = as_source(X).moments()
    if stats.n < 2:
        raise DataError(f"The data has {stats.n:g} row; at least 2 are needed.")
    parts = {stats.for_node(name) for name in stats.names} if isinstance(stats, Regimes) else {stats}
    for part in parts:
        require_usable(part, independent=independent)
    return stats


def discrete_counts(X: Any) -> Any:
    """The counts of a source; every column needs at least two levels."""
    counts = as_source(X).counts()
    if counts.n < 2:
        raise DataError(f"The data has {counts.n:g} row{'s' * (counts.n != 1)}; at least 2 are needed.")
    whole = next(iter(counts.parts.values())) if isinstance(counts, Regimes) else counts
    if single := [name for name, levels in zip(whole.names, whole.levels, strict=True) if len(levels) < 2]:
        raise DataError(f"Column {', '.join(single)} has only one level. Leave it out.")
    return counts
