"""Tables of labels as frames, and the error for columns of numbers among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from polydag.data.discretize import MAX_LEVELS, continuous_columns
from polydag.data.table import Table
from polydag.errors import DataError


def as_frame(X: Any) -> pd.DataFrame:
    """A DataFrame of a `Table`, a DataFrame, an Arrow table or an array."""
    if isinstance(X, Table):
        return X.frame
    if isinstance(X, pd.DataFrame):
        return X
    if hasattr(X, "schema"):
        frame: pd.DataFrame = X.to_pandas()
        return frame
    array = np.asarray(X)
    if array.ndim != 2:
        raise DataError(f"The data must have rows and columns; this array has the shape {array.shape}.")
    return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])])


def numbers_of(X: Any) -> list[str]:
    """The continuous columns of a table."""
    return list(X.continuous) if isinstance(X, Table) else continuous_columns(as_frame(X))


def not_labels(frame: pd.DataFrame, numbers: list[str], score: str) -> DataError:
    """What to say of columns of numbers where a score is for labels."""
    first = frame.iloc[:, [str(name) for name in frame.columns].index(numbers[0])]
    more = f" (and {len(numbers) - 1} more)" if len(numbers) > 1 else ""
    whole = bool((first.dropna() % 1 == 0).all())
    what = f"has {first.nunique()} levels, more than {MAX_LEVELS}" if whole else "is continuous"
    return DataError(
        f"Column {numbers[0]}{more} {what}, but the score {score} is for labels. Cut such columns "
        "into levels (discretize='quantile:4'; on the command line --discretize quantile:4), or use "
        "the score bge for numbers."
    )
