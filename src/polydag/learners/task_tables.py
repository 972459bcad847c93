"""Input of learners of several tasks: one table per task, with the same columns and common levels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import pandas as pd

from polydag.data.discretize import discretize
from polydag.errors import DataError, UsageError
from polydag.learners.inputs import Discrete, Gaussian, gaussian_statistics, is_discrete, is_statistics
from polydag.learners.labels import as_frame, not_labels, numbers_of
from polydag.stats import DiscreteCounts, GaussianStats, Regimes

Table = Any


def named_tasks(X: Iterable[Table] | Mapping[str, Table]) -> dict[str, Table]:
    """The tables by the names of their tasks; unnamed tasks are called task 1, task 2, …."""
    if isinstance(X, Mapping):
        found = {str(name): table for name, table in X.items()}
        if len(found) < len(X):
            alike = [repr(name) for name in X if sum(str(name) == str(other) for other in X) > 1]
            raise UsageError(
                f"Tasks need different names: {', '.join(alike)} are written alike. Rename one of them."
            )
    elif isinstance(X, (list, tuple)):
        found = {f"task {k}": table for k, table in enumerate(X, start=1)}
    else:
        raise UsageError(
            "Tasks are a list of tables, or a mapping of names to tables; "
            f"got one {type(X).__name__}. Put it into a list, or use BayesianDiscovery for one table."
        )
    if not found:
        raise DataError("There are no tasks.")
    for task, table in found.items():
        if table is None:
            raise DataError(f"{task} is None instead of a table. Leave it out, or give its rows.")
    return found


def task_counts(tables: Mapping[str, Table], score: str, cut: str | None) -> list[Discrete]:
    """Counts of every task over the levels of all tasks; continuous columns are cut at common points."""
    names = common_columns({task: _columns(task, table) for task, table in tables.items()})
    rows = {task: table for task, table in tables.items() if not is_statistics(table)}
    frames = {task: _selected(as_frame(table), names) for task, table in rows.items()}
    for task, frame in frames.items():
        if not len(frame):
            raise DataError(f"{task} has no rows.")
    by_task = {task: numbers_of(table) for task, table in rows.items()}
    numbers = list(dict.fromkeys(name for own in by_task.values() for name in own))
    if numbers and cut is None:
        raise not_labels(next(frames[task] for task, own in by_task.items() if own), numbers, score)
    if numbers and cut is not None:
        whole = discretize(pd.concat(frames.values(), ignore_index=True), cut, numbers)
        ends = pd.Series([len(frame) for frame in frames.values()]).cumsum().tolist()
        starts = [0, *ends[:-1]]
        frames = {t: whole.iloc[a:b] for t, a, b in zip(frames, starts, ends, strict=True)}
    counts = [_counts(task, frames.get(task, table)) for task, table in tables.items()]
    _require_one_kind(dict(zip(tables, counts, strict=True)))
    levels = _united([part for count in counts for part in _parts(count)])
    if single := {name: own for name, own in levels.items() if len(own) < 2}:
        values = ", ".join(repr(level) for own in single.values() for level in own)
        everywhere = ", the same in every task" if len(tables) > 1 else f" in {next(iter(tables))}"
        raise DataError(
            f"Column {', '.join(single)} has only one level ({values}){everywhere}. Leave it out."
        )
    return [_with_levels(count, levels) for count in counts]


def task_statistics(tables: Mapping[str, Table]) -> list[Gaussian]:
    """Mean and scatter of every task."""
    names = common_columns({task: _columns(task, table) for task, table in tables.items()})
    result: list[Gaussian] = []
    for task, table in tables.items():
        try:
            stats = gaussian_statistics(table)
        except DataError as error:
            raise DataError(f"{task}: {error}") from None
        result.append(
            stats.select(names)
            if isinstance(stats, GaussianStats)
            else Regimes({targets: part.select(names) for targets, part in stats.parts.items()})
        )
    return result


def pooled(stats: Sequence[Any]) -> Any:
    """The statistics of all tasks' rows together."""
    if len({isinstance(part, Regimes) for part in stats}) > 1:
        stats = [part if isinstance(part, Regimes) else Regimes({frozenset(): part}) for part in stats]
    return reduce(add, stats)


def _columns(task: str, table: Table) -> list[str]:
    if is_statistics(table):
        return list(table.names)
    try:
        return [str(name) for name in as_frame(table).columns]
    except DataError as error:
        raise DataError(f"{task}: {error}") from None


def common_columns(columns: Mapping[str, list[str]]) -> list[str]:
    """The first task's columns; raises if another task lacks some or has others."""
    first, names = next(iter(columns.items()))
    for task, own in columns.items():
        for one, other, missing in (
            (task, first, [name for name in names if name not in own]),
            (first, task, [name for name in own if name not in names]),
        ):
            if missing:
                listed = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
                many, it = ("s", "them") if len(missing) > 1 else ("", "it")
                spelt = [c for c in columns[one] if c.strip().casefold() == missing[0].strip().casefold()]
                alike = f" (it has {spelt[0]!r}, written differently)" if spelt else ""
                raise DataError(
                    f"{one} lacks the column{many} {listed}{alike}, which {other} has. Tasks need the same "
                    f"columns: leave {it} out everywhere, or add {it}."
                )
    return names


def _selected(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    own = frame.set_axis([str(name) for name in frame.columns], axis="columns")
    return own[names]


def _counts(task: str, table: Any) -> Discrete:
    if is_statistics(table):
        if not is_discrete(table):
            raise DataError(f"{task}: these are statistics of numbers; this score needs counts of labels.")
        counts: Discrete = table
        return counts
    try:
        return DiscreteCounts.from_data(table)
    except DataError as error:
        raise DataError(f"{task}: {error}") from None


def _parts(counts: Discrete) -> list[DiscreteCounts]:
    return list(counts.parts.values()) if isinstance(counts, Regimes) else [counts]


def _require_one_kind(counts: Mapping[str, Discrete]) -> None:
    """Raise if a column has words in one task and numbers in another: 1 and "1" would be two levels."""
    seen: dict[tuple[str, bool], str] = {}
    for task, own in counts.items():
        for part in _parts(own):
            for name, levels in zip(part.names, part.levels, strict=True):
                for words in {isinstance(level, str) for level in levels}:
                    seen.setdefault((name, words), f"{task} ({_some(levels)})")
                if (name, True) in seen and (name, False) in seen:
                    raise DataError(
                        f"Column {name} has words in {seen[name, True]} and numbers in {seen[name, False]}, "
                        f"which would be different levels. Give it one type in all tasks, for example "
                        f"by table[{name!r}].astype(str)."
                    )


def _some(levels: Sequence[Any]) -> str:
    return ", ".join(repr(level) for level in levels[:3]) + (", …" if len(levels) > 3 else "")


def _united(parts: Sequence[DiscreteCounts]) -> dict[str, tuple[Any, ...]]:
    """All levels of each column, from merging the tables without their rows."""
    bare = [replace(part, rows=part.rows[:0], counts=part.counts[:0]) for part in parts]
    whole = reduce(add, bare)
    return dict(zip(whole.names, whole.levels, strict=True))


def _with_levels(counts: Discrete, levels: Mapping[str, Sequence[Any]]) -> Discrete:
    if isinstance(counts, Regimes):
        return Regimes({targets: part.with_levels(levels) for targets, part in counts.parts.items()})
    return counts.with_levels(levels)
