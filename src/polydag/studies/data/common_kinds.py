"""Columns of one kind in all tables: labels in one task or party are labels in all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polydag import data
from polydag.data.kinds import MAX_LEVELS, as_table_column
from polydag.errors import DataError
from polydag.sources.columns.spellings import spelling_notes
from polydag.stats.discrete import sorted_levels
from polydag.studies.config.shapes import Config
from polydag.studies.data.linking import variables

if TYPE_CHECKING:
    import pandas as pd

    from polydag.data import Table


def with_common_kinds(config: Config, parts: Mapping[str, pd.DataFrame]) -> dict[str, Table]:
    """The tables of all tasks, with columns of the same kinds.

    Labels in one task are labels in all; whether numbers are meant as labels is decided over all rows. By
    these kinds missing values are dropped or imputed within each task: other tasks say nothing about them.
    """
    import pandas as pd

    from polydag.sources.task_statistics import common_columns

    names = common_columns({task: list(frame.columns) for task, frame in parts.items()})
    kinds: Any = {name: kind for name, kind in config.kinds.items() if name in names}
    labelled = {task: _without_categories(frame[names]) for task, frame in parts.items()}
    for name in names:
        if name not in kinds and _made_labels(name, labelled, "tasks"):
            kinds[name] = "discrete"
    whole = data.from_frame(
        pd.concat(labelled.values(), ignore_index=True), kinds=kinds, missing="keep", source="The tasks"
    )
    from polydag.sources.gaps.moments import ALLOWED

    missing: Any = "keep" if config.missing in ALLOWED else config.missing
    settled = {
        task: data.from_frame(frame, kinds=whole.kinds, missing=missing, source=task)
        for task, frame in labelled.items()
    }
    frames = [table.frame for table in settled.values()]
    whole = data.from_frame(
        pd.concat(frames, ignore_index=True), kinds=whole.kinds, missing="keep", source="The tasks"
    )
    tables, start = {}, 0
    for task, table in settled.items():
        own = whole.frame.iloc[start : start + table.n].reset_index(drop=True)
        tables[task] = dataclasses.replace(table, frame=own, declared=frozenset(config.kinds))
        start += table.n
    return tables


def with_agreed_kinds(tables: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """The tables of parties, with columns of the same kinds, agreed on without their rows.

    Labels at one party are labels at all. Where a column has numbers everywhere, fractions at one party make
    it continuous at all; otherwise the party with the most rows decides whether its whole numbers are labels.
    """
    read = {party: table for party, table in tables.items() if hasattr(table, "frame")}
    if not read:
        return dict(tables)
    common = [name for name in next(iter(read.values())).names if all(name in t.names for t in read.values())]
    frames = {party: _without_categories(table.frame[common]) for party, table in read.items()}
    largest = max(read.values(), key=lambda table: table.n)
    kinds: Any = {name: given.get(name, largest.kinds[name]) for name in common}
    for name in common:
        if name in given:
            continue
        if _made_labels(name, frames, "parties"):
            kinds[name] = "discrete"
        elif any((frame[name].dropna() % 1 != 0).any() for frame in frames.values()):
            kinds[name] = "continuous"
    agreed = {}
    for party, table in read.items():
        columns = {name: as_table_column(frames[party][name], kinds[name]) for name in common}
        agreed[party] = dataclasses.replace(
            table, frame=table.frame.assign(**columns), kinds={**table.kinds, **kinds}
        )
    return {**tables, **agreed}


def _without_categories(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({name: object for name in frame.columns if frame[name].dtype == "category"})


def _made_labels(name: str, frames: dict[str, pd.DataFrame], what: str) -> bool:
    """Whether a column holds labels in some table; then its numbers in the others are made labels."""
    import pandas as pd

    numeric = [
        part
        for part, frame in frames.items()
        if pd.api.types.is_numeric_dtype(frame[name]) and not pd.api.types.is_bool_dtype(frame[name])
    ]
    if len(numeric) == len(frames):
        return False
    with_words = next(part for part in frames if part not in numeric)
    for part in numeric:
        column = frames[part][name]
        if not (column.dropna() % 1 == 0).all() or column.nunique() > MAX_LEVELS:
            such = next(iter(frames[with_words][name].dropna()), "")
            raise DataError(
                f"Column {name} holds numbers in {part} and labels in {with_words} (such as {str(such)!r}). "
                f"Write it in the same way in all {what}."
            )
        words = column.map(lambda number: str(int(number)), na_action="ignore")
        frames[part] = frames[part].assign(**{name: words.astype(object)})
    for part in frames.keys() - set(numeric):
        words = frames[part][name].map(str, na_action="ignore")
        frames[part] = frames[part].assign(**{name: words.astype(object)})
    return True


def spellings(config: Config, tables: Mapping[str, Table]) -> tuple[str, ...]:
    """Levels that only some tasks have: they may be the same thing, written in another way."""
    if len(tables) < 2:
        return ()
    first = next(iter(tables.values()))
    found: tuple[str, ...] = ()
    for name in variables(config, first.discrete):
        found += spelling_notes(
            name,
            {task: sorted_levels(set(table.frame[name].dropna().tolist())) for task, table in tables.items()},
        )
    return found
