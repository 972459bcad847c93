"""What a format of tables has to offer, and the checks that all formats share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 65_536


class Source(NamedTuple):
    """A file or a database: its address, the query where it is a database, and its name in messages."""

    address: str
    query: str | None
    label: str

    def __repr__(self) -> str:
        return f"Source({self.label!r})"  # the address may hold a password


def row_place(source: Source, row: int) -> str:
    """Where a row (counted from 0) stands, in words."""
    return f"row {row + 1}"


class Format(NamedTuple):
    """A format of tables: `frame` reads all of it, `batches` streams Arrow record batches of numbers."""

    name: str
    suffixes: tuple[str, ...]
    frame: Callable[[Source, Sequence[str] | None], pd.DataFrame]
    batches: Callable[[Source, Sequence[str] | None], Iterator[Any]]
    place: Callable[[Source, int], str] = row_place


def existing_file(source: Source) -> Path:
    """The path of a file that is there and is not empty."""
    path = Path(source.address)
    if path.is_dir():
        raise DataError(f"{source.label} is a folder. Name one file in it.")
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except FileNotFoundError:
        raise DataError(f"{source.label}: no such file. Check the name and the folder.") from None
    except OSError as error:
        raise DataError(f"{source.label} cannot be read: {error.strerror}.") from None
    if size == 0:
        raise DataError(f"{source.label} is empty. A table has a line of column names and at least 2 rows.")
    return path


def choose(names: Sequence[str], columns: Sequence[str] | None, label: str) -> list[str]:
    """The columns to read, after making sure that every name is there once."""
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise DataError(
                f"{label}: column {position} has no name. Give it one; "
                "a row index written by pandas is avoided with to_csv(…, index=False)."
            )
    if twice := sorted({name for name in names if list(names).count(name) > 1}):
        raise DataError(f"{label}: several columns have the name {', '.join(twice)}. Rename them.")
    if columns is None:
        return list(names)
    if unknown := [name for name in columns if name not in set(names)]:
        known = f"{', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
        raise DataError(f"{label} has no column {', '.join(unknown)}. Its columns are {known}.")
    if twice := sorted({name for name in columns if list(columns).count(name) > 1}):
        raise DataError(f"The column {', '.join(twice)} was asked for more than once.")
    return list(columns)
