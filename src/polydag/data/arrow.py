"""Arrow files (the IPC file and stream formats; Feather is the former), and Arrow tables as frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from polydag.data.formats import Format, Source, choose, existing_file
from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def to_frame(table: Any, label: str) -> pd.DataFrame:
    """An Arrow table as a frame; what no learner could use raises."""
    import pyarrow as pa

    for field in table.schema:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            raise DataError(f"{label}, column {field.name}: bytes that are not text. Save the file as UTF-8.")
        if pa.types.is_nested(field.type):
            raise DataError(
                f"{label}, column {field.name} holds {field.type}. A cell must be one number or one label."
            )
    return table.to_pandas()  # type: ignore[no-any-return]


def _open(source: Source) -> Any:
    import pyarrow as pa

    mapped = pa.memory_map(str(existing_file(source)))
    try:
        return pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
    try:
        return pa.ipc.open_stream(mapped)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{source.label} is not a readable Arrow file: {error}.") from None


def _batches(source: Source, columns: Sequence[str] | None) -> Iterator[Any]:
    import pyarrow as pa

    reader = _open(source)
    chosen = choose(reader.schema.names, columns, source.label)
    try:
        if hasattr(reader, "num_record_batches"):
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i).select(chosen)
        else:
            for batch in reader:
                yield batch.select(chosen)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{source.label} is damaged: {error}.") from None


def _frame(source: Source, columns: Sequence[str] | None) -> pd.DataFrame:
    import pyarrow as pa

    schema = _open(source).schema
    chosen = choose(schema.names, columns, source.label)
    schema = pa.schema([schema.field(name) for name in chosen])
    return to_frame(pa.Table.from_batches(_batches(source, chosen), schema=schema), source.label)


FORMAT = Format("Arrow", (".arrow", ".feather", ".ipc"), _frame, _batches)
