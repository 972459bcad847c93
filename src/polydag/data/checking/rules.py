"""The rules of `check`: problems in one column or in one table.

Varsortability (Reisach, Seiler and Weichwald 2021) needs the true graph. Without it, the spread of the
columns' scales and the rank correlation of variance and predictability (R²) show how much a method that
compares variances could infer from scales alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polydag.data.checking.findings import Finding
from polydag.data.checking.quality import constant_columns, dependent_columns, identical_columns
from polydag.data.discretize import MAX_LEVELS
from polydag.data.kinds import MAX_LEVELS as FEW
from polydag.data.table import Kind, Table
from polydag.data.written_numbers import looks_like_dates
from polydag.stats import GaussianStats

if TYPE_CHECKING:
    import pandas as pd

SCALE_SPREAD = 3.0
_TWO = re.compile(r"\d+([.,]\d+)?\s*[/-]\s*\d+([.,]\d+)?")
_SCALE_FREE = "a method that does not depend on them (--method auto, boss, ges or pc)"
_MOSTLY_ZERO = 0.5  # of rows, from which an amount is not transformed


class ColumnSummary(NamedTuple):
    """A summary of one column; `mean` and `sd` are None if it is discrete, `levels` if it is continuous."""

    table: str
    name: str
    kind: Kind
    missing: int
    infinite: int
    distinct: int
    mean: float | None
    sd: float | None
    levels: tuple[str, ...] | None


def summarise(table: Table, name: str) -> ColumnSummary:
    """Summarise a column; mean and standard deviation are those of its finite values."""
    column = table.frame[name]
    missing = int(column.isna().sum())
    distinct = int(column.nunique())
    if table.kinds[name] == "discrete":
        return ColumnSummary(
            table.source, name, "discrete", missing, 0, distinct, None, None, levels_of(column)[:MAX_LEVELS]
        )
    values = column.to_numpy(dtype=float)
    infinite = int(np.isinf(values).sum())
    finite = values[np.isfinite(values)]
    mean = float(finite.mean()) if len(finite) else None
    sd = float(finite.std()) if len(finite) else None
    return ColumnSummary(table.source, name, "continuous", missing, infinite, distinct, mean, sd, None)


def levels_of(column: pd.Series[Any]) -> tuple[str, ...]:
    """The labels of a discrete column as strings; whole numbers have no decimal point, however stored."""
    found = column.cat.categories if hasattr(column, "cat") else np.sort(column.dropna().unique())
    return tuple(
        str(int(level)) if isinstance(level, float) and level % 1 == 0 else str(level) for level in found
    )


def column_findings(table: Table, columns: Sequence[ColumnSummary]) -> Iterator[Finding]:
    """Findings about the values and levels of each column."""
    for column in columns:
        if column.missing == table.n:
            yield Finding(
                "error",
                f"{table.source}, column {column.name}",
                "has no values",
                f"leave it out: --exclude {shlex.quote(column.name)}",
            )
    if incomplete := [column for column in columns if 0 < column.missing < table.n]:
        counts = ", ".join(
            f"{column.name} {column.missing} ({column.missing / table.n:.0%})" for column in incomplete
        )
        yield Finding(
            "error",
            table.source,
            f"values are missing: {counts}",
            "choose --missing em or --missing drop, complete the data, or exclude the columns with most "
            "missing values; --missing impute shrinks variances",
        )
    if infinite := [column for column in columns if column.infinite]:
        counts = ", ".join(f"{column.name} {column.infinite}" for column in infinite)
        yield Finding(
            "error", table.source, f"values are infinite: {counts}", "correct them, or choose --missing drop"
        )
    for column in columns:
        subject = f"{table.source}, column {column.name}"
        if column.kind == "discrete" and column.distinct == 1:
            yield Finding(
                "error",
                subject,
                "has only one level",
                f"leave it out: --exclude {shlex.quote(column.name)}",
            )
        if column.kind == "discrete" and (found := _many_labels(table.frame[column.name], column)):
            yield Finding("warning", subject, *found)


def _many_labels(values: pd.Series[Any], column: ColumnSummary) -> tuple[str, str] | None:
    """What a column of many labels may be, and what to do about it."""
    name = shlex.quote(column.name)
    text = values.dropna().astype(str)
    if column.distinct > FEW and values.dtype.kind not in "iuf":
        if looks_like_dates(text):
            return (
                f"holds dates, which are taken as {column.distinct} labels",
                f"make numbers of them, such as days since the first, or leave them out: --exclude {name}",
            )
        if text.map(lambda cell: _TWO.fullmatch(cell) is not None).all():
            return (
                f"holds two numbers in a cell, such as {text.iloc[0]!r}, which are taken as "
                f"{column.distinct} labels",
                f"make two columns of it, or leave it out: --exclude {name}",
            )
    if column.distinct <= MAX_LEVELS:
        return None
    return (
        f"is discrete with {column.distinct} levels",
        f"group its labels, leave it out if it is an identifier (--exclude {name}), or declare it continuous "
        f"(--kind {shlex.quote(f'{column.name}=continuous')})",
    )


def table_findings(table: Table, columns: Sequence[ColumnSummary]) -> Iterator[Finding]:
    """Findings about the size of a table, its rows, and the relations between its columns."""
    n, d = table.n, len(table.names)
    if n < d:
        yield Finding(
            "warning",
            table.source,
            f"has fewer rows ({n}) than columns ({d})",
            "add --bootstrap 100 and rely on edges that recur, or use fewer columns (--columns); expect few "
            "edges to be found",
        )
    elif n < 10 * d:
        yield Finding(
            "info",
            table.source,
            f"has {n} rows for {d} columns, fewer than 10 per column",
            "add --bootstrap 100, to see how stable the edges are before relying on them",
        )
    if copies := int(table.frame.duplicated().sum()):
        share = copies / n
        if share > 0.01 and any(column.kind == "continuous" for column in columns):
            yield Finding(
                "warning" if share > 0.1 else "info",
                table.source,
                f"{copies} rows ({share:.0%}) repeat an earlier row",
                "remove rows that were duplicated by accident: they count twice as evidence",
            )
    for group in identical_columns(table.frame):
        if all(column.distinct > 1 for column in columns if column.name in group):
            yield Finding(
                "error",
                table.source,
                f"columns {' = '.join(group)} hold the same values",
                f"keep one of them: --exclude {shlex.quote(','.join(group[1:]))}",
            )
    yield from _continuous_findings(table)


def _continuous_findings(table: Table) -> Iterator[Finding]:
    """Findings about the continuous columns, from the complete rows."""
    names = []
    for name in table.continuous:
        own = table.frame[name].to_numpy(dtype=float)
        own = own[np.isfinite(own)]
        if len(own) >= 2 and constant_columns(GaussianStats.from_data(own[:, None], names=[name])):
            advice = f"leave it out: --exclude {shlex.quote(name)}"
            yield Finding("error", f"{table.source}, column {name}", "is constant", advice)
        elif len(own) >= 2:
            names.append(name)
    if names:
        yield from _shape_findings(table.source, names, table.frame)
    values = table.frame[names].to_numpy(dtype=float)
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) < 2 or not names:
        return
    stats = GaussianStats.from_data(values, names=names)
    constant = constant_columns(stats)  # in complete rows
    stats = stats.select([name for name in names if name not in constant])
    if stats.n > stats.d:
        duplicates = {name for group in identical_columns(table.frame) for name in group[1:]}
        for item in dependent_columns(stats):
            if item.column not in duplicates:
                yield Finding(
                    "error",
                    f"{table.source}, column {item.column}",
                    f"is a linear combination of other columns: {item}",
                    f"leave out one of these columns, as by --exclude {shlex.quote(item.column)}",
                )
    yield from _scale_findings(table.source, stats)


def _scale_findings(source: str, stats: GaussianStats) -> Iterator[Finding]:
    if stats.d < 2:
        return
    sd = np.sqrt(stats.covariance.diagonal())
    low, high = int(np.argmin(sd)), int(np.argmax(sd))
    spread = sd[high] / sd[low]
    if spread < 1.01:
        yield Finding(
            "warning",
            source,
            "all columns have the same scale, as if standardised",
            "methods that assume equal error variances, and least squares on raw scales, cannot identify "
            f"directions from such data: use the original scales, or {_SCALE_FREE}",
        )
    elif spread > SCALE_SPREAD:
        agreement = _variance_predictability(stats)
        ranks = "" if agreement is None else f"; the rank correlation of variance and R² is {agreement:.2f}"
        yield Finding(
            "warning" if agreement is None or agreement > 0.5 else "info",
            source,
            f"scales differ: sd from {sd[low]:.3g} ({stats.names[low]}) to {sd[high]:.3g} "
            f"({stats.names[high]}), a ratio of {spread:.3g}{ranks}",
            "least-squares (NOTEARS) and equal-variance methods infer directions from variances: if the "
            f"units are arbitrary, use {_SCALE_FREE}, and compare",
        )


def _variance_predictability(stats: GaussianStats) -> float | None:
    """Spearman correlation of variance and R² given all other columns; None if R² cannot be computed."""
    if stats.n <= 2 * stats.d or stats.d < 3:
        return None
    try:
        precision = np.linalg.inv(stats.correlation)
    except np.linalg.LinAlgError:
        return None
    explained = 1 - 1 / precision.diagonal()
    if not ((explained > -1e-6) & (explained <= 1)).all():
        return None
    ranks = [np.argsort(np.argsort(v)).astype(np.float64) for v in (stats.covariance.diagonal(), explained)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _shape_findings(source: str, names: Sequence[str], frame: pd.DataFrame) -> Iterator[Finding]:
    """Skewness and excess kurtosis beyond those of a Gaussian sample of this size.

    Nothing is proposed for amounts that are mostly zero: a logarithm shows whether there is an amount and
    hides how large it is, so that causes of the size are no longer found.
    """
    odd = []
    for name in names:
        values = frame[name].to_numpy(dtype=float)
        values = values[np.isfinite(values)]
        n, zeros = len(values), int((values == 0).sum())
        if n < 20 or not values.std():
            continue
        z = (values - values.mean()) / values.std()
        skew, excess = float((z**3).mean()), float((z**4).mean() - 3)
        if abs(skew) > max(1.0, 4 * np.sqrt(6 / n)) or excess > max(3.0, 4 * np.sqrt(24 / n)):
            if zeros > _MOSTLY_ZERO * n:
                yield Finding(
                    "info",
                    f"{source}, column {name}",
                    f"is 0 in {zeros} of {n} rows, and far from Gaussian",
                    "leave it as it is: a logarithm or ranks would show whether there is an amount, and hide "
                    "how large it is",
                )
                continue
            option = shlex.quote(f"{name}={'log' if values.min() >= 0 and skew > 0 else 'rank'}")
            odd.append((f"{name} (skewness {skew:.1f}, excess kurtosis {excess:.1f})", option))
    if odd:
        more = f" and {len(odd) - 6} more" if len(odd) > 6 else ""
        yield Finding(
            "info",
            source,
            f"far from Gaussian: {', '.join(words for words, _ in odd[:6])}{more}",
            "linear methods are sensitive to outliers: look for wrong values, or add "
            + " ".join(f"--transform {option}" for _, option in odd[:6]),
        )
