"""Handle missing and infinite values: raise an error, drop their rows, or impute them, and report it.

Mean imputation shrinks a column's variance and its correlations by about the proportion of imputed cells. It
suits a few missing values, not a sparse column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.data.table import Kind, Missing
from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_CHOICES = (
    "all rows with InMemory(X, missing='em') or 'multiple' (on the command line: --missing em|multiple); or "
    "missing='drop' or 'impute' (--missing drop|impute)"
)
_LEAST_SHARE = 0.1  # of rows that must be left when the others are dropped


def handle_missing(
    frame: pd.DataFrame, kinds: Mapping[str, Kind], missing: Missing, label: str, locate: Callable[[int], str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The frame without missing values (unchanged for "keep"), and notes on what was done."""
    import pandas as pd

    absent = frame.isna()
    infinite = pd.DataFrame(False, index=frame.index, columns=frame.columns)
    for name in frame.columns:
        if frame[name].dtype.kind == "f":
            infinite[name] = np.isinf(frame[name])
    bad = absent | infinite
    if missing == "keep" or not bad.to_numpy().any():
        return frame, ()
    rows = int(bad.any(axis=1).sum())
    if missing == "error":
        raise DataError(_explanation(frame, absent, infinite, rows, label, locate))
    if missing == "drop":
        left = len(frame) - rows
        note = f"{rows} of {len(frame)} rows dropped because of {_what(absent, infinite)} ({_counts(bad)})."
        if left < max(2, _LEAST_SHARE * len(frame)):
            raise DataError(
                f"{label}: only {left} of {len(frame)} rows are complete (missing: {_counts(bad)}). Use "
                f"missing='em' (--missing em), or exclude columns: {_costliest(bad)}."
            )
        return frame[~bad.any(axis=1)].reset_index(drop=True), (note,)
    if infinite.to_numpy().any():
        row, column = np.argwhere(infinite.to_numpy())[0]
        raise DataError(
            f"{label}, column {frame.columns[column]}, {locate(int(row))}: the value is infinite, and "
            "infinite values are not imputed. Correct them, or use missing='drop'."
        )
    if empty := [name for name in frame.columns if absent[name].all()]:
        raise DataError(f"{label}: column {', '.join(empty)} has no values. Exclude it.")
    filled = {name: _impute(frame[name], kinds[name]) for name in frame.columns}
    how = "column means, or the most frequent label of discrete columns"
    note = f"{int(absent.to_numpy().sum())} missing values imputed with {how} ({_counts(absent)})."
    return pd.DataFrame(filled), (note,)


def _impute(column: pd.Series[Any], kind: Kind) -> pd.Series[Any]:
    if not column.isna().any():
        return column
    return column.fillna(column.mean() if kind == "continuous" else column.mode().iloc[0])


def _counts(bad: pd.DataFrame) -> str:
    counts = bad.sum()
    named = [f"{name} {count}" for name, count in counts[counts > 0].sort_values(ascending=False).items()]
    return ", ".join(named[:12]) + (f", and {len(named) - 12} more columns" if len(named) > 12 else "")


def _costliest(bad: pd.DataFrame) -> str:
    """How many rows are complete once the columns that cost most are left out, one after the other."""
    left, out, words = bad, [], []
    for _ in range(3):
        gains = {name: int((~left.drop(columns=name).any(axis=1)).sum()) for name in left.columns}
        best = max(gains, key=lambda name: (gains[name], left[name].sum()))
        out.append(str(best))
        left = left.drop(columns=best)
        words.append(f"without {', '.join(out)} {int((~left.any(axis=1)).sum())} rows are complete")
        if left.shape[1] < 2 or not left.to_numpy().any():
            break
    return "; ".join(words)


def _what(absent: pd.DataFrame, infinite: pd.DataFrame) -> str:
    words = {"missing": absent, "infinite": infinite}
    return " and ".join(word for word, where in words.items() if where.to_numpy().any()) + " values"


def _explanation(
    frame: pd.DataFrame,
    absent: pd.DataFrame,
    infinite: pd.DataFrame,
    rows: int,
    label: str,
    locate: Callable[[int], str],
) -> str:
    bad = absent | infinite
    row, column = np.argwhere(bad.to_numpy())[0]
    value = "missing" if absent.iloc[row, column] else frame.iloc[row, column]
    choices = _CHOICES
    if infinite.to_numpy().any():
        choices = "missing='drop' (--missing drop); infinite values are not imputed"
    return (
        f"{label} has {_what(absent, infinite)} in {rows} of {len(frame)} rows: {_counts(bad)}. "
        f"The first is in column {frame.columns[column]}, {locate(int(row))} ({value}). "
        f"Correct the data, or use {choices}."
    )
