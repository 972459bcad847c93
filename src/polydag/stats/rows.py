"""Reading rows: numbers and column names from arrays, DataFrames and Arrow batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polydag.arrays import Array
from polydag.errors import DataError

MISSING_ADVICE = (
    "Drop or impute such rows first (missing='drop' or 'impute'), or let moments allow for them "
    "(InMemory(X, missing='em')); on the command line --missing drop, impute or em."
)


def column_names(data: Any) -> list[str] | None:
    """The column names of a DataFrame, an Arrow table or batch; None for anything without names."""
    columns = getattr(data, "column_names", None)
    if columns is None:
        columns = getattr(data, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def numeric_rows(data: Any) -> tuple[Array, list[str] | None]:
    """A float array (rows, columns) and the column names, from an array, DataFrame, Arrow table or batch."""
    names = column_names(data)
    if names is not None and is_arrow(data):
        values = np.array(arrow_columns(data)).T if names else np.empty((data.num_rows, 0))
        return values, names
    if names is not None and hasattr(data, "dtypes"):
        for name, dtype in zip(names, data.dtypes, strict=True):
            if getattr(dtype, "kind", "O") not in "iufb":
                dates = " Dates can be days since the first one." * (getattr(dtype, "kind", "O") == "M")
                raise DataError(f"Column {name} is {dtype}, not numeric. Recode or drop it.{dates}")
        return np.ascontiguousarray(data.to_numpy(dtype=float, na_value=np.nan)), names
    try:
        if np.iscomplexobj(data):
            raise DataError("The data holds complex numbers. Split them into real and imaginary parts.")
        values = np.asarray(data, dtype=float)
    except DataError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"The data cannot be read as numbers: {error}.") from error
    if values.ndim != 2:
        raise DataError(f"The data must have rows and columns; this array has the shape {values.shape}.")
    return values, names


def is_arrow(data: Any) -> bool:
    """Whether this is an Arrow table or record batch."""
    return hasattr(data, "schema") and hasattr(data, "column_names")


def arrow_columns(data: Any) -> list[Array]:
    """The columns of an Arrow table or batch, without a copy where they are doubles without holes."""
    return [_arrow_column(data.column(i), str(name)) for i, name in enumerate(data.column_names)]


def _arrow_column(column: Any, name: str) -> Array:
    import pyarrow.types as kinds

    # Asked by type: text such as "1" and dates would convert to numbers without complaint.
    if not any(is_kind(column.type) for is_kind in (kinds.is_floating, kinds.is_integer, kinds.is_boolean,
                                                    kinds.is_decimal)):  # fmt: skip
        raise DataError(f"Column {name} is {column.type}, not numeric. Recode or drop it.")
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=float)


def row_weights(weights: ArrayLike | None, n_rows: int) -> Array:
    """How often each row counts, checked; once by default."""
    if weights is None:
        return np.ones(n_rows)
    weight = np.asarray(weights, dtype=float)
    if weight.shape != (n_rows,) or not np.isfinite(weight).all() or (weight < 0).any():
        raise DataError(f"Row weights must be {n_rows} finite numbers, none negative.")
    return weight


def require_finite(values: Array, names: Sequence[str], rows_before: int = 0) -> None:
    """Raise with the column and row of the first value that is missing or infinite."""
    if np.isfinite(values).all():
        return
    row, column = np.argwhere(~np.isfinite(values))[0]
    bad = "missing" if np.isnan(values[row, column]) else values[row, column]
    raise DataError(
        f"Column {names[column]}, row {rows_before + row + 1}: the value is {bad}. {MISSING_ADVICE}"
    )


def difference(ours: Sequence[str], theirs: Sequence[str]) -> str:
    """In words, how two lists of variables differ."""
    if lost := [name for name in ours if name not in set(theirs)]:
        return f"{', '.join(lost)} is missing in one of them."
    if extra := [name for name in theirs if name not in set(ours)]:
        return f"{', '.join(extra)} is in one of them only."
    return "their order differs."
