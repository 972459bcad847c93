"""Time series as stacked rows, for structural vector autoregressions (DYNOTEARS, Pamfil et al. 2020).

`x_t = x_t W + x_{t-1} A_1 + … + x_{t-p} A_p + noise` is a linear model of the stacked row
`[x_t, x_{t-1}, …, x_{t-p}]` in which no edge points into the past. Its statistics are those of the stacked
rows, which can be merged over realisations and parties. Its loss is `LeastSquares` with the past forbidden as
a target. The variable `dose` is called `dose[t]` at the present and `dose[t-2]` two steps earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import DataError
from polydag.graph import Graph, node_names
from polydag.knowledge import Knowledge
from polydag.parameters import check, whole
from polydag.stats import GaussianStats
from polydag.stats.rows import numeric_rows, require_finite

if TYPE_CHECKING:
    import pandas as pd

REALISATION, TIME = "realisation", "t"


def slice_names(variables: Sequence[str], lags: int) -> tuple[str, ...]:
    """The names of the stacked columns: all variables at t, then all at t-1, and so on."""
    times = ["t", *(f"t-{k}" for k in range(1, lags + 1))]
    return tuple(f"{name}[{time}]" for time in times for name in variables)


def variables_of(names: Sequence[str], lags: int) -> tuple[str, ...]:
    """The variables whose stacked columns are given; raises `DataError` if the names do not match."""
    variables = tuple(name.removesuffix("[t]") for name in names[: len(names) // (lags + 1)])
    if not variables or tuple(names) != slice_names(variables, lags):
        raise DataError(
            f"These columns are not stacked with {lags} lags: their names should be {_example(lags)}, "
            "all variables at t first, then all at t-1, and so on."
        )
    return variables


def _example(lags: int) -> str:
    return ", ".join(slice_names(["x", "y"], lags)[: 2 * min(lags, 1) + 2]) + (", …" if lags > 1 else "")


def check_lags(lags: int) -> int:
    """Check the number of lags and return it as an int."""
    check("lags", lags, whole(least=1))
    return int(lags)


def stack(
    series: pd.DataFrame, lags: int, *, time: str = TIME, realisation: str = REALISATION
) -> pd.DataFrame:
    """One stacked row for every time point with at least `lags` predecessors.

    Parameters
    ----------
    series : DataFrame
        The variables, with one row per time point.
    lags : int
        The number of lags.
    time : str
        The column of time points: whole numbers without gaps, with the rows in any order. If `time` is "t"
        and there is no such column, the rows are taken to be in temporal order.
    realisation : str
        The column that identifies independent series, by numbers or labels. If `realisation` is "realisation"
        and there is no such column, all rows form one series.
    """
    return stacked_series(series, lags, time=time, realisation=realisation)[0]


def stacked_series(
    series: pd.DataFrame, lags: int, *, time: str = TIME, realisation: str = REALISATION
) -> tuple[pd.DataFrame, Index]:
    """The stacked rows as in `stack`, and the number of the series to which each belongs."""
    import pandas as pd

    lags = check_lags(lags)
    frame = series if hasattr(series, "columns") else _named(series)
    for role, name, usual in (("time", time, TIME), ("realisation", realisation, REALISATION)):
        if name not in frame.columns and name != usual:
            raise DataError(f"There is no column {name} ({role}={name!r}).")
    variables = [name for name in frame.columns if name not in (realisation, time)]
    names = [str(name) for name in variables]
    if not names:
        raise DataError("There are no variables besides the time and realisation columns.")
    names = list(node_names(names, len(names)))
    if realisation not in frame.columns:
        _require_no_series(frame, variables)
    values, _ = numeric_rows(frame[variables])
    require_finite(values, names)
    single = realisation not in frame.columns
    which, labels = pd.factorize(
        np.zeros(len(frame), dtype=int) if single else frame[realisation], use_na_sentinel=False
    )
    steps = _steps(frame, time, which)
    order = np.lexsort((steps, which))
    values, steps, which = values[order], steps[order], which[order]
    same = which[1:] == which[:-1]
    if (bad := np.flatnonzero(same & (np.diff(steps) != 1))).size:
        at = int(bad[0])
        raise DataError(
            ("" if single else f"Realisation {labels[which[at]]}: ")
            + f"{time} = {steps[at]:g} is followed by {time} = {steps[at + 1]:g}. "
            "Time points must increase by one, without gaps or repetitions; split a series at its gaps."
        )
    position = np.arange(len(which)) - np.searchsorted(which, which)
    rows = np.flatnonzero(position >= lags)
    if not len(rows):
        raise DataError(
            f"No series has more than {lags} time points, which {lags} lags require. "
            "Use fewer lags or longer series."
        )
    stacked = np.concatenate([values[rows - k] for k in range(lags + 1)], axis=1)
    return pd.DataFrame(stacked, columns=list(slice_names(names, lags))), which[rows]


def _require_no_series(frame: pd.DataFrame, variables: Sequence[str]) -> None:
    """Raise where a column of labels may say to which series a row belongs."""
    if labels := [name for name in variables if getattr(frame[name].dtype, "kind", "O") == "O"]:
        raise DataError(
            f"Column {labels[0]} is not numeric. If it says to which series a row belongs, name it: "
            f"realisation={str(labels[0])!r} (--set realisation={labels[0]}). Otherwise recode or drop it."
        )


def centred_stack(
    series: pd.DataFrame, lags: int, *, time: str = TIME, realisation: str = REALISATION
) -> pd.DataFrame:
    """As `stack`, with rows that are centred within each series."""
    stacked, which = stacked_series(series, lags, time=time, realisation=realisation)
    return stacked - stacked.groupby(which).transform("mean")


def _named(rows: object) -> pd.DataFrame:
    import pandas as pd

    values, _ = numeric_rows(rows)
    return pd.DataFrame(values, columns=list(node_names(None, values.shape[1])))


def _steps(frame: pd.DataFrame, time: str, which: Index) -> Array:
    """The time of each row; its position in its series if there is no time column."""
    if time in frame.columns:
        steps: Array = numeric_rows(frame[[time]])[0][:, 0]
        require_finite(steps[:, None], [time])
        return steps
    import pandas as pd

    return np.asarray(pd.Series(which).groupby(which).cumcount(), dtype=float)


def lagged_statistics(
    series: pd.DataFrame,
    lags: int,
    *,
    time: str = TIME,
    realisation: str = REALISATION,
    baselines: bool = False,
) -> GaussianStats:
    """The statistics of the stacked rows; those of several parties can be merged with `+`.

    With `baselines`, each series has means of its own: rows are centred within series, and every series but
    the first costs one row.
    """
    stacked, which = stacked_series(series, lags, time=time, realisation=realisation)
    whole = GaussianStats.from_data(stacked)
    if not baselines:
        return whole
    labels = np.unique(which)
    parts = [GaussianStats.from_data(stacked[which == label]).scatter for label in labels]
    n = whole.n - len(labels) + 1
    return GaussianStats(n, whole.mean, np.sum(parts, axis=0), whole.names, whole.mass)


def nothing_changes_the_past(
    variables: Sequence[str], lags: int, knowledge: Knowledge | None = None
) -> Knowledge:
    """The given knowledge, with all edges into the past forbidden: the past is not modelled."""
    known = knowledge or Knowledge()
    names = slice_names(variables, lags)
    past = {(a, b) for b in names[len(variables) :] for a in names if a != b}
    return Knowledge(required=known.required, forbidden=known.forbidden | past, tiers=known.tiers)


def split_lags(graph: Graph, lags: int) -> tuple[Graph, Array]:
    """The instantaneous DAG over the variables, and the lagged weights of shape (lags, d, d)."""
    variables = variables_of(graph.names, lags)
    d = len(variables)
    within = Graph(graph.adjacency[:d, :d], variables, graph.weights[:d, :d])
    return within, graph.weights[d:, :d].reshape(lags, d, d)
