"""How the kind of a column, continuous or discrete, is inferred.

- Text, booleans, categories and dates are discrete and keep their labels.
- Numbers with a fractional part are continuous.
- Whole numbers, however stored, are discrete if there are at most `MAX_LEVELS` distinct values and, on
  average, at least two rows per value. Otherwise they are continuous.
- Blanks around numbers do not matter; a cell of blanks is missing. Whole numbers that are stored as text,
  without blanks, are labels.
- A text column in which at least half of the cells are numbers is taken to be numeric with stray text. It
  raises an error that names such cells, unless the caller declares the column discrete.
- Text of more than `MAX_LEVELS` different cells, or declared continuous, is taken for numbers if it is
  written in one way: with one unit (`125 mmHg`, `61 %`), decimal commas, or commas between thousands. A note
  says so.

A kind given by the caller (`kinds={"age": "continuous"}`, on the command line `--kind age=continuous`) takes
precedence. The same rule holds for files, databases, DataFrames and arrays.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from polydag.data.table import Kind
from polydag.data.written_numbers import UnreadableColumnError, column_of, written_numbers
from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

MAX_LEVELS = 10
_HEAD = 100
_SHOWN = 4
_DATES = (datetime.date, datetime.time, datetime.timedelta)


class Typed(NamedTuple):
    """A table with cells of one type in each column, its kinds, and notes on how cells were read."""

    frame: pd.DataFrame
    kinds: dict[str, Kind]
    notes: tuple[str, ...]


class Resolved(NamedTuple):
    """A column with cells of one type, its kind, and how numbers were read if not as they stand."""

    column: pd.Series[Any]
    kind: Kind
    how: str = ""


def typed_columns(
    frame: pd.DataFrame, requested: Mapping[str, Kind], label: str, locate: Callable[[int], str]
) -> Typed:
    """A table whose columns have cells of one type each, and their kinds; missing cells stay missing."""
    import pandas as pd

    for name, wanted in requested.items():
        if wanted not in get_args(Kind):
            raise UsageError(f"The kind of {name} must be continuous or discrete; got {wanted!r}.")
    resolved = {
        str(name): resolve_kind(frame[name], requested.get(str(name)), f"{label}, column {name}", locate)
        for name in frame
    }
    typed = pd.DataFrame({name: own.column for name, own in resolved.items()}, index=frame.index)
    kinds = {name: own.kind for name, own in resolved.items()}
    how: dict[str, list[str]] = {}
    for name, own in resolved.items():
        if own.how:
            how.setdefault(own.how, []).append(name)
    notes = tuple(f"Read as numbers {words}: {', '.join(names)}." for words, names in how.items())
    return Typed(typed, kinds, notes)


def all_have_fractions(frame: pd.DataFrame) -> bool:
    """Whether all columns are floats of which an early row has a fractional part: numbers as they stand."""
    if any(dtype != np.float64 for dtype in frame.dtypes):
        return False
    head = frame.iloc[:_HEAD].to_numpy()
    fractions = np.mod(head, 1, out=np.zeros_like(head), where=np.isfinite(head))
    return bool((fractions != 0).any(axis=0).all())


def resolve_kind(
    column: pd.Series[Any], requested: Kind | None, label: str, locate: Callable[[int], str]
) -> Resolved:
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
            return Resolved(column, "discrete")
        column = column.astype(object)
    if pd.api.types.is_bool_dtype(column.dtype) and not column.isna().any():
        return (
            Resolved(column.astype(float), "continuous")
            if requested == "continuous"
            else Resolved(column.astype(bool), "discrete")
        )
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _numeric_column(column, requested, label)
    present = column[column.notna()]
    if present.empty:
        return _numeric_column(pd.Series(np.full(len(column), np.nan), index=column.index), requested, label)
    if all(isinstance(cell, bool) for cell in present):
        if requested == "continuous":
            return Resolved(column.astype(float), "continuous")
        return Resolved(column, "discrete")
    is_number = present.map(lambda cell: isinstance(cell, (numbers.Real, decimal.Decimal))).astype(bool)
    if is_number.all():
        return _numeric_column(column.astype(float), requested, label)
    cells = column.astype(object)  # dates would be made of their texts again
    return _text_column(cells.where(cells.isna(), cells.map(_as_text)), requested, label, locate)


def _text_column(
    text: pd.Series[Any], requested: Kind | None, label: str, locate: Callable[[int], str]
) -> Resolved:
    """Text as labels, or as the numbers that it holds."""
    import pandas as pd

    stripped = text.map(str.strip, na_action="ignore")
    stripped = stripped.where(stripped != "", None)
    text = text.where(stripped.notna(), None)
    if requested == "discrete" or stripped.isna().all():
        return Resolved(text, "discrete")
    values, how = pd.to_numeric(stripped, errors="coerce").astype(float), ""
    there = int(stripped.notna().sum())
    if values.notna().sum() < there / 2 and (requested or stripped.nunique() > MAX_LEVELS):
        values, how = written_numbers(stripped, label) or (values, "")
    bad = np.flatnonzero(stripped.notna() & values.isna())
    if requested is None and len(bad) > there / 2:
        return Resolved(text, "discrete")
    if len(bad):
        raise _stray_text(stripped, bad, label, locate)
    if requested or how:
        return Resolved(values, "continuous", how)
    if (stripped == text).all() and not stripped.str.contains(".", regex=False).any():
        return Resolved(text, "discrete")  # whole numbers that were made text
    return _numeric_column(values, None, label)


def _stray_text(
    text: pd.Series[Any], bad: NDArray[Any], label: str, locate: Callable[[int], str]
) -> UnreadableColumnError:
    """Cells that are no numbers, in a column of numbers, and what may be done about them."""
    name = column_of(label)
    cells = text.iloc[bad].value_counts()
    first = str(text.iloc[bad[0]])
    more = f" (and {len(bad) - 1} more such cells)" if len(bad) > 1 else ""
    if len(bad) > 1 and len(cells) > 1:
        listed = ", ".join(f"{cell!r} {count}" for cell, count in cells.head(_SHOWN).items())
        more = f" (and {len(bad) - 1} more such cells: {listed}{', …' * (len(cells) > _SHOWN)})"
    limit = first[:1] in "<>≤≥" and len(first) > 1
    number = (
        f"give values beyond a limit a number (--recode {shlex.quote(f'{name}:{first}=NUMBER')})"
        if limit
        else "correct it"
    )
    return UnreadableColumnError(
        f"{label}, {locate(int(bad[0]))}: {first!r} is not a number, in a numeric column{more}. If the value "
        f"is missing, leave the cell empty or add --na {shlex.quote(f'{name}={first}')} (na=); otherwise "
        f"{number}, or declare the column discrete (--kind {shlex.quote(f'{name}=discrete')}).",
        name,
    )


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


def _numeric_column(column: pd.Series[Any], requested: Kind | None, label: str) -> Resolved:
    if column.dtype.kind == "c":
        raise DataError(f"{label} holds complex numbers. Split them into real and imaginary parts.")
    if column.dtype.kind not in "iuf" or column.dtype != column.to_numpy().dtype:
        column = column.astype(float)  # pandas' nullable numbers
    few = requested is None and has_few_whole_numbers(column.to_numpy())
    kind: Kind = requested or ("discrete" if few else "continuous")
    return Resolved(column, kind)


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
