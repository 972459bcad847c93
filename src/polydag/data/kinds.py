"""How the kind of a column, continuous or discrete, is inferred.

- Text, booleans, categories and dates are discrete and keep their labels.
- Numbers with a fractional part are continuous.
- Whole numbers, however stored, are discrete if there are at most `MAX_LEVELS` distinct values and, on
  average, at least two rows per value. Otherwise they are continuous.
- A text column in which at least half of the cells are numbers is taken to be numeric with stray text. It
  raises an error that names the first such cell, unless the caller declares the column discrete.

A kind given by the caller (`kinds={"age": "continuous"}`, on the command line `--kind age=continuous`) takes
precedence. The same rule holds for files, databases, DataFrames and arrays.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from polydag.data.table import Kind
from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

MAX_LEVELS = 10
_HEAD = 100
_DATES = (datetime.date, datetime.time, datetime.timedelta)


def typed_columns(
    frame: pd.DataFrame, requested: Mapping[str, Kind], label: str, locate: Callable[[int], str]
) -> tuple[pd.DataFrame, dict[str, Kind]]:
    """A table whose columns have cells of one type each, and their kinds; missing cells stay missing."""
    import pandas as pd

    for name, wanted in requested.items():
        if wanted not in get_args(Kind):
            raise UsageError(f"The kind of {name} must be continuous or discrete; got {wanted!r}.")
    resolved = {
        str(name): resolve_kind(frame[name], requested.get(str(name)), f"{label}, column {name}", locate)
        for name in frame
    }
    typed = pd.DataFrame({name: column for name, (column, _) in resolved.items()}, index=frame.index)
    return typed, {name: kind for name, (_, kind) in resolved.items()}


def resolve_kind(
    column: pd.Series[Any], requested: Kind | None, label: str, locate: Callable[[int], str]
) -> tuple[pd.Series[Any], Kind]:
    """A column with cells of one type, and its kind; missing cells stay missing.

    Parameters
    ----------
    column : Series
        The column as read; cells may have any type.
    requested : "continuous", "discrete" or None
        The kind given by the caller, if any.
    label : str
        The source and the column, for messages.
    locate : callable
        Describes the position of a row (counted from 0) in the source, for messages.
    """
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        if requested != "continuous":
            return column, "discrete"
        column = column.astype(object)
    if pd.api.types.is_bool_dtype(column.dtype) and not column.isna().any():
        return (
            (column.astype(float), "continuous")
            if requested == "continuous"
            else (column.astype(bool), "discrete")
        )
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _numeric_column(column, requested, label)
    present = column[column.notna()]
    if present.empty:
        return _numeric_column(pd.Series(np.full(len(column), np.nan), index=column.index), requested, label)
    if all(isinstance(cell, bool) for cell in present):
        return (column.astype(float), "continuous") if requested == "continuous" else (column, "discrete")
    is_number = present.map(lambda cell: isinstance(cell, (numbers.Real, decimal.Decimal))).astype(bool)
    if is_number.all():
        return _numeric_column(column.astype(float), requested, label)
    text = column.where(column.isna(), column.map(_as_text)).astype(object)
    parsed = pd.to_numeric(text, errors="coerce")
    bad = np.flatnonzero(text.notna() & parsed.isna())
    if requested == "continuous" or (requested is None and 0 < len(bad) <= len(present) / 2):
        if len(bad):
            more = f" (and {len(bad) - 1} more such cells)" if len(bad) > 1 else ""
            raise DataError(
                f"{label}, {locate(int(bad[0]))}: {text.iloc[bad[0]]!r} is not a number, in a numeric column"
                f"{more}. Correct it, leave the cell empty if the value is missing, or declare the column "
                "discrete."
            )
        return parsed.astype(float), "continuous"
    return text, "discrete"


def as_table_column(column: pd.Series[Any], kind: Kind) -> pd.Series[Any]:
    """The column with the dtype that a `Table` uses, once missing cells have been handled."""
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


def _numeric_column(
    column: pd.Series[Any], requested: Kind | None, label: str
) -> tuple[pd.Series[Any], Kind]:
    if column.dtype.kind == "c":
        raise DataError(f"{label} holds complex numbers. Split them into real and imaginary parts.")
    if column.dtype.kind not in "iuf" or column.dtype != column.to_numpy().dtype:
        column = column.astype(float)  # pandas' nullable numbers
    few = requested is None and has_few_whole_numbers(column.to_numpy())
    kind: Kind = requested or ("discrete" if few else "continuous")
    return column, kind


def has_few_whole_numbers(values: NDArray[Any]) -> bool:
    """Whether numbers are taken as labels: whole, few, and each of them twice on average."""
    head = values[:_HEAD]
    if values.dtype.kind == "f" and (head[np.isfinite(head)] % 1 != 0).any():
        return False  # as most columns are: the rest need not be read
    values = values[np.isfinite(values)]
    if len(values) == 0 or (values.dtype.kind == "f" and (values % 1 != 0).any()):
        return False
    levels = len(np.unique(values))
    return levels <= MAX_LEVELS and 2 * levels <= len(values)


def _as_text(cell: object) -> str:
    if isinstance(cell, datetime.timedelta) or not isinstance(cell, _DATES):
        return str(cell)
    return cell.isoformat()  # type: ignore[union-attr,unused-ignore]
