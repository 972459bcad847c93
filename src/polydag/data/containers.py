"""From whatever is given as a table to a DataFrame, an Arrow table or an array of numbers, or to an error.

Learners and sources meet only these three. Tables of other libraries (polars, DuckDB, …) come in through the
Arrow PyCapsule interface. What cannot be a table is refused here, with what to do about it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polydag.errors import DataError

_NOT_NUMBERS = {
    "c": "complex numbers. Complex data not supported: split them into real and imaginary parts",
    "M": "dates. Turn them into numbers, such as days since the first one, or leave them out",
    "m": "durations. Turn them into numbers, such as hours, or leave them out",
    "S": "text. Put labels into a DataFrame, where every column has a type of its own",
    "U": "text. Put labels into a DataFrame, where every column has a type of its own",
    "V": "records. Make a DataFrame of them: pandas.DataFrame(X)",
}


def table_of(data: Any) -> Any:
    """The data as a DataFrame, an Arrow table or batch, or an array of numbers or truth values."""
    if isinstance(data, pd.DataFrame):
        return _checked_frame(data)
    _refuse_what_is_no_table(data)
    if hasattr(data, "schema") and hasattr(data, "column_names"):
        return data  # an Arrow table or batch
    if hasattr(data, "__arrow_c_stream__"):
        import pyarrow as pa

        try:
            return pa.table(data)
        except pa.ArrowException as error:
            raise DataError(f"The {type(data).__name__} cannot be read as a table: {error}.") from None
    return _checked_array(data)


def _refuse_what_is_no_table(data: Any) -> None:
    if isinstance(data, (str, os.PathLike)):
        raise DataError(
            f"{os.fspath(data)!r} is not a table. Read the file with polydag.data.read, stream it with "
            "polydag.sources.Stream, or name it on the command line (polydag fit)."
        )
    if isinstance(data, pd.Series):
        raise DataError("The data is a single column. A graph needs a table: Series.to_frame() makes one.")
    if isinstance(data, Iterator):
        raise DataError(
            f"The data is a {type(data).__name__}, which can be read only once. Make a list of the rows; for "
            "a stream of batches see GaussianStats.from_batches."
        )
    if hasattr(data, "collect"):
        raise DataError("The data is a lazy frame. Compute it first: X.collect().")
    if hasattr(data, "toarray"):
        raise DataError("The data is a sparse matrix. Make an array of it: X.toarray().")


def _checked_frame(frame: pd.DataFrame) -> pd.DataFrame:
    if isinstance(frame.columns, pd.MultiIndex):
        raise DataError(
            "The columns have several levels of names (MultiIndex). Join them first: "
            "X.columns = ['_'.join(map(str, name)) for name in X.columns]."
        )
    if not frame.columns.is_unique:
        return frame  # refused by name where the names are needed
    dtypes = dict(zip(frame.columns, frame.dtypes, strict=True))
    for name, dtype in dtypes.items():
        if getattr(dtype, "kind", "O") == "c":
            raise DataError(f"Column {name} holds {_NOT_NUMBERS['c']}.")
        if isinstance(dtype, (pd.PeriodDtype, pd.IntervalDtype)):
            raise DataError(f"Column {name} holds {dtype}. Turn it into numbers or labels, or leave it out.")
    if any(isinstance(dtype, pd.SparseDtype) for dtype in dtypes.values()):
        frame = frame.sparse.to_dense()  # type: ignore[attr-defined]
    objects = [name for name, dtype in dtypes.items() if dtype == np.dtype(object)]
    numbers = {name: float for name in objects if _holds_numbers(frame[name])}
    return frame.astype(numbers) if numbers else frame


def _holds_numbers(column: pd.Series[Any]) -> bool:
    """Whether a column of objects holds numbers, Python's decimals for example; not truth values."""
    return all(
        isinstance(cell, (Real, Decimal)) and not isinstance(cell, (bool, np.bool_)) for cell in column
    )


def _checked_array(data: Any) -> NDArray[Any]:
    try:
        array = data.filled(np.nan) if isinstance(data, np.ma.MaskedArray) else np.asarray(data)
        if array.dtype.kind == "O":
            array = array.astype(float)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"The data cannot be read as numbers: {error}.") from None
    if array.dtype.kind in _NOT_NUMBERS:
        raise DataError(f"The data holds {_NOT_NUMBERS[array.dtype.kind]}.")
    if array.ndim != 2:
        raise DataError(f"The data must have rows and columns; this array has the shape {array.shape}.")
    return array


def require_columns(table: Any) -> None:
    """Raise `DataError` if there are no columns."""
    shape = tuple(table.shape)
    if shape[1] == 0:
        raise DataError(f"The data has 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
