"""Comma- or tab-separated text, plain or gzipped: UTF-8, one line of column names, a missing cell empty.

Arrow reads it; when Arrow complains, a second slow look with the standard library finds the line to blame.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from polydag.data.arrow import to_frame
from polydag.data.formats import Format, Source, choose, existing_file
from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def _separator(source: Source) -> str:
    return "\t" if source.address.lower().removesuffix(".gz").endswith(".tsv") else ","


def _records(source: Source) -> Iterator[tuple[int, list[str]]]:
    """The line number at which each record ends, and its cells; blank lines are skipped as Arrow does."""
    path = existing_file(source)
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.reader(file, delimiter=_separator(source))
            for record in reader:
                if record:
                    yield reader.line_num, record
    except (OSError, EOFError) as error:
        raise DataError(f"{source.label} cannot be unpacked: {error}.") from None
    except csv.Error as error:
        raise DataError(f"{source.label}, line {reader.line_num}: {error}.") from None


def _header(source: Source) -> list[str]:
    first = next(_records(source), None)
    if first is None:
        raise DataError(f"{source.label} is empty. A table has a line of column names and at least 2 rows.")
    names = first[1]
    if len(names) == 1 and any(mark in names[0] for mark in ";\t,"):
        raise DataError(
            f"{source.label}, line 1: cells seem to be separated by another sign: {names[0][:60]!r}. "
            "Use commas in .csv and tabs in .tsv files."
        )
    if all(map(_is_number, names)) and not all(name.strip().isdigit() for name in names):
        raise DataError(
            f"{source.label}, line 1 holds numbers ({', '.join(names[:3])}), not column names. "
            "Add a first line with the names of the columns."
        )
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def place(source: Source, row: int) -> str:
    """The line of a row (counted from 0 after the header)."""
    for number, (line, _) in enumerate(_records(source)):
        if number == row + 1:
            return f"line {line}"
    return f"row {row + 1}"


def _blame(source: Source, chosen: Sequence[str], *, numeric: bool, error: Exception) -> DataError:
    """The error that names the first line which is ragged or, where only numbers will do, has text."""
    import pyarrow.csv as arrow_csv

    null = {text.lower() for text in arrow_csv.ConvertOptions().null_values}
    names = _header(source)
    wanted = [(names.index(name), name) for name in chosen]
    for number, (line, record) in enumerate(_records(source)):
        if len(record) != len(names):
            return DataError(
                f"{source.label}, line {line}: {len(record)} cells where the header has {len(names)}. "
                "Correct the line; a cell that contains the separator must be quoted."
            )
        for where, name in wanted if numeric and number else ():
            if not _is_number(record[where]) and record[where].strip().lower() not in null:
                return DataError(
                    f"{source.label}, column {name}, line {line}: {record[where]!r} is not a number. "
                    "Correct it, or leave the column out."
                )
    return DataError(f"{source.label} cannot be read as CSV: {error}.")


def _options(source: Source) -> Any:
    import pyarrow.csv as arrow_csv

    return arrow_csv.ParseOptions(delimiter=_separator(source), newlines_in_values=True)


def _frame(source: Source, columns: Sequence[str] | None) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    chosen = choose(_header(source), columns, source.label)
    convert = arrow_csv.ConvertOptions(include_columns=chosen, strings_can_be_null=True)
    try:
        table = arrow_csv.read_csv(source.address, parse_options=_options(source), convert_options=convert)
    except (pa.ArrowException, OSError) as error:
        raise _blame(source, chosen, numeric=False, error=error) from None
    return to_frame(table, source.label)


def _batches(source: Source, columns: Sequence[str] | None) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    chosen = choose(_header(source), columns, source.label)
    convert = arrow_csv.ConvertOptions(
        include_columns=chosen, column_types=dict.fromkeys(chosen, pa.float64())
    )
    try:
        with arrow_csv.open_csv(
            source.address, parse_options=_options(source), convert_options=convert
        ) as reader:
            yield from reader
    except (pa.ArrowException, OSError) as error:
        raise _blame(source, chosen, numeric=True, error=error) from None


FORMAT = Format("CSV", (".csv", ".csv.gz", ".tsv", ".tsv.gz"), _frame, _batches, place)
