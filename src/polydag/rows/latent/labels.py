"""Labels as levels between cuts: which columns they are, their codes, and the cuts their margins tell."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.rows.latent import _normal_kernels
from polydag.stats.discrete import levels_of

if TYPE_CHECKING:
    import pandas as pd

Levels = dict[str, tuple[Hashable, ...]]
MOST_LEVELS = 20
_FARTHEST = 8.0  # of a cut


def ordered_levels(frame: pd.DataFrame, kinds: Mapping[str, str]) -> Levels:
    """The levels of each column of labels, in their order.

    Labels are words, columns with two values, and numbers that `kinds` calls discrete. Two levels need no
    order; more are ordered by number, or as an ordered categorical column says. Others are refused.
    """
    found: Levels = {}
    for name in map(str, frame.columns):
        column = frame[name]
        if kinds.get(name) == "continuous":
            continue
        numeric = column.dtype.kind in "iufM"
        two = column.nunique(dropna=False) == 2
        if numeric and not two and kinds.get(name) != "discrete":
            continue
        if column.isna().any():
            row = int(np.flatnonzero(column.isna())[0]) + 1
            raise DataError(f"Column {name}, row {row}: the value is missing. Leave out the row, or fill it.")
        present = set(column.unique().tolist())
        levels = tuple(level for level in levels_of(column) if level in present)
        if len(levels) < 2:
            raise DataError(f"Column {name} has only one level: it is constant. Leave it out.")
        if len(levels) > MOST_LEVELS:
            raise DataError(
                f"Column {name} has {len(levels)} levels; labels of linked rows may have {MOST_LEVELS}. "
                "Merge levels, or declare it as continuous."
            )
        if len(levels) > 2 and not numeric and not getattr(column.dtype, "ordered", False):
            shown = ", ".join(map(str, levels[:4])) + (", …" if len(levels) > 4 else "")
            raise DataError(
                f"Column {name} has {len(levels)} levels without an order ({shown}), which cannot come from "
                "a single Gaussian variable. Give them an order (numbers that are declared as discrete, or "
                "an ordered categorical column), or use labels='indicators'."
            )
        found[name] = levels
    return found


def with_codes(frame: pd.DataFrame, levels: Levels) -> pd.DataFrame:
    """The table with 0, 1, 2 … in place of labels."""
    import pandas as pd

    codes: dict[str, Any] = {
        name: pd.Index(list(own)).get_indexer(pd.Index(frame[name].astype(object))).astype(float)
        for name, own in levels.items()
    }
    return frame.assign(**codes)


def cuts_of(codes: Array, count: int) -> Array:
    """Where the levels of a column begin on the scale of a standard normal variable, by their frequencies."""
    frequencies = np.bincount(codes.astype(np.int64), minlength=count) / len(codes)
    cuts = _normal_kernels.quantiles(np.cumsum(frequencies)[:-1])
    return np.clip(cuts, -_FARTHEST, _FARTHEST)  # a level may be absent from a resample


def codes_between(values: Array, cuts: Sequence[Array | None]) -> Array:
    """The levels that Gaussian values fall in; columns without cuts as they are."""
    columns = [
        column if own is None else np.searchsorted(own, column).astype(float)
        for column, own in zip(values.T, cuts, strict=True)
    ]
    return np.stack(columns, axis=1)
