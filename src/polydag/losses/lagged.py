"""Time series as rows: what a structural vector autoregression needs (DYNOTEARS, Pamfil et al. 2020).

`x_t = x_t W + x_{t-1} A_1 + … + x_{t-p} A_p + noise` is one linear model over the stacked row
`[x_t, x_{t-1}, …, x_{t-p}]` in which nothing points at the past. So its statistics are those of the stacked
rows, which merge over realisations and parties, and its loss is `LeastSquares` with the past forbidden as a
target. Variable `dose` is called `dose[t]` now and `dose[t-2]` two steps ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError, UsageError
from polydag.graph import Graph, node_names
from polydag.knowledge import Knowledge
from polydag.stats import GaussianStats
from polydag.stats.rows import numeric_rows, require_finite

if TYPE_CHECKING:
    import pandas as pd

REALISATION, TIME = "realisation", "t"


def slice_names(variables: Sequence[str], lags: int) -> tuple[str, ...]:
    """The names of the stacked columns: all variables now, then all one step ago, and so on."""
    times = ["t", *(f"t-{k}" for k in range(1, lags + 1))]
    return tuple(f"{name}[{time}]" for time in times for name in variables)


def variables_of(names: Sequence[str], lags: int) -> tuple[str, ...]:
    """The variables behind stacked columns; other names are an error."""
    variables = tuple(name.removesuffix("[t]") for name in names[: len(names) // (lags + 1)])
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


def stack(
    series: pd.DataFrame, lags: int, *, time: str = TIME, realisation: str = REALISATION
) -> pd.DataFrame:
    """One row for every time that has `lags` steps before it.

    Parameters
    ----------
    series : DataFrame
        The variables, one row a time.
    time : str
        The column of times: whole numbers without gaps, the rows in any order. Without a column `t` the rows
        are in the order of time; another name must be there.
    realisation : str
        The column that tells independent series apart, by numbers or labels. Without a column `realisation`
        all rows are one series; another name must be there.
    """
    import pandas as pd

    lags = check_lags(lags)
    frame = series if hasattr(series, "columns") else _named(series)
    for role, name, usual in (("time", time, TIME), ("realisation", realisation, REALISATION)):
        if name not in frame.columns and name != usual:
            raise DataError(f"There is no column {name}, which {role} names.")
    variables = [name for name in frame.columns if name not in (realisation, time)]
    names = [str(name) for name in variables]
    if not names:
        raise DataError("There are no variables beside the columns of times and realisations.")
    values, _ = numeric_rows(frame[variables])
    require_finite(values, names)
    alone = realisation not in frame.columns
    which, labels = pd.factorize(
        np.zeros(len(frame), dtype=int) if alone else frame[realisation], use_na_sentinel=False
    )
    steps = _steps(frame, time, which)
    order = np.lexsort((steps, which))
    values, steps, which = values[order], steps[order], which[order]
    same = which[1:] == which[:-1]
    if (bad := np.flatnonzero(same & (np.diff(steps) != 1))).size:
        at = int(bad[0])
        raise DataError(
            ("" if alone else f"Realisation {labels[which[at]]}: ")
            + f"after {time} = {steps[at]:g} comes {time} = {steps[at + 1]:g}. "
            "Times must go up by one without gaps or repetitions; split a series where it has a gap."
        )
    place = np.arange(len(which)) - np.searchsorted(which, which)
    rows = np.flatnonzero(place >= lags)
    if not len(rows):
        raise DataError(
            f"No series has more than {lags} times, so that nothing comes after {lags} lags. "
            "Take fewer lags, or longer series."
        )
    stacked = np.concatenate([values[rows - k] for k in range(lags + 1)], axis=1)
    return pd.DataFrame(stacked, columns=list(slice_names(names, lags)))


def _named(rows: object) -> pd.DataFrame:
    import pandas as pd

    values, _ = numeric_rows(rows)
    return pd.DataFrame(values, columns=list(node_names(None, values.shape[1])))


def _steps(frame: pd.DataFrame, time: str, which: NDArray[np.int64]) -> NDArray[np.float64]:
    """The time of each row; its place in its series where there is no such column."""
    if time in frame.columns:
        steps: NDArray[np.float64] = numeric_rows(frame[[time]])[0][:, 0]
        require_finite(steps[:, None], [time])
        return steps
    import pandas as pd

    return np.asarray(pd.Series(which).groupby(which).cumcount(), dtype=float)


def lagged_statistics(
    series: pd.DataFrame, lags: int, *, time: str = TIME, realisation: str = REALISATION
) -> GaussianStats:
    """The statistics of the stacked rows; those of several parties are merged with `+`."""
    return GaussianStats.from_data(stack(series, lags, time=time, realisation=realisation))


def nothing_changes_the_past(
    variables: Sequence[str], lags: int, knowledge: Knowledge | None = None
) -> Knowledge:
    """What is known, and that no edge ends in the past: where that came from is not modelled."""
    known = knowledge or Knowledge()
    names = slice_names(variables, lags)
    past = {(a, b) for b in names[len(variables) :] for a in names if a != b}
    return Knowledge(required=known.required, forbidden=known.forbidden | past, tiers=known.tiers)


def apart(graph: Graph, lags: int) -> tuple[Graph, NDArray[np.float64]]:
    """The DAG within one time over the variables' own names, and the lagged weights (lags, d, d)."""
    variables = variables_of(graph.names, lags)
    d = len(variables)
    within = Graph(graph.adjacency[:d, :d], variables, graph.weights[:d, :d])
    return within, graph.weights[d:, :d].reshape(lags, d, d)
