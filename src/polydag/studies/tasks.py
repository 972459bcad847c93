"""A study of tasks: related populations with the same columns, one file each or told apart by a column."""

from __future__ import annotations

import dataclasses
import json
import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polydag import data
from polydag.data.kinds import MAX_LEVELS, as_table_column
from polydag.errors import DataError, UsageError
from polydag.progress import report
from polydag.studies.config import require_shape
from polydag.studies.inputs import Inputs, public, read_knowledge, read_table, require_known
from polydag.studies.posterior import (
    LIKELY,
    PosteriorConfig,
    discovered,
    edge_table,
    listed,
    settings_for,
    undirected,
)
from polydag.studies.result import Result

if TYPE_CHECKING:
    import pandas as pd

    from polydag.data import Table

_OWN = ("method", "discretize", "knowledge", "random_state", "n_jobs", "transfer_prior", "edge_prior")
_TOLD_LEVELS = 6
_TOLD_TASKS = 5  # beyond this the mean over the tasks is told of


@dataclass(frozen=True)
class TasksConfig(PosteriorConfig):
    """All that decides the outcome of a study of tasks; `data` names one source a task.

    Attributes
    ----------
    task_column : str, optional
        The column of a single source that says which task a row belongs to.
    """

    shape: ClassVar[str] = "tasks"

    task_column: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task_column is not None and len(self.data) != 1:
            raise UsageError(
                f"--task-column divides one table into tasks; {len(self.data)} were named. "
                "Without it every file is a task."
            )
        if len(set(self.data)) != len(self.data):
            twice = next(source for source in self.data if self.data.count(source) > 1)
            raise UsageError(f"{public(twice)} is named twice; every file is a task of its own.")


CONFIG = TasksConfig


def settings_of(config: TasksConfig) -> dict[str, Any]:
    """All settings of the learner: those given, under its own names, and its defaults."""
    from polydag.learners import MultitaskDiscovery

    return settings_for(MultitaskDiscovery(), config, _OWN, "a study of tasks")


def load(config: TasksConfig) -> Inputs:
    """Read every task's table and the background knowledge."""
    settings_of(config)  # a wrong name is told before a long reading
    sha256: dict[str, str] = {}
    knowledge = read_knowledge(config, sha256)
    told: tuple[str, ...] = ()
    if config.task_column is None:
        parts = _one_file_each(config, sha256)
    else:
        parts, told = _divided(config, config.task_column, sha256)
    tables = _with_common_kinds(config, parts)
    notes = [*told, *(f"{task}: {note}" for task, table in tables.items() for note in table.notes)]
    first = next(iter(tables.values()))
    require_known(knowledge, first.names, config.knowledge)
    n = float(sum(table.n for table in tables.values()))
    # Tasks name themselves in what is said of them, so no source is put before it.
    return Inputs(tables, n, "", knowledge, sha256, (*notes, *_own_levels(tables)))


def _read(
    config: TasksConfig, source: str, sha256: dict[str, str], columns: tuple[str, ...] | None = None
) -> Table:
    """One source, with its holes unless they are refused: each task settles its own, by common kinds."""
    return read_table(config, source, sha256, columns, None if config.missing == "error" else "keep")


def _one_file_each(config: TasksConfig, sha256: dict[str, str]) -> dict[str, pd.DataFrame]:
    parts: dict[str, pd.DataFrame] = {}
    for number, (task, source) in enumerate(zip(_task_names(config.data), config.data, strict=True)):
        report("reading", number, len(config.data), public(source))
        parts[task] = _read(config, source, sha256).frame
    report("reading", len(config.data), len(config.data))
    return parts


def _task_names(sources: tuple[str, ...]) -> list[str]:
    """The files' names without endings; with their folders or endings, too, where these tell them apart."""
    paths = [Path(public(source).partition("?")[0]) for source in sources]
    stems = [path.name.partition(".")[0] for path in paths]
    longer = [str(path.with_name(stem)) if stem else "" for path, stem in zip(paths, stems, strict=True)]
    for names in (stems, longer):
        if len(set(names)) == len(names) and all(names):
            return names
    return [public(source) for source in sources]


