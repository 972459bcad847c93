"""Input of learners of several tasks: statistics with the same columns and common levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import pandas as pd

from polydag.data.discretize import discretize
from polydag.errors import DataError, UsageError
from polydag.scores.spec import Needs
from polydag.sources.checked import Gaussian, gaussian_statistics
from polydag.sources.columns.agreement import levels_of_each, united_levels
from polydag.sources.columns.labels import not_labels, numbers_of
from polydag.sources.interface import Source
from polydag.sources.table import InMemory, as_frame
from polydag.sources.tasks import Tasks
from polydag.stats import DiscreteCounts, GaussianStats, MixedStats, Regimes
from polydag.stats.count_tables import MergedTables, keeps_rows
from polydag.stats.discrete import levels_of_all


def task_counts(tasks: Tasks, score: str, cut: str | None, *, may_lack: bool = False) -> list[Any]:
    """Counts of every task over the levels of all tasks; continuous columns are cut at common points."""
    columns = own_columns(tasks, may_lack=may_lack and cut is None)
    tables = {task: source for task, source in tasks.items() if isinstance(source, InMemory)}
    frames = {task: _selected(as_frame(source.data), columns[task]) for task, source in tables.items()}
    for task, frame in frames.items():
        if not len(frame):
            raise DataError(f"{task} has no rows.")
    if cut is not None and len(tables) < len(tasks):
        other = next(task for task in tasks if task not in tables)
        raise UsageError(f"discretize= needs rows; {other} is {tasks[other].described}. Discretise before.")
    by_task = {task: numbers_of(source) for task, source in tables.items()}
    numbers = list(dict.fromkeys(name for own in by_task.values() for name in own))
    if numbers and cut is None:
        raise not_labels(next(frames[task] for task, own in by_task.items() if own), numbers, score)
    if numbers and cut is not None:
        whole = discretize(pd.concat(frames.values(), ignore_index=True), cut, numbers)
        ends = pd.Series([len(frame) for frame in frames.values()]).cumsum().tolist()
        starts = [0, *ends[:-1]]
        frames = {t: whole.iloc[a:b] for t, a, b in zip(frames, starts, ends, strict=True)}
    counts = {
        task: _counts(task, source.with_data(frames[task]) if isinstance(source, InMemory) else source)
        for task, source in tasks.items()
    }
    _require_one_kind(counts)
    parts = [part for own in counts.values() for part in _parts(own)]
    levels = {
        name: own
        for column in tasks.names
        for name, own in levels_of_all(
            DiscreteCounts.without_rows((column,), (part.levels[part.names.index(column)],))
            for part in parts
            if column in part.names
        ).items()
    }
    if single := {name: own for name, own in levels.items() if len(own) < 2}:
        values = ", ".join(repr(level) for own in single.values() for level in own)
        everywhere = ", the same in every task" if len(tasks) > 1 else f" in {next(iter(tasks))}"
        raise DataError(
            f"Column {', '.join(single)} has only one level ({values}){everywhere}. Leave it out."
        )
    return [_with_levels(own, levels) for own in counts.values()]


def task_statistics(tasks: Tasks, *, may_lack: bool = False) -> list[Gaussian]:
    """Mean and scatter of every task."""
    columns = own_columns(tasks, may_lack=may_lack)
    result: list[Gaussian] = []
    for task, source in tasks.items():
        try:
            stats = gaussian_statistics(source)
        except DataError as error:
            raise DataError(f"{task}: {error}") from None
        result.append(
            stats.select(columns[task])
            if isinstance(stats, GaussianStats)
            else Regimes({targets: part.select(columns[task]) for targets, part in stats.parts.items()})
        )
    return result


def task_mixed(tasks: Tasks, needs: Needs = "mixed", *, may_lack: bool = False) -> list[Any]:
    """Moments of numbers and of indicators of labels in every task, over the levels of all tasks.

    For `needs="cells"`, with counts and moments per cell of labels.
    """
    columns = own_columns(tasks, may_lack=may_lack)
    labels = [name for name in tasks.names if tasks.kinds[name] == "discrete"]
    levels = united_levels(levels_of_each(tasks, labels), labels)
    if single := [name for name, own in levels.items() if len(own) < 2]:
        raise DataError(f"Column {', '.join(single)} has only one level in all tasks. Leave it out.")
    result: list[Any] = []
    for task, source in tasks.items():
        try:
            if needs == "cells":
                source.require_cells()
            stats = source.mixed({name: own for name, own in levels.items() if name in columns[task]})
            if needs == "cells" and isinstance(stats, MixedStats):
                result.append(source.cells(stats).select(columns[task]))
                continue
        except DataError as error:
            raise DataError(f"{task}: {error}") from None
        result.append(
            Regimes({targets: part.select(columns[task]) for targets, part in stats.parts.items()})
            if isinstance(stats, Regimes)
            else stats.select(columns[task])
        )
    return result


def pooled(stats: Sequence[Any]) -> Any:
    """All tasks' rows as one."""
    if not any(isinstance(part, Regimes) for part in stats):
        return _sum(stats)
    each: list[Mapping[frozenset[str], Any]] = [
        part.parts if isinstance(part, Regimes) else {frozenset(): part} for part in stats
    ]
    sets = dict.fromkeys(targets for parts in each for targets in parts)
    return Regimes({own: _sum([parts[own] for parts in each if own in parts]) for own in sets})


def _sum(parts: Sequence[Any]) -> Any:
    return MergedTables(tuple(parts)) if any(map(keeps_rows, parts)) else reduce(add, parts)


def own_columns(tasks: Tasks, *, may_lack: bool) -> dict[str, list[str]]:
    """The columns of each task in one order: the same in all, unless tasks may lack some."""
    columns = {task: list(source.names) for task, source in tasks.items()}
    if not may_lack or all(set(own) == set(tasks.names) for own in columns.values()):
        return dict.fromkeys(columns, common_columns(columns))
    for task, own in columns.items():
        others = {name for other, names in columns.items() if other != task for name in names}
        for name in own:
            spelt = {other for other in others if other.strip().casefold() == name.strip().casefold()}
            if name not in others and spelt:
                common_columns({task: own, **columns})
        if len(others.intersection(own)) < 2:
            raise DataError(
                f"{task} has fewer than two columns in common with the other tasks, which can say nothing "
                "about its network. Learn it by itself."
            )
    return {task: [name for name in tasks.names if name in own] for task, own in columns.items()}


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


def _counts(task: str, source: Source) -> Any:
    try:
        return source.counts()
    except DataError as error:
        raise DataError(f"{task}: {error}") from None


def _parts(counts: Any) -> list[Any]:
    return list(counts.parts.values()) if isinstance(counts, Regimes) else [counts]


def _require_one_kind(counts: Mapping[str, Any]) -> None:
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


def _with_levels(counts: Any, levels: Mapping[str, Sequence[Any]]) -> Any:
    if isinstance(counts, Regimes):
        return Regimes({targets: part.with_levels(levels) for targets, part in counts.parts.items()})
    return counts.with_levels(levels)
