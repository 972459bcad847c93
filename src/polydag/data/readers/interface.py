"""The interface of a reader, and the checks that all readers share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag.errors import DataError, PolydagError

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 65_536


class Location(NamedTuple):
    """A file or a database: its address, the query if it is a database, and its name in messages."""

    address: str
    query: str | None
    label: str

    def __repr__(self) -> str:
        return f"Location({self.label!r})"  # the address may contain a password


def row_number(location: Location, row: int) -> str:
    """The position of a row (counted from 0) for messages: `row 3`."""
    return f"row {row + 1}"


def as_usual(location: Location) -> tuple[str, ...]:
    """Nothing to say of how the source is written."""
    return ()


class Reader(NamedTuple):
    """Reads tables of one format: `frame` reads a whole table, `batches` streams record batches.

    `locate` says where a row is, for messages, and `notes` how the source is written.

    The columns of batches are numbers, except those that are named as labels.
    """

    name: str
    suffixes: tuple[str, ...]
    frame: Callable[[Location, Sequence[str] | None], pd.DataFrame]
    batches: Callable[[Location, Sequence[str] | None, Collection[str]], Iterator[Any]]
    locate: Callable[[Location, int], str] = row_number
    notes: Callable[[Location], tuple[str, ...]] = as_usual


@contextmanager
def reporting_damage(label: str) -> Iterator[None]:
    """Turn what a foreign library raises on a damaged file into one `DataError` that names the file."""
    try:
        yield
    except (PolydagError, Warning):
        raise
    except MemoryError as error:
        raise DataError(
            f"{label} needs more memory than there is ({error}). It is damaged, or too large to read at once."
        ) from None
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise DataError(f"{label} is damaged or cannot be read: {reason}.") from None


def existing_file(location: Location) -> Path:
    """The path of a file, after checking that it exists, is readable and is not empty."""
    path = Path(location.address)
    if path.is_dir():
        raise DataError(f"{location.label} is a folder. Give the path of one file in it.")
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except FileNotFoundError:
        raise DataError(f"{location.label}: no such file. Check the name and the folder.") from None
    except OSError as error:
        raise DataError(f"{location.label} cannot be read: {error.strerror}.") from None
    if size == 0:
        raise DataError(f"{location.label} is empty. A table needs a header line and at least 2 rows.")
    return path


def select_columns(names: Sequence[str], columns: Sequence[str] | None, label: str) -> list[str]:
    """The columns to read (all if `columns` is None), after checking that names exist and are unique."""
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise DataError(
                f"{label}: column {position} has no name. Name it. If it is a row index written by pandas, "
                "save the table with to_csv(…, index=False)."
            )
    if repeated := _repeated(names):
        raise DataError(f"{label}: several columns have the name {', '.join(repeated)}. Rename them.")
    if columns is None:
        return list(names)
    if unknown := [name for name in columns if name not in set(names)]:
        known = f"{', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
        raise DataError(f"{label} has no column {', '.join(unknown)}. Its columns are {known}.")
    if repeated := _repeated(columns):
        raise DataError(f"Column {', '.join(repeated)} was requested more than once.")
    return list(columns)


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted(name for name, times in Counter(names).items() if times > 1)
