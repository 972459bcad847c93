"""From a configuration to the links between the rows of each table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag.data.readers.selection import find_reader
from polydag.errors import DataError, UsageError
from polydag.studies.config.shapes import Config
from polydag.studies.data.addresses import is_database
from polydag.studies.data.inputs import file_sha256

if TYPE_CHECKING:
    import pandas as pd

    from polydag.data import Table
    from polydag.rows import Links

# Columns that a table gets while it is read, so that rows keep their labels when they are divided.
_GROUP, _ROW = "\0group", "\0row"


class Pair(NamedTuple):
    """Two linked rows, and of what kind the link is."""

    first: str
    second: str
    kind: str | None


def link_columns(config: Config) -> tuple[str, ...]:
    """The columns of the data that say how its rows are linked; they are not variables."""
    times = [] if config.time is None else [config.time]
    named = [*_row_labels(config), *times, *_coordinates(config)[0], *(config.covariates or ())]
    return tuple(dict.fromkeys(named))


def _row_labels(config: Config) -> list[str]:
    group = None if groups_in_file(config) else config.groups
    return [name for name in (group, config.row_ids) if name is not None]


def groups_in_file(config: Config) -> bool:
    """Whether the group labels are in a file of their own."""
    return config.groups is not None and Path(config.groups).is_file()


def _coordinates(config: Config) -> tuple[list[str], int]:
    """The columns with coordinates, and the number of neighbours."""
    if config.coords is None:
        return [], 0
    names, colon, count = config.coords.rpartition(":")
    if not colon or not count.isdigit() or not names:
        raise UsageError(
            f"--coords is columns and the number of nearest neighbours, as lon,lat:5; got {config.coords!r}."
        )
    return [name.strip() for name in names.split(",")], int(count)


def require_links_fit(config: Config) -> None:
    """Raise, before anything is read, for what is written wrongly or goes with one file only."""
    _coordinates(config)
    if groups_in_file(config) and config.shape != "table" and len(config.data) > 1:
        raise UsageError(
            f"{config.groups} is a file with a label for each row of one table. With several files, name a "
            "column that all of them have: --groups COLUMN."
        )


def require_row_labels(config: Config, frame: pd.DataFrame, source: str) -> None:
    """Raise where a group, a row's name or an intervention would have to be imputed."""
    require_interventions(config, frame, source)
    names = [*_row_labels(config), *([] if config.time is None else [config.time])]
    for name in names:
        if name in frame.columns and (lost := int(frame[name].isna().sum())):
            raise DataError(
                f"{source}, column {name}: {lost} of {len(frame)} rows have no value, and this column is "
                "not imputed. Fill the values in, or remove these rows from the file."
            )


def require_interventions(config: Config, frame: pd.DataFrame, source: str) -> None:
    """Raise where a row does not say whether something was set by intervention."""
    for name in config.intervention_columns:
        if name in frame.columns and (lost := int(frame[name].isna().sum())):
            raise DataError(
                f"{source}, column {name}: {lost} of {len(frame)} rows do not say what was set by "
                "intervention. Write none where nothing was set, or else the name of the column."
            )


def with_row_labels(config: Config, table: Table, sha256: dict[str, str]) -> Table:
    """The table with group labels from a file and with row numbers, where links need them."""
    added: dict[str, Any] = {}
    if groups_in_file(config):
        added[_GROUP] = _group_labels(config, table, sha256)
    if config.links is not None and config.row_ids is None:
        added[_ROW] = range(1, table.n + 1)
    if not added:
        return table
    kinds = {**table.kinds, **dict.fromkeys(added, "discrete")}
    return dataclasses.replace(table, frame=table.frame.assign(**added), kinds=kinds)  # type: ignore[arg-type]


def _group_labels(config: Config, table: Table, sha256: dict[str, str]) -> Any:
    assert config.groups is not None
    sha256[config.groups] = file_sha256(config.groups)
    origin, reader = find_reader(config.groups, None)
    labels = reader.frame(origin, None)
    if len(labels) != table.n:
        raise DataError(
            f"{config.groups} has {len(labels)} lines, the data {table.n} rows; each needs a label."
        )
    return labels.iloc[:, -1].to_numpy()


