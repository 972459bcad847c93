"""One table divided into tasks by the labels of a column."""

from __future__ import annotations

import numbers
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from polydag.data.kinds import as_table_column
from polydag.errors import DataError
from polydag.studies.config.shapes import Config

if TYPE_CHECKING:
    import pandas as pd

    from polydag.data import Table


def divided(config: Config, table: Table, column: str) -> tuple[dict[str, pd.DataFrame], tuple[str, ...]]:
    """The rows of each task, in the natural order of their labels, and notes about labels."""
    if table.kinds[column] != "discrete":
        raise DataError(
            f"{table.source}, column {column}: tasks are identified by labels, and these are numbers. "
            f"Say --kind {column}=discrete if they are meant as labels."
        )
    known = table.frame[column].notna()
    labels = as_table_column(table.frame.loc[known, column], "discrete")
    rest = table.frame[known].drop(columns=column)
    parts = {
        str(label): rest[(labels == label).to_numpy()]
        for label in sorted(labels.unique(), key=_natural_order)
    }
    lost, alike = _rows_without_task(config, table, column), _similar_labels(parts)
    if few := [task for task, frame in parts.items() if len(frame) < config.least_rows]:
        advice = " ".join([*alike, "Correct the label, or leave the row out."])
        raise DataError(
            f"{table.source}, column {column}: the task {few[0]!r} has only one row. At least "
            f"{config.least_rows} rows are needed. {advice}"
        )
    return parts, (*lost, *alike)


def _rows_without_task(config: Config, table: Table, column: str) -> tuple[str, ...]:
    """Rows that belong to no task can be dropped; to guess their task would be to make up data."""
    lost = int(table.frame[column].isna().sum())
    if not lost:
        return ()
    if config.missing == "impute":
        raise DataError(
            f"{table.source}, column {column}: {lost} of {table.n} rows do not say to which task they "
            "belong, and that is not imputed. Write it down, or leave these rows out of the file."
        )
    return (f"{lost} of {table.n} rows dropped: their task ({column}) is missing.",)


def _similar_labels(parts: Mapping[str, pd.DataFrame]) -> tuple[str, ...]:
    """Tasks whose labels differ in case or blanks only: they may be one, written in several ways."""
    spelt: dict[str, list[str]] = {}
    for task in parts:
        spelt.setdefault(" ".join(task.casefold().split()), []).append(task)
    return tuple(
        f"The tasks {', '.join(_with_size(task, len(parts[task])) for task in tasks)} differ only in case or "
        "blanks: they may be the same. If so, write them in the same way."
        for tasks in spelt.values()
        if len(tasks) > 1
    )


def _with_size(task: str, rows: int) -> str:
    return f"{task!r} ({rows} row{'' if rows == 1 else 's'})"


def _natural_order(label: object) -> tuple[object, ...]:
    """A key that puts 2 before 10, in numbers and inside of words."""
    if isinstance(label, numbers.Real):
        return (0, float(label))
    parts = re.split(r"(\d+)", str(label))
    return (1, *(int(part) if k % 2 else part for k, part in enumerate(parts)))
