"""Transformations of single columns of numbers: logarithm, or normal scores by ranks.

`rank` is the nonparanormal transformation (Liu, Lafferty and Wasserman 2009): the k-th smallest of n values
becomes the quantile `k/(n + 1)` of a standard normal, ties their mean. It keeps the order of values and
nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

TRANSFORMS = ("log", "rank", "none")


def transformed(frame: pd.DataFrame, transforms: Mapping[str, str], label: str) -> pd.DataFrame:
    """The table with some columns transformed; missing cells stay missing."""
    changed = {}
    for name, how in transforms.items():
        if how not in TRANSFORMS:
            raise UsageError(f"A transformation is {', '.join(TRANSFORMS)}; got {how!r} for {name}.")
        if name not in frame.columns:
            raise DataError(f"{label} has no column {name} to transform.")
        if how != "none":
            changed[name] = _WAYS[how](frame[name], f"{label}, column {name}")
    return frame.assign(**changed)


def _log(column: pd.Series[Any], label: str) -> pd.Series[Any]:
    values = _numbers(column, label)
    if (values < 0).any():
        raise DataError(
            f"{label}: {values.min():g} has no logarithm. Use rank, or mark codes as missing (--na)."
        )
    result: pd.Series[Any] = np.log1p(values) if (values == 0).any() else np.log(values)
    return result


def _rank(column: pd.Series[Any], label: str) -> pd.Series[Any]:
    from scipy.special import ndtri

    values = _numbers(column, label)
    share = values.rank() / (values.notna().sum() + 1)
    result: pd.Series[Any] = share.map(ndtri, na_action="ignore").astype(float)
    return result


def _numbers(column: pd.Series[Any], label: str) -> pd.Series[Any]:
    if getattr(column.dtype, "kind", "O") not in "iuf":
        raise DataError(f"{label} holds no numbers to transform.")
    return column.astype(float)


_WAYS = {"log": _log, "rank": _rank}
