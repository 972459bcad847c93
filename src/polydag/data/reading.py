"""Read tables from files and databases, into a `Table` or streamed into statistics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from polydag.data.codes import mark_missing
from polydag.data.kinds import as_table_column, typed_columns
from polydag.data.missing import handle_missing
from polydag.data.readers.interface import select_columns
from polydag.data.readers.selection import find_reader
from polydag.data.recoding import recoded
from polydag.data.table import Kind, Missing, Table
from polydag.data.transform import transformed
from polydag.errors import DataError, UsageError
from polydag.stats import GaussianStats, MixedStats

if TYPE_CHECKING:
    import pandas as pd

S = TypeVar("S")


def read(
    source: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    kinds: Mapping[str, Kind] | None = None,
    missing: Missing = "error",
    na: Sequence[str] = (),
    transforms: Mapping[str, str] | None = None,
    recode: Sequence[str] = (),
    factors: Mapping[str, float] | None = None,
    query: str | None = None,
    least: int = 2,
) -> Table:
    """Read a table from a file (CSV, Parquet, Arrow) or a database.

    Parameters
    ----------
    source : path or database address
        The suffix determines the format (.csv, .csv.gz, .tsv, .parquet, .arrow, .feather). An address such
        as `sqlite:///file.db` or `postgresql://user@host/database` is read through SQLAlchemy.
    columns : sequence of str, optional
        The columns to read, in this order; all by default.
    exclude : sequence of str
        Columns to leave out; `Table.left_out` has those that the table had.
    kinds : mapping of column to "continuous" or "discrete", optional
        The kinds of columns whose kind should not be inferred; see `polydag.data.kinds` for the rule.
    missing : "error", "drop", "impute" or "keep"
        How to handle missing values: raise an error, drop their rows, impute the mean or the most frequent
        label (this shrinks variances), or keep them. Infinite values are never imputed. With "drop", at
        least a tenth of the rows must remain.
    na : sequence of str
        Codes for missing values: `"chol=0"` for one column, `"999"` for all.
    transforms : mapping of column to "log", "rank" or "none", optional
        Transformations of columns of numbers: the logarithm (of x + 1 where there are zeros), or normal
        scores by ranks.
    recode : sequence of str
        Labels to replace: `sex:female=F`.
    factors : mapping of column to float, optional
        The factors by which columns are multiplied, to change their units.
    query : str, optional
        A SELECT statement; required for a database.
    least : int
        The minimum number of rows. A table that is part of a larger one may have a single row.
    """
    _check_missing_choice(missing)
    _check_columns(columns)
    location, reader = find_reader(source, query)
    frame = reader.frame(location, columns)
    left_out = tuple(name for name in frame.columns if name in set(exclude))
    frame, notes = recoded(frame.drop(columns=list(left_out)), recode, factors or {}, location.label)
    locate = partial(reader.locate, location)
    table = _make_table(frame, kinds, missing, location.label, locate, least, na, transforms)
    return replace(table, notes=(*reader.notes(location), *notes, *table.notes), left_out=left_out)


def from_frame(
    frame: pd.DataFrame,
    *,
    kinds: Mapping[str, Kind] | None = None,
    missing: Missing = "error",
    na: Sequence[str] = (),
    transforms: Mapping[str, str] | None = None,
    source: str = "The table",
) -> Table:
    """Create a `Table` from a DataFrame, with kinds and missing values handled as in `read`."""
    _check_missing_choice(missing)
    names = select_columns([str(name) for name in frame.columns], None, source)
    renamed = frame.set_axis(names, axis="columns").reset_index(drop=True)
    return _make_table(
        renamed, kinds, missing, source, lambda row: f"row {row + 1}", na=na, transforms=transforms
    )


def gaussian_stats(
    source: str | os.PathLike[str], columns: Sequence[str] | None = None, *, query: str | None = None
) -> GaussianStats:
    """Mean and scatter of a file or query, streamed: memory use does not grow with the number of rows.

    All selected columns must be numeric and complete.
    """
    return streamed(source, GaussianStats.from_batches, columns, query=query)


def mixed_stats(
    source: str | os.PathLike[str],
    labels: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    query: str | None = None,
) -> MixedStats:
    """Moments of numbers and of indicators of labels of a file or query, streamed as `gaussian_stats`.

    Labels of CSV files and queries are taken as text.
    """
    return streamed(source, partial(MixedStats.from_batches, labels=labels), columns, labels, query=query)


def streamed(
    source: str | os.PathLike[str],
    gather: Callable[[Iterator[Any]], S],
    columns: Sequence[str] | None = None,
    labels: Sequence[str] = (),
    *,
    query: str | None = None,
) -> S:
    """What is gathered from the batches of a file or query; errors name the source.

    Columns are numbers, except `labels`, which CSV files and queries have as text.
    """
    _check_columns(columns)
    location, reader = find_reader(source, query)
    with _naming(location.label):
        return gather(reader.batches(location, columns, labels))


@contextmanager
def _naming(label: str) -> Iterator[None]:
    """Errors that name the source."""
    try:
        yield
    except DataError as error:
        message = str(error)
        raise DataError(message if label in message else f"{label}: {message}") from None


def _check_columns(columns: Sequence[str] | None) -> None:
    if columns is not None and not len(columns):
        raise UsageError("columns= names no columns. Leave it out to read all of them.")


def _check_missing_choice(missing: str) -> None:
    if missing not in get_args(Missing):
        raise UsageError(f"missing must be one of {', '.join(get_args(Missing))}; got {missing!r}.")


def _make_table(
    frame: pd.DataFrame,
    kinds: Mapping[str, Kind] | None,
    missing: Missing,
    label: str,
    locate: Callable[[int], str],
    least: int = 2,
    na: Sequence[str] = (),
    transforms: Mapping[str, str] | None = None,
) -> Table:
    import pandas as pd

    if frame.shape[1] == 0:
        raise DataError(f"{label} has no columns.")
    if len(frame) < least:
        found = "column names but no rows" if len(frame) == 0 else "only one row"
        raise DataError(
            f"{label} has {found}. At least {least} {'row is' if least == 1 else 'rows are'} needed."
        )
    frame, marked = mark_missing(frame, na, label)
    requested = dict(kinds or {})
    select_columns(list(frame.columns), list(requested), label)
    typed, found_kinds, read_as = typed_columns(frame, requested, label, locate)
    for name in transforms or {}:
        if found_kinds.get(name) == "discrete":
            raise UsageError(f"{label}, column {name} holds labels: declare it continuous to transform it.")
    typed = transformed(typed, transforms or {}, label)
    complete, notes = handle_missing(typed, found_kinds, missing, label, locate)
    result = pd.DataFrame({name: as_table_column(complete[name], kind) for name, kind in found_kinds.items()})
    return Table(result, found_kinds, label, (*marked, *read_as, *notes), frozenset(requested))
