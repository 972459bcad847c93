"""Arrow files (IPC file and stream formats; Feather is the file format) and Arrow tables as DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from polydag.data.readers.interface import Location, Reader, existing_file, select_columns
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
    return table.to_pandas()  # type: ignore[no-any-return]


def _open(location: Location) -> Any:
    import pyarrow as pa

    mapped = pa.memory_map(str(existing_file(location)))
    try:
        return pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
    try:
        return pa.ipc.open_stream(mapped)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{location.label} is not a readable Arrow file: {error}.") from None


def _batches(location: Location, columns: Sequence[str] | None) -> Iterator[Any]:
    import pyarrow as pa

    reader = _open(location)
    chosen = select_columns(reader.schema.names, columns, location.label)
    try:
        if hasattr(reader, "num_record_batches"):
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i).select(chosen)
        else:
            for batch in reader:
                yield batch.select(chosen)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{location.label} is damaged: {error}.") from None


def _frame(location: Location, columns: Sequence[str] | None) -> pd.DataFrame:
    import pyarrow as pa

    schema = _open(location).schema
    chosen = select_columns(schema.names, columns, location.label)
    schema = pa.schema([schema.field(name) for name in chosen])
    return to_frame(pa.Table.from_batches(_batches(location, chosen), schema=schema), location.label)


READER = Reader("Arrow", (".arrow", ".feather", ".ipc"), _frame, _batches)
