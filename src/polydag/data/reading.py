"""Reading tables: from files and databases into a `Table`, or streamed into statistics."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, get_args

from polydag.data.formats import choose
from polydag.data.kinds import finish, settle
from polydag.data.missing import settle_missing
from polydag.data.sources import find
from polydag.data.table import Kind, Missing, Table
from polydag.errors import DataError, UsageError
from polydag.stats import GaussianStats

if TYPE_CHECKING:
    import pandas as pd


def read(
    source: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    kinds: Mapping[str, Kind] | None = None,
    missing: Missing = "error",
    query: str | None = None,
    least: int = 2,
) -> Table:
    """Read a table from a file (CSV, Parquet, Arrow) or a database.

    Parameters
    ----------
    source : path or database address
        The format is known by the suffix (.csv, .csv.gz, .tsv, .parquet, .arrow, .feather); an address such
        as `sqlite:///file.db` or `postgresql://user@host/database` is read through SQLAlchemy.
    columns : sequence of str, optional
        The columns to read, in this order; all by default.
    kinds : mapping of column to "continuous" or "discrete", optional
        For columns whose kind should not be inferred; the rule is in `polydag.data.kinds`.
    missing : "error", "drop", "impute" or "keep"
        What to do about missing values: refuse, leave out their rows, fill in the mean or the most frequent
        label (this shrinks variances), or leave them as they are. Infinite values are never filled in.
    query : str, optional
        The SELECT whose rows are wanted; needed for a database.
    least : int
        How many rows there must be: one may do where the table is a part of a whole.
    """
    _known_choice(missing)
    origin, form = find(source, query)
    frame = form.frame(origin, columns)
    return _settle(frame, kinds, missing, origin.label, partial(form.place, origin), least)


def from_frame(
    frame: pd.DataFrame,
    *,
    kinds: Mapping[str, Kind] | None = None,
    missing: Missing = "error",
    source: str = "The table",
) -> Table:
    """A `Table` of a DataFrame, with kinds and missing values treated as by `read`."""
    _known_choice(missing)
    names = choose([str(name) for name in frame.columns], None, source)
    own = frame.set_axis(names, axis="columns").reset_index(drop=True)
    return _settle(own, kinds, missing, source, lambda row: f"row {row + 1}")


def gaussian_stats(
    source: str | os.PathLike[str], columns: Sequence[str] | None = None, *, query: str | None = None
) -> GaussianStats:
    """Mean and scatter of a file or a query, streamed: memory does not grow with the rows.

    All columns asked for must be numeric and without missing values.
    """
    origin, form = find(source, query)
    batches = form.batches(origin, columns)
    try:
        return GaussianStats.from_batches(batches)
    except DataError as error:
        said = str(error)
        raise DataError(said if origin.label in said else f"{origin.label}: {said}") from None


def _known_choice(missing: str) -> None:
    if missing not in get_args(Missing):
        raise UsageError(f"missing is one of {', '.join(get_args(Missing))}; got {missing!r}.")


def _settle(
    frame: pd.DataFrame,
    kinds: Mapping[str, Kind] | None,
    missing: Missing,
    label: str,
    place: Callable[[int], str],
    least: int = 2,
) -> Table:
    import pandas as pd

    if frame.shape[1] == 0:
        raise DataError(f"{label} has no columns.")
    if len(frame) < least:
        found = "column names but no rows" if len(frame) == 0 else "only one row"
        raise DataError(
            f"{label} has {found}. At least {least} {'row is' if least == 1 else 'rows are'} needed."
        )
    wishes = dict(kinds or {})
    choose(list(frame.columns), list(wishes), label)
    for name, wish in wishes.items():
        if wish not in get_args(Kind):
            raise UsageError(f"The kind of {name} is continuous or discrete; got {wish!r}.")
    settled = {
        str(name): settle(frame[name], wishes.get(str(name)), f"{label}, column {name}", place)
        for name in frame
    }
    found_kinds = {name: kind for name, (_, kind) in settled.items()}
    whole = pd.DataFrame({name: column for name, (column, _) in settled.items()})
    whole, notes = settle_missing(whole, found_kinds, missing, label, place)
    result = pd.DataFrame({name: finish(whole[name], kind) for name, kind in found_kinds.items()})
    return Table(result, found_kinds, label, notes)
