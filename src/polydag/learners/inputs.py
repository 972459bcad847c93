"""What learners ask of a source: moments or counts, checked; and the masks of background knowledge."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from polydag.data.quality import require_usable
from polydag.errors import DataError, UsageError
from polydag.knowledge import Knowledge, Masks
from polydag.sources.adapt import as_source
from polydag.sources.given import is_statistics
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

__all__ = [
    "Discrete",
    "Gaussian",
    "discrete_counts",
    "gaussian_statistics",
    "is_discrete",
    "is_statistics",
    "knowledge_masks",
    "standardized",
]

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


def standardized(stats: Gaussian) -> Gaussian:
    """The statistics after scaling every column to mean zero and variance one over all rows.

    All regimes share one scale: what an intervention does to a mean or a variance is kept.
    """
    if isinstance(stats, GaussianStats):
        return stats.standardized()
    whole = reduce(add, stats.parts.values())
    scale = np.sqrt(whole.covariance.diagonal())
    return Regimes({targets: part.rescaled(whole.mean, scale) for targets, part in stats.parts.items()})


def discrete_counts(X: Any) -> Any:
    """The counts of a source; every column needs at least two levels."""
    counts = as_source(X).counts()
    if counts.n < 2:
        raise DataError(f"The data has {counts.n:g} row{'s' * (counts.n != 1)}; at least 2 are needed.")
    whole = next(iter(counts.parts.values())) if isinstance(counts, Regimes) else counts
    if single := [name for name, levels in zip(whole.names, whole.levels, strict=True) if len(levels) < 2]:
        raise DataError(f"Column {', '.join(single)} has only one level. Leave it out.")
    return counts


def knowledge_masks(knowledge: Knowledge | None, names: tuple[str, ...]) -> Masks:
    """The masks of background knowledge; without any, only self-loops are forbidden."""
    if knowledge is not None and not isinstance(knowledge, Knowledge):
        raise UsageError(f"knowledge must be a polydag.Knowledge, not {type(knowledge).__name__}.")
    return (knowledge or Knowledge()).masks(names)
