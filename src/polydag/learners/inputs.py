"""What learners accept: tables of numbers, tables of labels, or statistics of either."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from polydag.data.quality import require_usable
from polydag.data.table import Table
from polydag.errors import DataError, UsageError
from polydag.knowledge import Knowledge, Masks
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

Gaussian = GaussianStats | Regimes[GaussianStats]
Discrete = DiscreteCounts | Regimes[DiscreteCounts]


def is_discrete(X: Any) -> bool:
    """Whether the data is of labels rather than numbers; a mixture of both is an error.

    Of a `Table` the kinds decide, of a DataFrame the types: text, categories and truth values are labels.
    """
    if isinstance(X, Regimes):
        return isinstance(next(iter(X.parts.values())), DiscreteCounts)
    if isinstance(X, (GaussianStats, DiscreteCounts)):
        return isinstance(X, DiscreteCounts)
    if isinstance(X, Table):
        names = list(X.names)
        labelled = list(X.discrete)
        if X.continuous:  # few whole numbers among many others are numbers, too
            labelled = [name for name in labelled if X.frame[name].dtype.kind not in "iufb"]
    elif hasattr(X, "dtypes"):
        names = [str(name) for name in X.columns]
        labelled = [
            name
            for name, dtype in zip(names, X.dtypes, strict=True)
            if getattr(dtype, "kind", "O") not in "iuf"
        ]
    else:
        return False
    if labelled and len(labelled) < len(names):
        numeric = [name for name in names if name not in set(labelled)]
        raise DataError(
            f"Some columns hold labels ({_few(labelled)}) and some numbers ({_few(numeric)}). "
            "Leave out one sort, or turn the numbers into categories."
        )
    return bool(labelled)


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def gaussian_statistics(X: Any, *, independent: bool = False) -> Gaussian:
    """Statistics from a table, or as given, after a look at whether its columns can be used at all."""
    if is_statistics(X) and is_discrete(X):
        raise DataError("These are counts of labels; this method needs numbers.")
    stats = X if isinstance(X, (GaussianStats, Regimes)) else GaussianStats.from_data(getattr(X, "frame", X))
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


def discrete_counts(X: Any) -> Discrete:
    """Counts from a table of labels, or as given; every column needs at least two levels."""
    if is_statistics(X) and not is_discrete(X):
        raise DataError("These are statistics of numbers; this method needs counts of labels.")
    counts = (
        X if isinstance(X, (DiscreteCounts, Regimes)) else DiscreteCounts.from_data(getattr(X, "frame", X))
    )
    if counts.n < 2:
        raise DataError(f"The data has {counts.n:g} row{'s' * (counts.n != 1)}; at least 2 are needed.")
    whole = counts if isinstance(counts, DiscreteCounts) else next(iter(counts.parts.values()))
    if single := [name for name, levels in zip(whole.names, whole.levels, strict=True) if len(levels) < 2]:
        raise DataError(f"Column {', '.join(single)} has only one level. Leave it out.")
    return counts


def is_statistics(X: Any) -> bool:
    """Whether rows have been summed up already."""
    return isinstance(X, (GaussianStats, DiscreteCounts, Regimes))


def knowledge_masks(knowledge: Knowledge | None, names: tuple[str, ...]) -> Masks:
    """The masks of what is known; without knowledge, only self-loops are forbidden."""
    if knowledge is not None and not isinstance(knowledge, Knowledge):
        raise UsageError(f"knowledge must be a polydag.Knowledge, not {type(knowledge).__name__}.")
    return (knowledge or Knowledge()).masks(names)
