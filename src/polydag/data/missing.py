"""Missing and infinite cells: refused, left out with their rows, or filled in, and always said.

Filling in the mean shrinks a column's variance and its correlations by about the share of cells filled in;
it is for a few holes, not for a sparse column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.data.table import Kind, Missing
from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_CHOICES = "missing='drop' or 'impute' (on the command line: --missing drop|impute)"


def settle_missing(
    frame: pd.DataFrame, kinds: Mapping[str, Kind], missing: Missing, label: str, place: Callable[[int], str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The frame without holes (or as it is, for "keep"), and notes on what was done."""
    import pandas as pd

    holes = frame.isna()
    infinite = pd.DataFrame(False, index=frame.index, columns=frame.columns)
    for name in frame.columns:
        if frame[name].dtype.kind == "f":
            infinite[name] = np.isinf(frame[name])
    bad = holes | infinite
    if missing == "keep" or not bad.to_numpy().any():
        return frame, ()
    rows = int(bad.any(axis=1).sum())
    if missing == "error":
        raise DataError(_refusal(frame, holes, infinite, rows, label, place))
    if missing == "drop":
        note = f"{rows} of {len(frame)} rows left out for {_cells(holes, infinite)} ({_counts(bad)})."
        if len(frame) - rows < 2:
            raise DataError(
                f"{label}: only {len(frame) - rows} rows are complete, of {len(frame)} ({_counts(bad)} lack "
                "a value). Leave out the columns with the most missing values."
            )
        return frame[~bad.any(axis=1)].reset_index(drop=True), (note,)
    if infinite.to_numpy().any():
        row, column = np.argwhere(infinite.to_numpy())[0]
        raise DataError(
            f"{label}, column {frame.columns[column]}, {place(int(row))}: the value is infinite, and "
            "infinite values are not imputed. Correct them, or ask for missing='drop'."
        )
    if empty := [name for name in frame.columns if holes[name].all()]:
        raise DataError(f"{label}: column {', '.join(empty)} has no value at all. Leave it out.")
    filled = {name: _fill(frame[name], kinds[name]) for name in frame.columns}
    how = "column means, or the most frequent label of discrete columns"
    note = f"{int(holes.to_numpy().sum())} missing cells filled in with {how} ({_counts(holes)})."
    return pd.DataFrame(filled), (note,)


def _fill(column: pd.Series[Any], kind: Kind) -> pd.Series[Any]:
    if not column.isna().any():
        return column
    return column.fillna(column.mean() if kind == "continuous" else column.mode().iloc[0])


def _counts(bad: pd.DataFrame) -> str:
    counts = bad.sum()
    named = [f"{name} {count}" for name, count in counts[counts > 0].sort_values(ascending=False).items()]
    return ", ".join(named[:12]) + (f", and {len(named) - 12} more columns" if len(named) > 12 else "")


def _cells(holes: pd.DataFrame, infinite: pd.DataFrame) -> str:
    words = {"missing": holes, "infinite": infinite}
    return " and ".join(word for word, where in words.items() if where.to_numpy().any()) + " values"


def _refusal(
    frame: pd.DataFrame,
    holes: pd.DataFrame,
    infinite: pd.DataFrame,
    rows: int,
    label: str,
    place: Callable[[int], str],
) -> str:
    bad = holes | infinite
    row, column = np.argwhere(bad.to_numpy())[0]
    value = "missing" if holes.iloc[row, column] else frame.iloc[row, column]
    choices = _CHOICES
    if infinite.to_numpy().any():
        choices = "missing='drop' (--missing drop); infinite values are not imputed"
    return (
        f"{label} has {_cells(holes, infinite)} in {rows} of {len(frame)} rows: {_counts(bad)}. "
        f"The first is column {frame.columns[column]}, {place(int(row))} ({value}). "
        f"Correct the data, or ask for {choices}."
    )
