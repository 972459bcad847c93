"""Discretise numeric columns, by quantiles or into intervals of equal width."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

_RULES = ("quantile", "interval")
MAX_LEVELS = 64


def continuous_columns(frame: pd.DataFrame, *, most_levels: int = MAX_LEVELS) -> list[str]:
    """Numeric columns with fractional values, or with more than `most_levels` distinct values."""
    found = []
    for position, name in enumerate(frame.columns):
        values = frame.iloc[:, position]
        if getattr(values.dtype, "kind", "O") not in "iuf":
            continue
        present = values.to_numpy()[values.notna().to_numpy()]
        with np.errstate(invalid="ignore"):  # infinite values, which are refused later
            whole = bool((present % 1 == 0).all()) if present.dtype.kind == "f" else True
        if not whole or len(np.unique(present)) > most_levels:
            found.append(str(name))
    return found


def discretize(
    frame: pd.DataFrame, how: str = "quantile:4", columns: Sequence[str] | None = None
) -> pd.DataFrame:
    """Cut columns of a DataFrame into levels, which are named by their intervals.

    Parameters
    ----------
    frame : DataFrame
        Not modified.
    how : str
        "quantile:K" for K levels with about the same number of rows each, or "interval:K" for K levels of
        equal width.
    columns : sequence of str, optional
        The columns to discretise; by default the continuous ones (`continuous_columns`).

    Notes
    -----
    Missing values stay missing. With tied values, quantiles may coincide and give fewer levels.

    Examples
    --------
    >>> import pandas as pd
    >>> discretize(pd.DataFrame({"age": [20.5, 31.0, 42.0, 66.5]}), "interval:2")["age"].tolist()
    ['[20.5, 43.5)', '[20.5, 43.5)', '[20.5, 43.5)', '[43.5, 66.5]']
    """
    rule, levels = parsed(how)
    chosen = continuous_columns(frame) if columns is None else [str(name) for name in columns]
    position = {str(name): i for i, name in enumerate(frame.columns)}
    if unknown := [name for name in chosen if name not in position]:
        raise DataError(f"No such column: {', '.join(unknown)}.")
    result = frame.copy(deep=False)
    for name in chosen:
        result[frame.columns[position[name]]] = _cut(frame.iloc[:, position[name]], rule, levels)
    return result


def parsed(how: str) -> tuple[str, int]:
    """The rule and the number of levels of a text such as "quantile:4"."""
    rule, _, number = str(how).partition(":")
    if rule not in _RULES or not number.isdecimal() or not 2 <= int(number) <= MAX_LEVELS:
        raise UsageError(
            f"discretize must be quantile:K or interval:K with K from 2 to {MAX_LEVELS}, "
            f"such as quantile:4; got {how!r}."
        )
    return rule, int(number)


def _cut(column: pd.Series[Any], rule: str, levels: int) -> Any:

    if getattr(column.dtype, "kind", "O") not in "iufb":
        raise DataError(f"Column {column.name} holds labels, which cannot be discretised.")
    values = column.to_numpy(dtype=float)
    present = values[np.isfinite(values)]
    if not len(present) or present.min() == present.max():
        raise DataError(f"Column {column.name} has only one value and cannot be discretised. Exclude it.")
    edges = (
        np.quantile(present, np.linspace(0, 1, levels + 1))
        if rule == "quantile"
        else np.linspace(present.min(), present.max(), levels + 1)
    )
    inner = np.unique(edges[1:-1])
    inner = inner[(inner > present.min()) & (inner <= present.max())]
    if not len(inner):
        raise DataError(
            f"Column {column.name}: {rule}:{levels} gives only one level, because most values are equal. "
            "Use interval:K, or define the levels yourself."
        )
    return cut_at(values, inner, present.min(), present.max())


def cut_at(values: Array, inner: Array, low: float, high: float) -> Any:
    """Numbers cut into levels at given points, named by their intervals; missing values stay missing."""
    import pandas as pd

    codes = np.where(np.isfinite(values), np.searchsorted(inner, values, side="right"), -1).astype(np.int64)
    return pd.Categorical.from_codes(
        codes, categories=pd.Index(_labels(np.array([low, *inner, high]))), ordered=True
    )


def _labels(edges: Array) -> list[str]:
    """The intervals, with just enough digits to distinguish their endpoints."""
    for digits in range(3, 18):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(set(edges.tolist())):
            break
    last = len(texts) - 2
    return [f"[{a}, {b}{']' if i == last else ')'}" for i, (a, b) in enumerate(pairwise(texts))]
