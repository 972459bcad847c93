"""What a study reads, with marks (SHA-256) by which a repetition knows that it reads the same."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydag.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from polydag.data import Table
    from polydag.knowledge import Knowledge
    from polydag.studies.config import Config

LARGE_BYTES = 2**30  # files beyond this are not held in memory: only their statistics are


@dataclass(frozen=True, eq=False)
class Inputs:
    """The data as the learner gets it, the background knowledge, and what was noted on the way."""

    rows: Any
    n: float
    source: str
    knowledge: Knowledge | None
    sha256: Mapping[str, str]
    notes: tuple[str, ...] = ()


def require_same(found: Mapping[str, str], expected: Mapping[str, str], where: str) -> None:
    """Raise where something that was read before has other contents now; `where` recorded the old ones."""
    for name, mark in expected.items():
        now = found.get(name, mark)
        if now != mark:
            rows = " (of the query's rows in their order: add ORDER BY)" if is_database(name) else ""
            raise DataError(
                f"{name} is not what it was: {where} records the SHA-256 {mark[:12]}…, "
                f"now it is {now[:12]}…{rows}. "
                "Bring the old data back; or name the data on the command line to use it as it is now."
            )


def is_database(source: str) -> bool:
    """Whether a source is a database address rather than a file."""
    return "://" in source


def public(source: str) -> str:
    """A source as it may be written down: a database address without its secrets.

    Examples
    --------
    >>> public("postgresql://me:secret@host/db?sslmode=require&password=x")
    'postgresql://me@host/db?sslmode=require'
    """
    if not is_database(source):
        return source
    bare = re.sub(r"(://[^:/?#]*):[^/?#]*@", r"\1@", source)
    address, _, options = bare.partition("?")
    kept = [
        part for part in options.split("&") if part and not re.match(r"[^=]*(pass|secret|token|key)", part)
    ]
    return f"{address}?{'&'.join(kept)}" if kept else address


def file_mark(path: str) -> str:
    """The SHA-256 of a file."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def frame_mark(frame: pd.DataFrame) -> str:
    """The SHA-256 of a table's column names and rows, in their order."""
    import pandas as pd

    digest = hashlib.sha256(repr(list(frame.columns)).encode())
    digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return digest.hexdigest()


def is_large(config: Config) -> bool:
    """Whether the files are too large to hold, and nothing asks for their rows."""
    if config.missing != "error" or config.kinds:
        return False
    files = [Path(source) for source in config.data if not is_database(source)]
    return sum(file.stat().st_size for file in files if file.is_file()) > LARGE_BYTES


def read_table(
    config: Config,
    source: str,
    sha256: dict[str, str],
    columns: tuple[str, ...] | None = None,
    missing: str | None = None,
) -> Table:
    """One table of a study; its mark is added to `sha256`.

    `columns`, and what is done about `missing` values, are those of the study by default. A single row does
    where the configuration says so: one party's part of a whole.
    """
    from polydag import data

    if config.query is not None and not any(map(is_database, config.data)):
        raise UsageError(
            f"A query goes with a database address such as sqlite:///file.db, not with {source}."
        )
    table = data.read(
        source,
        columns=config.columns if columns is None else columns,
        kinds=config.kinds,  # type: ignore[arg-type]  # checked by the reader
        missing=config.missing if missing is None else missing,  # type: ignore[arg-type]
        query=config.query if is_database(source) else None,
        least=config.least_rows,
    )
    sha256[public(source)] = frame_mark(table.frame) if is_database(source) else file_mark(source)
    return table


def read_with(config: Config, source: str, sha256: dict[str, str], besides: tuple[str, ...]) -> Table:
    """The chosen columns of a table, and those of `besides` that it has."""
    from polydag.data.readers.interface import select_columns

    table = read_table(dataclasses.replace(config, columns=None), source, sha256)
    if config.columns is None:
        return table
    too = [name for name in besides if name in table.names and name not in config.columns]
    kept = [*too, *select_columns(table.names, config.columns, table.source)]
    kinds = {name: table.kinds[name] for name in kept}
    return dataclasses.replace(table, frame=table.frame[kept], kinds=kinds)


def read_knowledge(config: Config, sha256: dict[str, str]) -> Knowledge | None:
    """The background knowledge of a study; its mark is added to `sha256`."""
    from polydag import data

    if config.knowledge is None:
        return None
    sha256[config.knowledge] = file_mark(config.knowledge)
    return data.read_knowledge(config.knowledge)


def require_known(knowledge: Knowledge | None, names: tuple[str, ...], path: str | None) -> None:
    """Say which file names a variable that is not there; the learner would not know the file."""
    if knowledge is None:
        return
    try:
        knowledge.masks(names)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
