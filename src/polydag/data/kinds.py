"""Continuous or discrete: how the kind of a column is inferred.

- Text, booleans, categories, dates: discrete, and their labels are kept.
- Numbers with a fractional part: continuous.
- Whole numbers (however stored): discrete when there are at most `MAX_LEVELS` different ones and, on average,
  at least two rows for each; continuous otherwise.
- A column of text in which at least half of the cells are numbers is a numeric column with text in it: an
  error that names the first such cell, unless the caller says that the column is discrete.

The caller's own word (`kinds={"age": "continuous"}`) always comes first.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.data.table import Kind
from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

MAX_LEVELS = 10
_DATES = (datetime.date, datetime.time, datetime.timedelta)


def settle(
    column: pd.Series[Any], wish: Kind | None, label: str, place: Callable[[int], str]
) -> tuple[pd.Series[Any], Kind]:
    """A column with cells of one sort, and its kind; missing cells stay missing.

    Parameters
    ----------
    column : Series
        As read; cells may be of any sort.
    wish : "continuous", "discrete" or None
        What the caller says it is.
    label : str
        The source and the column, for messages.
    place : callable
        Where a row (counted from 0) stands in the source, in words.
    """
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        if wish != "continuous":
            return column, "discrete"
        column = column.astype(object)
    if pd.api.types.is_bool_dtype(column.dtype) and not column.isna().any():
        return (
            (column.astype(float), "continuous")
            if wish == "continuous"
            else (column.astype(bool), "discrete")
        )
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _number_column(column, wish, label)
    present = column[column.notna()]
    if present.empty:
        return _number_column(pd.Series(np.full(len(column), np.nan), index=column.index), wish, label)
    if all(isinstance(cell, bool) for cell in present):
        return (column.astype(float), "continuous") if wish == "continuous" else (column, "discrete")
    is_number = present.map(lambda cell: isinstance(cell, (numbers.Real, decimal.Decimal))).astype(bool)
    if is_number.all():
        return _number_column(column.astype(float), wish, label)
    text = column.where(column.isna(), column.map(_as_text)).astype(object)
    parsed = pd.to_numeric(text, errors="coerce")
    bad = np.flatnonzero(text.notna() & parsed.isna())
    if wish == "continuous" or (wish is None and 0 < len(bad) <= len(present) / 2):
        if len(bad):
            more = f" (and {len(bad) - 1} more such cells)" if len(bad) > 1 else ""
            raise DataError(
                f"{label}, {place(int(bad[0]))}: {text.iloc[bad[0]]!r} is not a number, in a numeric column"
                f"{more}. Correct it; leave the cell empty where the value is missing; or say that the "
                "column is discrete."
            )
        return parsed.astype(float), "continuous"
    return text, "discrete"


def finish(column: pd.Series[Any], kind: Kind) -> pd.Series[Any]:
    """The column as a `Table` holds it, once missing cells are dealt with."""
    import pandas as pd

    if kind == "continuous":
        return column.astype(float)
    if isinstance(column.dtype, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(column.dtype):
        return column
    if pd.api.types.is_numeric_dtype(column.dtype):
        whole = column.dtype.kind == "f" and bool(np.isfinite(column).all()) and bool((column % 1 == 0).all())
        return column.astype(np.int64) if whole else column
    if column.notna().all() and all(isinstance(cell, bool) for cell in column):
        return column.astype(bool)
    return pd.Series(pd.Categorical(column), index=column.index, name=column.name)


def _number_column(column: pd.Series[Any], wish: Kind | None, label: str) -> tuple[pd.Series[Any], Kind]:
    if column.dtype.kind == "c":
        raise DataError(f"{label} holds complex numbers. Split them into real and imaginary parts.")
    if column.dtype.kind not in "iuf" or column.dtype != column.to_numpy().dtype:
        column = column.astype(float)  # pandas' nullable numbers
    kind: Kind = wish or ("discrete" if _is_counted(column) else "continuous")
    return column, kind


def _is_counted(column: pd.Series[Any]) -> bool:
    values = column.to_numpy()
    values = values[np.isfinite(values)]
    if len(values) == 0 or (values.dtype.kind == "f" and (values % 1 != 0).any()):
        return False
    levels = len(np.unique(values))
    return levels <= MAX_LEVELS and 2 * levels <= len(values)


def _as_text(cell: object) -> str:
    if isinstance(cell, datetime.timedelta) or not isinstance(cell, _DATES):
        return str(cell)
    return cell.isoformat()  # type: ignore[union-attr,unused-ignore]