def _divided(
    config: TasksConfig, column: str, sha256: dict[str, str]
) -> tuple[dict[str, pd.DataFrame], tuple[str, ...]]:
    wanted = None if config.columns is None else tuple(dict.fromkeys((*config.columns, column)))
    table = _read(config, config.data[0], sha256, wanted)
    if column not in table.names:
        raise DataError(f"{table.source} has no column {column}. Its columns are {', '.join(table.names)}.")
    if table.kinds[column] != "discrete":
        raise DataError(
            f"{table.source}, column {column}: tasks are told apart by labels, and these are numbers. "
            f"Say --kind {column}=discrete if they are meant as labels."
        )
    known = table.frame[column].notna()
    labels = as_table_column(table.frame.loc[known, column], "discrete")
    rest = table.frame[known].drop(columns=column)
    parts = {
        str(label): rest[(labels == label).to_numpy()] for label in sorted(labels.unique(), key=_natural)
    }
    lost, alike = _without_task(config, table, column), _alike(parts)
    if few := [task for task, frame in parts.items() if len(frame) < config.least_rows]:
        said = " ".join([*alike, "Correct the label, or leave the row out."])
        raise DataError(
            f"{table.source}, column {column}: the task {few[0]!r} has only one row. At least "
            f"{config.least_rows} rows are needed. {said}"
        )
    return parts, (*lost, *alike)


def _without_task(config: TasksConfig, table: Table, column: str) -> tuple[str, ...]:
    """Rows that belong to no task can be left out; to guess their task would be to make up data."""
    lost = int(table.frame[column].isna().sum())
    if not lost:
        return ()
    if config.missing == "impute":
        raise DataError(
            f"{table.source}, column {column}: {lost} of {table.n} rows do not say to which task they "
            "belong, and that is not imputed. Write it down, or leave these rows out of the file."
        )
    return (f"{lost} of {table.n} rows left out: their task ({column}) is missing.",)


def _alike(parts: Mapping[str, pd.DataFrame]) -> tuple[str, ...]:
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


def _natural(label: object) -> tuple[object, ...]:
    """A key that puts 2 before 10, in numbers and inside of words."""
    if isinstance(label, numbers.Real):
        return (0, float(label))
    parts = re.split(r"(\d+)", str(label))
    return (1, *(int(part) if k % 2 else part for k, part in enumerate(parts)))


def _with_common_kinds(config: TasksConfig, parts: dict[str, pd.DataFrame]) -> dict[str, Table]:
    """The tables of all tasks, with columns of the same kinds.

    Labels in one task are labels in all; whether numbers are meant as labels is decided over all rows. By
    these kinds missing values are left out or filled in within each task: other tasks say nothing of them.
    """
    import pandas as pd

    from polydag.learners.task_tables import common_columns

    names = common_columns({task: list(frame.columns) for task, frame in parts.items()})
    kinds: Any = {name: kind for name, kind in config.kinds.items() if name in names}
    labelled = {
        task: frame[names].astype({name: object for name in names if frame[name].dtype == "category"})
        for task, frame in parts.items()
    }
    for name in names:
        if name not in kinds and _made_labels(name, labelled):
            kinds[name] = "discrete"
    whole = data.from_frame(
        pd.concat(labelled.values(), ignore_index=True), kinds=kinds, missing="keep", source="The tasks"
    )
    missing: Any = config.missing
    settled = {
        task: data.from_frame(frame, kinds=whole.kinds, missing=missing, source=task)
        for task, frame in labelled.items()
    }
    frames = [table.frame for table in settled.values()]
    whole = data.from_frame(pd.concat(frames, ignore_index=True), kinds=whole.kinds, source="The tasks")
    tables, start = {}, 0
    for task, table in settled.items():
        own = whole.frame.iloc[start : start + table.n].reset_index(drop=True)
        tables[task] = dataclasses.replace(table, frame=own)
        start += table.n
    return tables


def _made_labels(name: str, frames: dict[str, pd.DataFrame]) -> bool:
    """Whether a column holds labels in some task; then its numbers in the others are made labels."""
    import pandas as pd

    counted = [
        task
        for task, frame in frames.items()
        if pd.api.types.is_numeric_dtype(frame[name]) and not pd.api.types.is_bool_dtype(frame[name])
    ]
    if len(counted) == len(frames):
        return False
    worded = next(task for task in frames if task not in counted)
    for task in counted:
        column = frames[task][name]
        if not (column.dropna() % 1 == 0).all() or column.nunique() > MAX_LEVELS:
            such = next(iter(frames[worded][name].dropna()), "")
            raise DataError(
                f"Column {name} holds numbers in {task} and labels in {worded} (such as {str(such)!r}). "
                "Write it in the same way in all tasks."
            )
        words = column.map(lambda number: str(int(number)), na_action="ignore")
        frames[task] = frames[task].assign(**{name: words.astype(object)})
    for task in frames.keys() - set(counted):
        words = frames[task][name].map(str, na_action="ignore")
        frames[task] = frames[task].assign(**{name: words.astype(object)})
    return True


def _own_levels(tables: dict[str, Table]) -> tuple[str, ...]:
    """Levels that one task only has: they may be the same thing, written in another way."""
    found = []
    for name in next(iter(tables.values())).discrete:
        seen: dict[Any, list[str]] = {}
        for task, table in tables.items():
            for level in table.frame[name].unique():
                seen.setdefault(level, []).append(task)
        found += [f"{name} = {level} ({who[0]})" for level, who in seen.items() if len(who) == 1]
    if not found or len(tables) < 2:
        return ()
    listed = ", ".join(found[:_TOLD_LEVELS]) + (", …" if len(found) > _TOLD_LEVELS else "")
    return (f"In one task only are the levels {listed}. Are all levels written in the same way?",)


