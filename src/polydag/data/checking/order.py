"""Rows that follow each other in a file and are alike, as those of a time series or of sorted groups are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from polydag.data.table import Table

ORDER_ADVICE = (
    "if rows are in order of time, use --method notears-lagged; if they come in groups, name these "
    "with --groups COLUMN; if the file was only sorted, no action is needed"
)
_LEAST_ROWS = 50
_CLEAR = 5.0  # standard errors of a correlation that are no accident, whatever the number of columns


def alike_in_order(table: Table) -> list[str]:
    """The columns in which consecutive rows are correlated, with the correlation; none if it is one of many.

    A column that is sorted itself says nothing of how the rows came about.
    """
    found = []
    for name in table.continuous:
        values = table.frame[name].to_numpy(dtype=float)
        values = values[np.isfinite(values)]
        if len(values) < _LEAST_ROWS or values.std() == 0:
            continue
        centred = values - values.mean()
        lag = float(centred[1:] @ centred[:-1] / (centred @ centred))
        steps = np.diff(values)
        if lag * np.sqrt(len(values)) > _CLEAR and (steps > 0).any() and (steps < 0).any():
            found.append(f"{name} ({lag:.2f})")
    return found if len(found) >= min(2, len(table.continuous)) else []
