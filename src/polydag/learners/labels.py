"""Tables of labels as frames, and the error for columns of numbers among them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from polydag.data.discretize import MAX_LEVELS, continuous_columns
from polydag.data.table import Table
from polydag.errors import DataError
from polydag.sources.table import as_frame

__all__ = ["as_frame", "not_labels", "numbers_of"]


def numbers_of(X: Any) -> list[str]:
    """The continuous columns of a table."""
    return list(X.continuous) if isinstance(X, Table) else continuous_columns(as_frame(X))


def not_labels(frame: pd.DataFrame, numbers: list[str], score: str) -> DataError:
    """What to say of columns of numbers where a score is for labels."""
    first = frame.iloc[:, [str(name) for name in frame.columns].index(numbers[0])]
    more = f" (and {len(numbers) - 1} more)" if len(numbers) > 1 else ""
    whole, different = bool((first.dropna() % 1 == 0).all()), first.nunique()
    labelled = ""
    if not whole:
        what = "is continuous"
    elif different > MAX_LEVELS:
        what = f"has {different} levels, more than {MAX_LEVELS}"
    else:
        what = f"holds numbers by its kind ({different} different ones)"
        labelled = f"say that its numbers are labels (on the command line --kind {numbers[0]}=discrete), "
    return DataError(
        f"Column {numbers[0]}{more} {what}, but the score {score} is for labels. Cut such columns "
        f"into levels (discretize='quantile:4'; on the command line --discretize quantile:4), {labelled}or "
        "use the score bge for numbers."
    )
