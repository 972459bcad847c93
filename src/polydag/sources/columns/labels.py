"""Tables of labels: numbers among them are refused, or cut into levels."""

from __future__ import annotations

import pandas as pd

from polydag.data.discretize import MAX_LEVELS, continuous_columns, discretize
from polydag.data.kinds import MAX_LEVELS as FEW_LEVELS
from polydag.errors import DataError
from polydag.sources.table import InMemory, as_frame


def numbers_of(source: InMemory) -> list[str]:
    """The columns of numbers of a table; where there are few rows, few whole numbers can still be labels."""
    frame, given = as_frame(source.data), source.fixed_kinds
    found = [name for name, kind in source.kinds.items() if kind == "continuous"]
    numbers = set(continuous_columns(frame, most_levels=FEW_LEVELS))
    return [name for name in found if name in given or name in numbers]


def labelled(source: InMemory, how: str | None, score: str) -> InMemory:
    """The table with its numbers cut into levels; without a rule, numbers are an error."""
    frame, numbers = as_frame(source.data), numbers_of(source)
    if numbers and how is None:
        raise not_labels(frame, numbers, score)
    if how is None:
        return source
    cut = discretize(frame.set_axis(list(source.names), axis="columns"), how, numbers)
    few = [name for name, kind in source.kinds.items() if kind == "continuous"]
    return source.with_columns({name: cut[name] for name in {*numbers, *few}}, "discrete")


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
        f"Column {numbers[0]}{more} {what}, but the score {score} is for labels. Use the score bge "
        "for numbers, or dg for numbers and labels (criterion='bge'; on the command line --set "
        f"criterion=bge), {labelled}or cut such "
        "columns into levels, which loses much of what they say (discretize='quantile:4'; on the command "
        "line --discretize quantile:4)."
    )
