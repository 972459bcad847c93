"""The tables of a study, read as the shape of its data asks for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag.computing.progress import report
from polydag.errors import DataError, UsageError
from polydag.studies.config.shapes import Config
from polydag.studies.data.addresses import is_database, public, stem
from polydag.studies.data.inputs import file_sha256, frame_sha256, is_large
from polydag.studies.data.linking import (
    link_columns,
    require_interventions,
    require_row_labels,
    variables,
    with_row_labels,
)
from polydag.studies.plan import Plan

if TYPE_CHECKING:
    import pandas as pd

    from polydag.data import Table
    from polydag.stats import GaussianStats, MixedStats


class Tables(NamedTuple):
    """Tables (of large files, statistics) by name, what was noted, and the source that errors name."""

    tables: dict[str, Any]
    notes: tuple[str, ...]
    source: str = ""


def read_tables(plan: Plan, sha256: dict[str, str]) -> Tables:
    """The tables of a study; fingerprints are added to `sha256`."""
    read = READERS[plan.config.shape](plan, sha256)
    for column in plan.config.intervention_columns:
        if not any(column in table.names for table in read.tables.values()):
            raise UsageError(f"No file has a column {column} that names interventions.")
    return read


def _streamed(plan: Plan, sources: tuple[str, ...]) -> bool:
    """Whether only the statistics of large files are kept."""
    config = plan.config
    if plan.is_time_series or config.is_linked or config.interventions is not None:
        return False
    if plan.method.probabilities and not scores_numbers(plan):
        return False
    if plan.privacy is not None and (
        plan.privacy.epsilon is not None or plan.settings.get("model") in ("mlp", "masked")
    ):
        return False
    return is_large(config, sources)


def scores_numbers(plan: Plan) -> bool:
    """Whether the score of a posterior is one for numbers."""
    from polydag.scores import kind_of

    return bool(kind_of(plan.settings["criterion"]) == "numbers")


def _statistics(plan: Plan, source: str, sha256: dict[str, str]) -> GaussianStats | MixedStats:
    from polydag import data

    config = plan.config
    if config.exclude is not None:
        raise UsageError(
            f"{public(source)} is large: name the columns to use (--columns) instead of --exclude."
        )
    sha256[public(source)] = file_sha256(source)
    labels = [name for name, kind in config.kinds.items() if kind == "discrete"]
    if not labels:
        return data.gaussian_stats(source, config.columns, query=config.query)
    return data.mixed_stats(source, labels, config.columns, query=config.query)


def read_table(plan: Plan, source: str, sha256: dict[str, str], *, keep_missing: bool = False) -> Table:
    """One table with the chosen columns, and those that say more of its rows; its fingerprint is added."""
    from polydag import data

    config = plan.config
    if config.query is not None and not any(map(is_database, config.data)):
        raise UsageError(f"A query needs a database address such as sqlite:///file.db; {source} is none.")
    needed = [*link_columns(config), *_task_column(plan)]
    optional = _optional_columns(plan)
    imputed = config.missing == "impute" and (config.is_linked or config.interventions is not None)
    read = partial(
        data.read,
        source,
        columns=_wanted(config.columns, needed, optional),
        exclude=[name for name in config.exclude or () if name not in (*needed, *optional)],
        kinds=config.kinds,  # type: ignore[arg-type]  # checked by the reader
        na=config.na or (),
        transforms=_own_transforms(config),
        recode=config.recode or (),
        factors=_factors(config, source),
        query=config.query if is_database(source) else None,
        least=config.least_rows,
    )
    kept = keep_missing or imputed or has_gaps(config)
    checked = config.interventions is not None  # rows without intervention must not be dropped
    table = read(missing="keep" if kept or checked else config.missing)  # type: ignore[arg-type]
    require_interventions(config, table.frame, table.source)
    if checked and not kept and table.frame.isna().any(axis=None):
        table = read(missing=config.missing)  # type: ignore[arg-type]
    if lost := [name for name in needed if name not in table.names]:
        known = ", ".join(table.names[:12]) + (", …" if len(table.names) > 12 else "")
        raise DataError(f"{table.source} has no column {', '.join(lost)}. Its columns are {known}.")
    sha256[public(source)] = frame_sha256(table.frame) if is_database(source) else file_sha256(source)
    table = _selected(table, config.columns, (*needed, *optional))
    if imputed:
        require_row_labels(config, table.frame, table.source)
    if imputed and not keep_missing:
        filled = data.from_frame(table.frame, kinds=table.kinds, missing="impute", source=table.source)
        table = dataclasses.replace(filled, declared=table.declared)
    return table


def _factors(config: Config, source: str) -> dict[str, float]:
    """What columns of one file are multiplied by."""
    found = {}
    for entry in config.rescale or ():
        where, equals, value = entry.rpartition("=")
        file, colon, name = where.rpartition(":")
        try:
            factor = float(value)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise UsageError(f"Units are changed by FILE:NAME=FACTOR, as b.csv:chol=38.67; got {entry!r}.")
        if colon and not any(file in (public(own), stem(own), Path(public(own)).name) for own in config.data):
            raise UsageError(f"{entry}: there is no file {file} among the data.")
        if not colon or file in (public(source), stem(source), Path(public(source)).name):
            found[name] = factor
    return found


def _own_transforms(config: Config) -> dict[str, str]:
    """The transformations that a table can do alone: ranks over parties are made together."""
    return {
        name: how for name, how in config.transforms.items() if how != "rank" or config.shape != "parties"
    }


def has_gaps(config: Config) -> bool:
    """Whether missing values stay, since moments allow for them."""
    from polydag.sources.gaps.moments import ALLOWED

    return config.missing in ALLOWED


def _task_column(plan: Plan) -> list[str]:
    name = getattr(plan.config, "task_column", None)
    return [] if name is None else [name]


def _optional_columns(plan: Plan) -> tuple[str, ...]:
    """Columns that say more of the rows in those files that have them."""
    if plan.is_time_series:
        return plan.series["time"], plan.series["realisation"]
    return plan.config.intervention_columns


def _wanted(
    columns: tuple[str, ...] | None, needed: list[str], optional: tuple[str, ...]
) -> list[str] | None:
    """The columns to read: all of them where some may be missing."""
    if columns is None or optional:
        return None
    return list(dict.fromkeys((*columns, *needed)))


def _selected(table: Table, columns: tuple[str, ...] | None, besides: tuple[str, ...]) -> Table:
    """The chosen columns of a table, and those of `besides` that it has."""
    from polydag.data.readers.interface import select_columns

    if columns is None:
        return table
    chosen = select_columns(table.names, columns, table.source)
    more = [name for name in dict.fromkeys(besides) if name in table.names and name not in chosen]
    kinds = {name: table.kinds[name] for name in (*chosen, *more)}
    return dataclasses.replace(table, frame=table.frame[list(kinds)], kinds=kinds)


def _each(plan: Plan, read: Callable[[str], Any]) -> list[Any]:
    """What is read of each source, in order, with progress."""
    data = plan.config.data
    found = []
    for number, source in enumerate(data):
        report("reading", number, len(data), public(source))
        found.append(read(source))
    report("reading", len(data), len(data))
    for column in plan.config.exclude or ():
        if not any(column in table.left_out for table in found):
            raise UsageError(f"--exclude: no file has a column {column} to leave out.")
    return found


def _one_table(plan: Plan, sha256: dict[str, str]) -> Tables:
    """All rows as one table."""
    config = plan.config
    if plan.is_time_series and len(config.data) > 1:
        raise UsageError(
            "Time series are read from one file, in which a column identifies the series (--set "
            "realisation=NAME). Files of several parties are read with --as parties --set model=lagged."
        )
    if _streamed(plan, config.data):
        return _one_stream(plan, sha256)
    tables = _each(plan, lambda source: read_table(plan, source, sha256))
    _require_same_columns(config.data, [table.names for table in tables])
    if len(tables) == 1:
        table = with_row_labels(config, tables[0], sha256)
        return Tables({table.source: table}, (*table.notes, *_suspicions(config, table)), table.source)
    whole = _stacked(plan, tables)
    notes = [f"{table.source}: {note}" for table in tables for note in table.notes]
    notes.append(f"{len(tables)} tables were concatenated: {whole.n} rows.")
    notes += _suspicions(config, whole)
    return Tables({whole.source: with_row_labels(config, whole, sha256)}, tuple(notes), whole.source)


def _suspicions(config: Config, table: Table) -> list[str]:
    """What in the variables may not be what it looks like: codes, identifiers, spellings, two units."""
    from polydag.data.checking.hints import column_hints

    own = dataclasses.replace(
        table, kinds={name: table.kinds[name] for name in variables(config, table.names)}
    )
    return [
        f"Column {finding.subject.rpartition('column ')[2]} {finding.message}; {finding.advice}."
        for finding in column_hints(own)
        if finding.subject.rpartition("column ")[2] not in config.kinds
    ]


def _one_stream(plan: Plan, sha256: dict[str, str]) -> Tables:
    """The statistics of all rows."""
    from polydag.stats.mixed import with_united_levels

    parts = _each(plan, lambda source: _statistics(plan, source, sha256))
    _require_same_columns(plan.config.data, [part.names for part in parts])
    whole = reduce(add, with_united_levels([part.select(parts[0].names) for part in parts]))
    label = ", ".join(map(public, plan.config.data))
    note = "The data is large: mean and covariance were computed as it was read."
    return Tables({label: whole}, (note,), label)


def _stacked(plan: Plan, tables: list[Table]) -> Table:
    import pandas as pd

    from polydag import data

    label = ", ".join(table.source for table in tables)
    rows = pd.concat([table.frame[list(tables[0].names)] for table in tables], ignore_index=True)
    kinds: Any = plan.config.kinds
    missing: Any = "keep" if has_gaps(plan.config) else "error"
    return data.from_frame(rows, kinds=kinds, missing=missing, source=label)


def _require_same_columns(sources: Sequence[str], columns: Sequence[Iterable[str]]) -> None:
    first = set(columns[0])
    for source, own in zip(sources, map(set, columns), strict=True):
        if own != first:
            sides = ((first - own, sources[0]), (own - first, source))
            only = [f"{', '.join(sorted(names))} only in {public(where)}" for names, where in sides if names]
            raise DataError(
                f"Tables that are put together need the same columns: {'; '.join(only)}. "
                "Choose common ones with --columns."
            )


def _parties(plan: Plan, sha256: dict[str, str]) -> Tables:
    """One table for each party."""
    from polydag.studies.data.common_kinds import with_agreed_kinds

    notes: list[str] = []

    def read(source: str) -> Table | GaussianStats | MixedStats:
        if _streamed(plan, (source,)):
            notes.append(f"{public(source)} is large: mean and covariance were computed as it was read.")
            return _statistics(plan, source, sha256)
        table = with_row_labels(plan.config, read_table(plan, source, sha256), sha256)
        notes.extend(f"{public(source)}: {note}" for note in table.notes)
        if not plan.method.labels:
            _require_numbers(plan, table, public(source))
        return table

    tables = dict(zip(map(public, plan.config.data), _each(plan, read), strict=True))
    if plan.method.labels and not plan.config.is_linked:
        tables = with_agreed_kinds(tables, plan.config.kinds)
    return Tables(tables, tuple(notes))


def _require_numbers(plan: Plan, table: Table, name: str) -> None:
    """Name the first column of labels, for methods that learn from numbers."""
    series = plan.is_time_series
    labels_allowed = {plan.series["realisation"]} if series else set()
    columns = variables(plan.config, table.names)
    words = [
        column
        for column in columns
        if column not in labels_allowed and table.frame[column].dtype.kind not in "iuf"
    ]
    if not words:
        return
    such = _first_word(table.frame[words[0]])
    apart = f" If it identifies the series, add --set realisation={words[0]}." if series else ""
    raise DataError(
        f"{name}: column {words[0]} holds labels{such}, not numbers. {plan.method.name} needs numbers in "
        "every column: write them with a point and without units, or leave the column out with --columns, "
        f"at every party.{apart}"
    )


def _first_word(column: pd.Series[Any]) -> str:
    import pandas as pd

    numbers = pd.to_numeric(column.astype(str), errors="coerce")
    example = column[numbers.isna()].iloc[:1].tolist()
    return f" ({example[0]!r})" if example else ""


def _tasks(plan: Plan, sha256: dict[str, str]) -> Tables:
    """One table for each task: a file, or the rows with one label in a column."""
    from polydag.studies.data.common_kinds import spellings, with_common_kinds
    from polydag.studies.data.task_column import divided

    config = plan.config
    keep = config.missing != "error"
    if config.transforms and "rank" in config.transforms.values():
        raise UsageError("Ranks are those of one table. For tasks use log, or none.")
    read = _each(plan, lambda source: read_table(plan, source, sha256, keep_missing=keep))
    notes = tuple(f"{table.source}: {note}" for table in read for note in table.notes)
    labelled = [with_row_labels(config, table, sha256) for table in read]
    if column := _task_column(plan):
        parts, more = divided(config, labelled[0], column[0])
        notes += more
    else:
        parts = {task: table.frame for task, table in zip(task_names(config.data), labelled, strict=True)}
    tables = with_common_kinds(config, parts)
    notes = (*notes, *(f"{task}: {note}" for task, table in tables.items() for note in table.notes))
    return Tables(tables, (*notes, *spellings(config, tables)))


def task_names(sources: tuple[str, ...]) -> list[str]:
    """The files' names without endings; with their folders or endings where these tell them apart."""
    paths = [Path(public(source).partition("?")[0]) for source in sources]
    stems = [stem(source) for source in sources]
    longer = [str(path.with_name(own)) if own else "" for path, own in zip(paths, stems, strict=True)]
    for names in (stems, longer):
        if len(set(names)) == len(names) and all(names):
            return names
    return [public(source) for source in sources]


READERS: dict[str, Callable[[Plan, dict[str, str]], Tables]] = {
    "table": _one_table,
    "parties": _parties,
    "tasks": _tasks,
}
