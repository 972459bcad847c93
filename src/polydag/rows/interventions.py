"""Interventions on linked rows: which values were set, and whether enough rows are left to estimate Σ from.

Setting X_k in some rows leaves the equations of the other variables as they are, and in the other rows that
of X_k. The errors of X_j in the rows U in which it was not set have the correlation Σ_UU, whatever was done
to its parents: its family is scored by generalised least squares within U.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from polydag.errors import DataError
from polydag.rows.linked_table import LinkedTable

_FEWEST = 4  # rows in which nothing was set, to estimate their correlation from


def with_interventions(
    table: LinkedTable, targets: Sequence[Sequence[str]], *, estimated: bool
) -> LinkedTable:
    """The table with the values that were set; raises where the rest cannot tell the rows' correlation.

    `estimated` says whether that is estimated, and not known.
    """
    place = {name: j for j, name in enumerate(table.names)}
    was_set = np.zeros(table.values.shape, dtype=bool)
    if len(targets) != len(was_set):
        raise DataError(f"There are {len(targets)} intervention targets for {len(was_set)} rows.")
    for row, names in enumerate(targets):
        if unknown := [name for name in names if name not in place]:
            raise DataError(f"Row {row + 1}: an intervention names {unknown[0]}, which is not a variable.")
        was_set[row, [place[name] for name in names]] = True
    if not was_set.any():
        return table
    found = replace(table, was_set=was_set)
    if estimated:
        _require_rows_left(found)
    return found


def _require_rows_left(table: LinkedTable) -> None:
    left = int(table.unset.sum())
    if left < _FEWEST or not table.unset_links.n_links:
        raise DataError(
            f"In {left} rows nothing was set, and {'few' if left < _FEWEST else 'none'} of them are linked: "
            "the row correlation cannot be estimated from them. Give it "
            "(correlation=, or share= with covariance=)."
        )
    values = table.values[table.unset]
    if (constant := np.flatnonzero(np.ptp(values, axis=0) == 0)).size:
        raise DataError(
            f"Column {table.names[constant[0]]} is constant in the {left} rows in which nothing was set, "
            "from which the rows' correlation is estimated. Leave it out, or give the correlation "
            "(correlation=, or share= with covariance=)."
        )
