"""Codes for missing values, such as 0 or 999, written as `chol=0` (one column) or `999` (all columns)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd


def mark_missing(
    frame: pd.DataFrame, codes: Sequence[str], label: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The table with missing cells in place of codes, and a note on how many there were."""
    import pandas as pd

    columns: dict[str, pd.Series[Any]] = {str(name): frame[name] for name in frame.columns}
    found: dict[str, int] = {}
    for code in codes:
        name, equals, value = code.rpartition("=")
        if not value or (equals and not name):
            raise UsageError(f"A code for missing values is VALUE or COLUMN=VALUE; got {code!r}.")
        if name and name not in columns:
            raise DataError(f"{label} has no column {name}, for which {code} says what is missing.")
        for own in [name] if name else list(columns):
            hit = _cells(columns[own], value)
            if hit.any() or name:
                found[own] = found.get(own, 0) + int(hit.sum())
            if hit.any():
                columns[own] = columns[own].astype(object).where(~hit).infer_objects()
    if not found:
        return frame, ()
    listed = ", ".join(f"{name} {count}" for name, count in found.items())
    return pd.DataFrame(columns, index=frame.index), (f"Codes taken as missing values: {listed}.",)


def _cells(column: pd.Series[Any], value: str) -> Any:
    """Which cells are the code, as a number or as text."""
    try:
        number = float(value)
    except ValueError:
        number = np.nan
    if getattr(column.dtype, "kind", "O") in "iuf":
        return (column == number).to_numpy()
    return column.map(lambda cell: str(cell).strip() == value).to_numpy(dtype=bool)
