"""Time series as rows: what a structural vector autoregression needs (DYNOTEARS, Pamfil et al. 2020).

`x_t = x_t W + x_{t-1} A_1 + … + x_{t-p} A_p + noise` is one linear model over the stacked row
`[x_t, x_{t-1}, …, x_{t-p}]` in which nothing points at the past. So its statistics are those of the stacked
rows, which merge over realisations and parties, and its loss is `LeastSquares` with the past forbidden as a
target. Variable `dose` is called `dose@t` now and `dose@t-2` two steps ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polydag.errors import DataError, UsageError
from polydag.knowledge import Knowledge
from polydag.stats import GaussianStats
from polydag.stats.rows import numeric_rows, require_finite

if TYPE_CHECKING:
    import pandas as pd

REALISATION, TIME = "realisation", "t"


def slice_names(variables: Sequence[str], lags: int) -> tuple[str, ...]:
    """The names of the stacked columns: all variables now, then all one step ago, and so on."""
    times = ["t", *(f"t-{k}" for k in range(1, lags + 1))]
    return tuple(f"{name}@{time}" for time in times for name in variables)


def variables_of(names: Sequence[str], lags: int) -> tuple[str, ...]:
    """The variables behind stacked columns; other names are an error."""
    variables = tuple(name.removesuffix("@t") for name in names[: len(names) // (lags + 1)])
    if not variables or tuple(names) != slice_names(variables, lags):
        raise DataError(
            f"These columns are not those of {lags} lags: they should be called {_example(lags)}, "
            "all variables now before all variables one step ago, and so on."
        )
    return variables


def _example(lags: int) -> str:
    return ", ".join(slice_names(["x", "y"], lags)[: 2 * min(lags, 1) + 2]) + (", …" if lags > 1 else "")


def check_lags(lags: int) -> int:
    """`lags`, if it can be meant."""
    if isinstance(lags, bool) or not isinstance(lags, (int, np.integer)) or lags < 1:
        raise UsageError(f"lags must be a whole number of at least 1; got {lags!r}.")
    return int(lags)


def stack(series: pd.DataFrame, lags: int) -> pd.DataFrame:
    """One row for every time that has `lags` steps before it, from a long table.

    Parameters
    ----------
    series : DataFrame
        A column `t` of whole numbers without gaps, a column `realisation` that tells independent series
        apart (not needed with a single one), and the variables; the rows in any order.
    """
    import pandas as pd

    lags = check_lags(lags)
    if not hasattr(series, "columns") or TIME not in series.columns:
        raise DataError(
            f"A time series needs a table with a column {TIME!r} for the time (and {REALISATION!r} "
            "where there are several series)."
        )
    variables = [name for name in series.columns if name not in (REALISATION, TIME)]
    names = [str(name) for name in variables]
    values, _ = numeric_rows(series[variables])
    require_finite(values, names)
    steps = numeric_rows(series[[TIME]])[0][:, 0]
    require_finite(steps[:, None], [TIME])
    told_apart = series[REALISATION] if REALISATION in series.columns else np.zeros(len(series), dtype=int)
    which, labels = pd.factorize(told_apart, use_na_sentinel=False)
    order = np.lexsort((steps, which))
    values, steps, which = values[order], steps[order], which[order]
    same = which[1:] == which[:-1]
    if (bad := np.flatnonzero(same & (np.diff(steps) != 1))).size:
        at = int(bad[0])
        raise DataError(
            f"Realisation {labels[which[at]]}: after t = {steps[at]:g} comes t = {steps[at + 1]:g}. "
            "Times must go up by one without gaps or repetitions; split a series where it has a gap."
        )
    place = np.arange(len(which)) - np.searchsorted(which, which)
    rows = np.flatnonzero(place >= lags)
    if not len(rows):
        raise DataError(f"No realisation has more than {lags} times, so there is nothing after {lags} lags.")
    stacked = np.concatenate([values[rows - k] for k in range(lags + 1)], axis=1)
    return pd.DataFrame(stacked, columns=list(slice_names(names, lags)))


def lagged_statistics(series: pd.DataFrame, lags: int) -> GaussianStats:
    """The statistics of the stacked rows; those of several parties are merged with `+`."""
    return GaussianStats.from_data(stack(series, lags))


def nothing_changes_the_past(
    variables: Sequence[str], lags: int, knowledge: Knowledge | None = None
) -> Knowledge:
    """What is known, and that no edge ends in the past: where that came from is not modelled."""
    known = knowledge or Knowledge()
    names = slice_names(variables, lags)
    past = {(a, b) for b in names[len(variables) :] for a in names if a != b}
    return Knowledge(required=known.required, forbidden=known.forbidden | past, tiers=known.tiers)
