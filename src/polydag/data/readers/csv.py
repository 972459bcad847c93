"""Comma-, semicolon- or tab-separated text, plain or gzipped, with a header line; missing cells are empty.

Arrow reads the file. If that fails, a second, slower pass with the standard library finds the faulty line.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from polydag.data.readers.arrow import to_frame
from polydag.data.readers.dialect import Dialect, dialect
from polydag.data.readers.interface import Location, Reader, existing_file, select_columns
from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_LONGEST_LINE = 1 << 26  # characters


def _usual_separator(location: Location) -> str:
    return "\t" if location.address.lower().removesuffix(".gz").endswith(".tsv") else ","


def _dialect(location: Location) -> Dialect:
    try:
        return dialect(
            existing_file(location), _usual_separator(location), compressed=_is_compressed(location)
        )
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{location.label} cannot be decompressed: {error}.") from None


def notes(location: Location) -> tuple[str, ...]:
    """How the file is written, where that is not usual."""
    return _dialect(location).notes(_usual_separator(location))


def _records(location: Location, written: Dialect | None = None) -> Iterator[tuple[int, list[str]]]:
    """The line number at which each record ends, and its cells; blank lines are skipped, as in Arrow."""
    path, written = existing_file(location), written or _dialect(location)
    encoding = "utf-8-sig" if written.encoding == "utf-8" else written.encoding
    opener = gzip.open if _is_compressed(location) else open
    try:
        with opener(path, "rt", encoding=encoding, errors="replace", newline="") as file:
            reader = csv.reader(_lines(file, location), delimiter=written.separator)
            for record in reader:
                if record:
                    yield reader.line_num, record
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{location.label} cannot be decompressed: {error}.") from None
    except csv.Error as error:
        raise DataError(f"{location.label}, line {reader.line_num}: {error}.") from None


def _lines(file: Any, location: Location) -> Iterator[str]:
    """The lines of a file; one that would fill the memory is refused."""
    while line := file.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise DataError(f"{location.label} has a line of more than {_LONGEST_LINE} characters.")
        yield line


def _is_compressed(location: Location) -> bool:
    return location.address.lower().endswith(".gz")


def _check_compressed(location: Location) -> None:
    """Decompress once without keeping anything: the checksum must be right, the text must fit in memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 1 << 36
    size = 0
    try:
        with gzip.open(existing_file(location)) as file:
            while chunk := file.read(1 << 20):
                size += len(chunk)
                if size > memory:
                    raise DataError(
                        f"{location.label} expands to more than the {memory >> 30} GB of memory that this "
                        "machine has. Make a file with fewer rows or columns."
                    )
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{location.label} cannot be decompressed: {error}.") from None


def _header(location: Location, written: Dialect) -> list[str]:
    """The names of the columns as they stand."""
    first = next(_records(location, written), None)
    if first is None:
        raise DataError(f"{location.label} is empty. A table needs a header line and at least 2 rows.")
    names = first[1]
    if names[0].lower() == "sep=":
        raise DataError(f"{location.label}, line 1 says how cells are separated. Delete this line.")
    if all(map(_is_number, names)) and not all(name.strip().isdigit() for name in names):
        raise DataError(
            f"{location.label}, line 1 holds numbers ({', '.join(names[:3])}), not column names. "
            "Add a header line with the column names."
        )
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def locate(location: Location, row: int) -> str:
    """The line of a row (counted from 0 after the header): `line 5`."""
    for number, (line, _) in enumerate(_records(location)):
        if number == row + 1:
            return f"line {line}"
    return f"row {row + 1}"


def _explain(location: Location, chosen: Sequence[str], *, numeric: bool, error: Exception) -> DataError:
    """An error that names the first faulty line: one with a wrong number of cells or, if `numeric`, text."""
    import pyarrow.csv as arrow_csv

    null = {text.lower() for text in arrow_csv.ConvertOptions().null_values}
    written = _dialect(location)
    names = [name.strip() for name in _header(location, written)]
    wanted = [(names.index(name), name) for name in chosen]
    for number, (line, record) in enumerate(_records(location, written)):
        if len(record) != len(names):
            return DataError(
                f"{location.label}, line {line} has {len(record)} cells but the header has {len(names)}. "
                "Correct the line; quote cells that contain the separator."
            )
        for where, name in wanted if numeric and number else ():
            cell = record[where].replace(written.decimal, ".")
            if not _is_number(cell) and record[where].strip().lower() not in null:
                return DataError(
                    f"{location.label}, column {name}, line {line}: {record[where]!r} is not a number. "
                    "Correct it, or exclude the column."
                )
    return DataError(f"{location.label} cannot be read as CSV: {error}.")


def _chosen(
    location: Location, columns: Sequence[str] | None, written: Dialect
) -> tuple[list[str], dict[str, str]]:
    """The columns to read, as they stand in the file and without blanks around their names."""
    as_written = _header(location, written)
    names = [name.strip() for name in as_written]
    chosen = select_columns(names, columns, location.label)
    return chosen, {name: as_written[names.index(name)] for name in chosen}


def _options(written: Dialect) -> tuple[Any, Any]:
    import pyarrow.csv as arrow_csv

    return (
        arrow_csv.ReadOptions(encoding="utf8" if written.encoding == "utf-8" else written.encoding),
        arrow_csv.ParseOptions(delimiter=written.separator, newlines_in_values=True),
    )


def _frame(location: Location, columns: Sequence[str] | None) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    if _is_compressed(location):
        _check_compressed(location)
    written = _dialect(location)
    chosen, stands = _chosen(location, columns, written)
    convert = arrow_csv.ConvertOptions(
        include_columns=list(stands.values()), strings_can_be_null=True, decimal_point=written.decimal
    )
    reading, parsing = _options(written)
    try:
        table = arrow_csv.read_csv(
            location.address, read_options=reading, parse_options=parsing, convert_options=convert
        )
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise _explain(location, chosen, numeric=False, error=error) from None
    return _without_empty_end(to_frame(table.rename_columns(chosen), location.label))


def _without_empty_end(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows up to the last that has a value: spreadsheets write empty rows below a table."""
    if not len(frame) or frame.iloc[-1].notna().any():
        return frame
    there = frame.notna().any(axis=1).to_numpy().nonzero()[0]
    return frame.iloc[: there[-1] + 1 if len(there) else 0]


def _batches(location: Location, columns: Sequence[str] | None, labels: Collection[str]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    written = _dialect(location)
    chosen, stands = _chosen(location, columns, written)
    types = {stands[name]: pa.string() if name in labels else pa.float64() for name in chosen}
    convert = arrow_csv.ConvertOptions(
        include_columns=list(stands.values()),
        column_types=types,
        strings_can_be_null=True,
        decimal_point=written.decimal,
    )
    reading, parsing = _options(written)
    try:
        with arrow_csv.open_csv(
            location.address, read_options=reading, parse_options=parsing, convert_options=convert
        ) as reader:
            for batch in reader:
                yield batch.rename_columns(chosen)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        numbers = [name for name in chosen if name not in labels]
        raise _explain(location, numbers, numeric=True, error=error) from None


READER = Reader("CSV", (".csv", ".csv.gz", ".tsv", ".tsv.gz"), _frame, _batches, locate, notes)
