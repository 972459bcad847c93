"""Arrow files (IPC file and stream formats; Feather is the file format) and Arrow tables as DataFrames."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydag.data.readers._arrow_validation import batches, open_reader
from polydag.data.readers.interface import (
    Location,
    Reader,
    existing_file,
    reporting_damage,
    select_columns,
)
from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def to_frame(table: Any, label: str) -> pd.DataFrame:
    """Convert an Arrow table to a DataFrame; binary and nested columns raise `DataError`."""
    import pyarrow as pa

    for field in table.schema:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            raise DataError(f"{label}, column {field.name} is not valid text. Save the file as UTF-8.")
        if pa.types.is_nested(field.type):
            raise DataError(
                f"{label}, column {field.name} holds {field.type}. Each cell must be one number or one label."
            )
    with reporting_damage(label):
        return table.to_pandas()  # type: ignore[no-any-return]


def _validate(location: Location) -> None:
    """Raise `DataError` for a damaged file. A process of its own reads it: some damage would end this one."""
    path = existing_file(location)
    program = Path(__file__).with_name("_arrow_validation.py")
    done = subprocess.run([sys.executable, "-I", str(program), str(path.absolute())], capture_output=True)
    if done.returncode == 0:
        return
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    reason = last.partition(": ")[2] if done.returncode == 1 else "its contents end the program that reads it"
    raise DataError(f"{location.label} is damaged, or not an Arrow file: {reason.rstrip('.')}.")


def _batches(location: Location, columns: Sequence[str] | None, labels: Collection[str]) -> Iterator[Any]:
    _validate(location)
    with reporting_damage(location.label):
        reader = open_reader(location.address)
        chosen = select_columns(reader.schema.names, columns, location.label)
        for batch in batches(reader):
            yield batch.select(chosen)


def _frame(location: Location, columns: Sequence[str] | None) -> pd.DataFrame:
    import pyarrow as pa

    _validate(location)
    with reporting_damage(location.label):
        reader = open_reader(location.address)
        chosen = select_columns(reader.schema.names, columns, location.label)
        schema = pa.schema([reader.schema.field(name) for name in chosen], reader.schema.metadata)
        table = pa.Table.from_batches((batch.select(chosen) for batch in batches(reader)), schema=schema)
    return to_frame(table, location.label)


READER = Reader("Arrow", (".arrow", ".feather", ".ipc"), _frame, _batches)
