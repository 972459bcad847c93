"""Tables of labels as frames, and the error for columns of numbers among them."""

from __future__ import annotations

import os
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
    if isinstance(X, (str, os.PathLike)):
        raise DataError(
            f"{os.fspath(X)!r} is not a table, and files are not read here: read it with polydag.data.read, "
            "or name it on the command line (polydag fit)."
        )
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
    whole, different = bool((first.dropna() % 1 == 0).all()), first.nunique()
    labelled = ""
    if not whole:
        what = "is continuous"
    elif different > MAX_LEVELS:
        what = f"has {different} levels, more than {MAX_LEVELS}"
    else:
        what = f"holds numbers by its kind ({different} different ones)"
        labelled = f"say that its numbers are labels (on the command line --kind {numbers[0]}=discrete), "
    return DataError(
        f"Column {numbers[0]}{more} {what}, but the score {score} is for labels. Cut such columns "
        f"into levels (discretize='quantile:4'; on the command line --discretize quantile:4), {labelled}or "
        "use the score bge for numbers."
    )
