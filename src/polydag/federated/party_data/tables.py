"""A party's table as statistics or as rows, whatever it was given as.

A table is a DataFrame, an array, a `polydag.data.Table`, statistics, or a source (`polydag.sources`), which
is recognised by its methods `moments` and `rows`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polydag.errors import DataError, UsageError
from polydag.graph import node_names
from polydag.stats import DiscreteCounts, GaussianStats, Regimes
from polydag.stats.rows import numeric_rows, require_finite

if TYPE_CHECKING:
    import pandas as pd


def require_numbers(table: Any) -> None:
    """Raise a `DataError` for truth values, which are labels; other labels are refused when rows are read."""
    parts = table.parts.values() if isinstance(table, Regimes) else (table,)
    if any(isinstance(part, DiscreteCounts) for part in parts):
        raise DataError("its columns hold labels, not numbers.")
    if words := [name for name, kind in getattr(table, "fixed_kinds", {}).items() if kind == "discrete"]:
        raise DataError(f"column {words[0]} holds labels, not numbers.")
    frame = getattr(table, "frame", table)
    if isinstance(frame, np.ndarray):
        dtypes: dict[Any, Any] = {"x0": frame.dtype}
    else:
        dtypes = dict(getattr(frame, "dtypes", {}))
    if truths := [name for name, dtype in dtypes.items() if getattr(dtype, "kind", "") == "b"]:
        raise DataError(
            f"column {truths[0]} holds True and False, which are labels, not numbers. Leave it out at every "
            "party, or convert it to numbers."
        )


def is_statistics(table: Any) -> bool:
    """Whether the rows have been summed up already."""
    return isinstance(table, (GaussianStats, DiscreteCounts, Regimes))


def statistics_of(table: Any) -> GaussianStats | Regimes[GaussianStats]:
    """The sufficient statistics of a table."""
    if isinstance(table, (GaussianStats, Regimes)):
        return table
    if callable(getattr(table, "moments", None)):
        found: GaussianStats | Regimes[GaussianStats] = table.moments()
        return found
    return GaussianStats.from_data(getattr(table, "frame", table))


def moments_of(table: Any) -> GaussianStats:
    """The moments of a table, for methods that do not use interventions."""
    found = statistics_of(table)
    if isinstance(found, Regimes):
        raise UsageError("this method does not use interventions. Use admm, or leave them out.")
    return found


def frame_of(table: Any) -> Any:
    """The rows of a table as they are."""
    if callable(getattr(table, "rows", None)) and not is_statistics(table):
        return table.rows()
    return getattr(table, "frame", table)


def rows_of(table: Any, needs: str) -> pd.DataFrame:
    """The rows of a table as numbers; `needs` begins the sentence that refuses statistics."""
    import pandas as pd

    if is_statistics(table):
        raise UsageError(f"{needs} rows, not statistics, of every party.")
    rows, found = numeric_rows(frame_of(table))
    names = list(node_names(found, rows.shape[1]))
    require_finite(rows, names)
    return pd.DataFrame(rows, columns=names)