def variables(config: Config, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that are variables of the graph."""
    others = {*link_columns(config), *config.intervention_columns, _GROUP, _ROW}
    return tuple(name for name in names if name not in others)


def linked_frame(config: Config, table: Table, *, labels_allowed: bool) -> pd.DataFrame:
    """The columns that `LinkedRows` takes: variables, covariates, and those of groups, times and targets."""
    labels = [] if config.groups is None or groups_in_file(config) else [config.groups]
    labels += [] if config.time is None else [config.time]
    own = variables(config, table.names)
    kept = [*own, *(config.covariates or ())]
    _require_numbers(table.frame, kept if not labels_allowed else config.covariates or (), table.source)
    return table.frame[[*kept, *labels, *config.intervention_columns]].reset_index(drop=True)


def _require_numbers(frame: pd.DataFrame, names: Sequence[str], source: str) -> None:
    """Name every column that is not numeric, and the option that leaves columns out."""
    if strange := [name for name in names if frame[name].dtype.kind not in "fiub"]:
        raise DataError(
            f"{source}: {', '.join(strange)} {'is' if len(strange) == 1 else 'are'} not numeric, and numbers "
            "are needed: choose columns with --columns, recode, or use --method boss, ges, pc or posterior, "
            "which take labels among the variables of linked rows."
        )


def links_of(
    config: Config, tables: Mapping[str, Table], sha256: dict[str, str]
) -> dict[str, dict[str, Any]]:
    """How each table's rows are linked, as arguments of `LinkedRows`."""
    if config.links is not None:
        return {name: {"links": own} for name, own in _named_links(config, tables, sha256).items()}
    if config.covariance is not None:
        return _covariances(config, tables, sha256)
    if config.coords is not None:
        names, count = _coordinates(config)
        points = {name: table.frame[names].to_numpy(dtype=float) for name, table in tables.items()}
        return {name: {"coordinates": own, "neighbours": count} for name, own in points.items()}
    time = {} if config.time is None else {"time": config.time}
    if not groups_in_file(config):
        return {name: {"groups": config.groups, **time} for name in tables}
    return {name: {"groups": table.frame[_GROUP].tolist(), **time} for name, table in tables.items()}


def _covariances(
    config: Config, tables: Mapping[str, Table], sha256: dict[str, str]
) -> dict[str, dict[str, Any]]:
    from polydag.data.relationships import read_relationships

    assert config.covariance is not None
    assert config.row_ids is not None  # see Config
    sha256[config.covariance] = file_sha256(config.covariance)
    found = read_relationships(config.covariance)
    rows = {
        name: [_row_name(value) for value in table.frame[config.row_ids]] for name, table in tables.items()
    }
    for name, own in rows.items():
        if len(set(own)) < len(own):
            twice = next(row for row in own if own.count(row) > 1)
            raise DataError(
                f"{name}, column {config.row_ids}: {twice} occurs twice; names of rows must differ."
            )
    return {name: {"covariance": found.of(own, config.covariance)} for name, own in rows.items()}


def _named_links(config: Config, tables: Mapping[str, Table], sha256: dict[str, str]) -> dict[str, Links]:
    assert config.links is not None
    sha256[config.links] = file_sha256(config.links)
    column = _ROW if config.row_ids is None else config.row_ids
    rows = {name: [_row_name(value) for value in table.frame[column]] for name, table in tables.items()}
    pairs = _pairs(config.links)
    if config.missing == "drop":
        present = {row for own in rows.values() for row in own}
        left_out = _all_rows(config) - present
        pairs = [pair for pair in pairs if left_out.isdisjoint(pair[:2])]
    try:
        divided = _divided(pairs, rows, config)
        return {name: _network(divided[name], own) for name, own in rows.items()}
    except DataError as error:
        known = "row numbers from 1" if config.row_ids is None else f"the column {config.row_ids}"
        hint = "" if config.row_ids else " Say with --row-ids which column names the rows."
        raise DataError(f"{config.links}, with rows named by {known}: {error}{hint}") from None


def _network(pairs: list[Pair], rows: list[str]) -> Links:
    from polydag.rows import Links

    kinds = [pair.kind for pair in pairs] if pairs and pairs[0].kind is not None else None
    return Links.from_edges([pair[:2] for pair in pairs], rows, kinds=kinds)


def _divided(pairs: list[Pair], rows: Mapping[str, list[str]], config: Config) -> dict[str, list[Pair]]:
    """The pairs of each table; a link between tables is an error, and an unknown row goes to the first."""
    first = next(iter(rows))
    if len(rows) == 1:
        return {first: pairs}
    table_of: dict[str, str] = {}
    for name, own in rows.items():
        for row in own:
            if table_of.setdefault(row, name) != name:
                raise DataError(
                    f"The row {row!r} is in {table_of[row]} and in {name}; row names must differ."
                )
    found: dict[str, list[Pair]] = {name: [] for name in rows}
    what = {"parties": "parties", "tasks": "tasks"}[config.shape]
    for pair in pairs:
        a, b, _ = pair
        homes = {table_of[row] for row in (a, b) if row in table_of}
        if len(homes) > 1:
            raise DataError(f"{a!r} and {b!r} are in different {what}; links must stay within one.")
        found[homes.pop() if homes else first].append(pair)
    return found


def _pairs(path: str) -> list[Pair]:
    """The first two columns of a file, as names of rows, and the column `kind`, where there is one."""
    origin, reader = find_reader(path, None)
    frame = reader.frame(origin, None)
    if frame.shape[1] < 2:
        raise DataError(f"{path} has one column; links are two columns of row names or numbers.")
    ends = frame.iloc[:, :2]
    if (lacking := ends.isna().any(axis=1)).any():
        raise DataError(f"{path}, {reader.locate(origin, int(lacking.argmax()))}: a link needs two rows.")
    kinds: Any = frame["kind"].astype(str) if "kind" in frame.columns[2:] else [None] * len(frame)
    rows = ends.itertuples(index=False, name=None)
    return [Pair(_row_name(a), _row_name(b), kind) for (a, b), kind in zip(rows, kinds, strict=True)]


def _all_rows(config: Config) -> set[str]:
    """The names of all rows, those with missing values as well."""
    assert config.row_ids is not None  # row numbers would have shifted, see Config
    found: set[str] = set()
    for source in config.data:
        origin, reader = find_reader(source, config.query if is_database(source) else None)
        column = reader.frame(origin, [config.row_ids])[config.row_ids]
        found |= {_row_name(row) for row in column}
    return found


def _row_name(value: Any) -> str:
    """A row's name, the same whether a file held it as a text or as a number."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
