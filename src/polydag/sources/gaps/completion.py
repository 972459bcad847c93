"""Tables completed by draws, for multiple imputation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from polydag.arrays import Index
from polydag.stats.gaps.draws import Parameters, drawn_rows
from polydag.stats.mixed import Levels, indicator_names, with_indicators


def completed(
    frame: pd.DataFrame,
    levels: Levels,
    parameters: Parameters,
    rng: np.random.Generator,
    *,
    names: Sequence[str],
    centre: Any = 0.0,
) -> pd.DataFrame:
    """The table with what is missing drawn; columns that it lacks are missing in all of its rows.

    Parameters
    ----------
    frame : DataFrame
        Columns of one type each.
    levels : mapping of name to tuple
        The labels of each label column.
    parameters : Parameters
        Of the numbers and indicators of `names`, less `centre`.
    names : sequence of str
        The columns of the result.
    centre : array, optional
        What is subtracted from numbers and indicators before the draws, and added again.
    """
    columns = indicator_names(names, levels)
    own = {name: levels[name] for name in frame.columns if name in levels}
    rows = with_indicators(frame, own, keep_missing=True).reindex(columns=list(columns))
    widths = [max(len(levels[name]) - 1, 0) if name in levels else 1 for name in names]
    variable = np.repeat(np.arange(len(names)), widths)
    labels = np.repeat([name in levels for name in names], widths)
    # A label's level is drawn by its expectations, to which the centre belongs.
    shifted = parameters._replace(mean=parameters.mean + centre)
    drawn = drawn_rows(rows.to_numpy(dtype=float), shifted, variable, labels, rng)
    ends = np.cumsum([0, *widths])
    found = {}
    for k, name in enumerate(names):
        block = drawn[:, ends[k] : ends[k + 1]]
        if name in levels:
            codes = (block * np.arange(1, widths[k] + 1)).sum(axis=1).round().astype(np.int64)
            found[name] = _labels(codes, pd.Index(list(levels[name])), frame.index)
        else:
            found[name] = pd.Series(block[:, 0], index=frame.index)
    return pd.DataFrame(found, index=frame.index)


def _labels(codes: Index, levels: pd.Index[Any], index: pd.Index[Any]) -> pd.Series[Any]:
    """A column of labels: numbers as numbers, words as categories, so that all levels stay known."""
    if levels.dtype.kind in "iufb":
        return pd.Series(levels.to_numpy()[codes], index=index)
    return pd.Series(pd.Categorical.from_codes(codes, categories=levels), index=index)