def run(config: TasksConfig, inputs: Inputs | None = None) -> Result:
    """Learn the probability of every edge in every task; `inputs` are read where they are not given."""
    from polydag.learners import MultitaskDiscovery

    require_shape(config, CONFIG.shape)
    inputs = load(config) if inputs is None else inputs
    first = next(iter(inputs.rows.values()))
    found = discovered(MultitaskDiscovery, config, settings_of(config), inputs, discrete=first.discrete)
    model = found.model
    count = len(model.tasks_)
    sizes = ", ".join(
        f"{task} ({table.n} rows, {graph.n_edges} edge{'' if graph.n_edges == 1 else 's'})"
        for (task, table), graph in zip(inputs.rows.items(), model.graphs_, strict=True)
    )
    return found.result(
        inputs,
        method=model.posteriors_[0].method,
        notes=(f"Tasks: {sizes}.", *found.warned, *_sentences(model)),
        probabilities=model.raw_weights_,
        mean_of=f"{count} tasks" if count > 1 else "",
        tables=_tables(model),
        documents=_graphs(model),
        pictures=_pictures(model),
    )


def file_names(tasks: tuple[str, ...]) -> list[str]:
    """The tasks' names as parts of file names, all different."""
    plain = [re.sub(r"[^\w-]+", "-", task).strip("-") for task in tasks]
    # Some file systems do not tell "A" from "a".
    alike = len({name.casefold() for name in plain}) < len(plain) or not all(plain)
    return [f"{k}-{name}" if alike else name for k, name in enumerate(plain, start=1)]


def _tables(model: Any) -> dict[str, pd.DataFrame]:
    found = {
        f"edges-{name}": edge_table(posterior)
        for name, posterior in zip(file_names(model.tasks_), model.posteriors_, strict=True)
    }
    if len(model.tasks_) < 2:
        return found
    return {**found, "differences": model.differences_, "connections": model.connections_}


def _graphs(model: Any) -> dict[str, Any]:
    from polydag.formats import graphjson

    named = zip(file_names(model.tasks_), model.graphs_, strict=True)
    return {f"graph-{name}": json.loads(graphjson.to_text(graph)) for name, graph in named}


def _pictures(model: Any) -> dict[str, str]:
    from polydag import plot
    from polydag.plot.heatmaps import Map, heat_maps
    from polydag.posterior.probabilities import either_way

    names = file_names(model.tasks_)
    maps = [Map(t, p.probabilities) for t, p in zip(model.tasks_, model.posteriors_, strict=True)]
    found = {
        f"graph-{name}": plot.svg(graph, posterior.probabilities)
        for name, graph, posterior in zip(names, model.graphs_, model.posteriors_, strict=True)
    }
    # Directions differ between tasks by chance, connections do not.
    either = [Map(item.title, either_way(item.values)) for item in maps]
    variables = model.posteriors_[0].names
    return {
        **found,
        "heatmaps": heat_maps(variables, maps),
        "heatmaps-connections": heat_maps(variables, either),
    }


def _sentences(model: Any) -> tuple[str, ...]:
    """What is connected in all tasks and in one only, most probably, and what has no direction, in words."""
    if len(model.tasks_) < 2:
        return _undirected(model)
    table = model.connections_
    told = {"in all tasks": "shared"} | {f"only in {task}": f"only in {task}" for task in model.tasks_}
    said = []
    for where, column in told.items():
        likely = table[table[column] > LIKELY]
        if len(likely):
            words = listed(zip(likely["first"], likely["second"], likely[column], strict=True))
            said.append(f"Most probably connected {where}: {words}.")
    where = "connections.csv; of directed edges, differences.csv"
    basis = "".join(table["basis"].iloc[:1])
    kind = f"Probabilities of differences ({where}) are of the kind: {basis}."
    return (*said, *_undirected(model), *([kind] if basis else []))


def _undirected(model: Any) -> tuple[str, ...]:
    """Of each task; of many, or where all have one network, of their mean."""
    names, threshold = model.posteriors_[0].names, model.threshold
    if len(model.tasks_) == 1:
        return undirected(names, model.raw_weights_, threshold)
    if len(model.tasks_) > _TOLD_TASKS or model.transfer == "pool":
        return undirected(names, model.raw_weights_, threshold, " in the mean over the tasks")
    return tuple(
        sentence
        for task, posterior in zip(model.tasks_, model.posteriors_, strict=True)
        for sentence in undirected(names, posterior.probabilities, threshold, f" in {task}")
    )
