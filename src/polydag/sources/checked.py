"""What learners ask of a source: moments, counts, or moments with indicators of labels, checked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from polydag.data.checking.quality import require_usable
from polydag.data.kinds import MAX_LEVELS
from polydag.data.table import Kind
from polydag.errors import DataError
from polydag.scores.spec import Needs
from polydag.sources.adapt import as_source
from polydag.sources.interface import Contents, Mixed, Source
from polydag.sources.tasks import Tasks
from polydag.stats import ByNode, DiscreteCounts, GaussianStats, MixedStats, Regimes
from polydag.stats.cells import CellStats
from polydag.stats.discrete import levels_of_all
from polydag.stats.regimes import Families

Gaussian = GaussianStats | Regimes[GaussianStats]
Discrete = DiscreteCounts | Regimes[DiscreteCounts]


def statistics(X: Any, needs: Needs) -> Any:
    """The statistics that scores and tests for numbers, for labels or for both need."""
    read = {
        "numbers": gaussian_statistics,
        "labels": discrete_counts,
        "mixed": mixed_statistics,
        "cells": cell_statistics,
    }
    return read[needs](X)


def scored_statistics(X: Any, needs: Needs) -> Any:
    """The same for scores of families, which may differ by the child."""
    return family_statistics(X) if needs == "numbers" else statistics(X, needs)


def used_kinds(source: Source | Tasks, contents: Contents) -> dict[str, Kind]:
    """What columns are taken for by scores and tests for numbers, for labels or for both."""
    if contents == "mixed":
        return dict(source.kinds)
    return dict.fromkeys(source.names, "discrete" if contents == "labels" else "continuous")


def gaussian_statistics(X: Any, *, independent: bool = False) -> Gaussian:
    """The moments of a source, once its columns have been checked."""
    source = as_source(X)
    _require_numbers(source)
    stats = source.moments()
    _require_two_rows(stats.n)
    parts = {stats.for_node(name) for name in stats.names} if isinstance(stats, Regimes) else {stats}
    for part in parts:
        require_usable(part, independent=independent)
    return stats


def family_statistics(X: Any) -> Families:
    """The moments of a source for scores of families: each child's own, where they differ by child."""
    source = as_source(X)
    _require_numbers(source)
    found = source.family_moments()
    if not isinstance(found, ByNode):
        return gaussian_statistics(source)
    _require_two_rows(found.n)
    require_usable(found.common)
    return found


def discrete_counts(X: Any) -> Any:
    """The counts of a source; every column needs at least two levels."""
    source = as_source(X)
    _require_columns(source)
    if numbers := _fixed(source, "continuous"):
        raise DataError(
            f"Column {_listed(numbers)} is declared continuous, and this method is for labels. Cut its "
            "numbers into levels (discretize='quantile:4'; on the command line --discretize quantile:4), use "
            "a score or test for mixed columns, or declare the column discrete."
        )
    counts = source.counts()
    _require_two_rows(counts.n)
    parts = counts.parts.values() if isinstance(counts, Regimes) else [counts]
    _require_levels(levels_of_all(parts), source.n)
    return counts


def mixed_statistics(X: Any) -> Mixed:
    """Moments of numbers and of indicators of labels; every label column needs at least two levels."""
    source = as_source(X)
    _require_columns(source)
    labels = [name for name, kind in source.kinds.items() if kind == "discrete"]
    levels = source.levels(labels) if labels else {}
    _require_levels(levels, source.n)
    stats = source.mixed(levels)
    _require_two_rows(stats.n)
    whole = next(iter(stats.parts.values())) if isinstance(stats, Regimes) else stats
    if whole.numbers.d:
        require_usable(whole.numbers)
    return stats


def cell_statistics(X: Any) -> CellStats:
    """Counts and moments per cell of labels, on request; without interventions."""
    source = as_source(X)
    source.require_cells()
    mixed = mixed_statistics(source)
    assert isinstance(mixed, MixedStats)  # without interventions
    return source.cells(mixed)


def _require_columns(source: Source) -> None:
    if not source.names:
        raise DataError("The data has no columns.")


def _require_numbers(source: Source) -> None:
    """Raise for columns of labels where a method is for numbers, and where there are no columns."""
    _require_columns(source)
    if labels := _fixed(source, "discrete"):
        raise DataError(
            f"Column {_listed(labels)} holds labels, and this method is for numbers. Use a score or test "
            f"for mixed columns (BOSS, GES and PC choose it "
            "automatically) or leave the column out. Where its "
            "labels are numbers that stand for quantities, declare it continuous (kinds=; on the command "
            "line "
            "--kind NAME=continuous)."
        )


def _fixed(source: Source, kind: str) -> list[str]:
    return [name for name, own in source.fixed_kinds.items() if own == kind and name in source.names]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"


def _require_two_rows(n: float) -> None:
    if n < 2:
        raise DataError(f"The data has {n:g} row{'s' * (n != 1)}; at least 2 are needed.")


def _require_levels(levels: Mapping[str, Sequence[object]], n: float) -> None:
    """Raise for constant columns, and for those with fewer than two rows per label."""
    if single := [name for name, own in levels.items() if len(own) < 2]:
        leave = f"--exclude {shlex.quote(','.join(single))}"
        raise DataError(
            f"Column {', '.join(single)} has only one level: it is constant. Leave it out ({leave})."
        )
    for name, own in levels.items():
        if len(own) > MAX_LEVELS and 2 * len(own) > n:
            such = ", ".join(repr(level)[:24] for level in own[:2])
            raise DataError(
                f"Column {name} has {len(own)} different labels ({such}, …) in {n:g} rows: nothing can be "
                f"learned from them. Leave it out (--exclude {shlex.quote(name)}), group its labels, or, if "
                f"they are quantities, declare it continuous (--kind {shlex.quote(f'{name}=continuous')})."
            )
