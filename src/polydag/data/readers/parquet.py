"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from polydag.data.readers.arrow import to_frame
from polydag.data.readers.interface import BATCH_ROWS, Location, Reader, existing_file, select_columns
from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def _open(location: Location) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = existing_file(location)
    try:
        # A buffered read without prefetching bounds memory even if the file is one large row group.
        return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{location.label} is not a readable Parquet file: {error}") from None


def _batches(location: Location, columns: Sequence[str] | None) -> Iterator[Any]:
    import pyarrow as pa

    with _open(location) as file:
        chosen = select_columns(file.schema_arrow.names, columns, location.label)
        try:
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=chosen):
                yield batch.select(chosen)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{location.label} is damaged: {error}") from None


def _frame(location: Location, columns: Sequence[str] | None) -> pd.DataFrame:
    import pyarrow as pa

    with _open(location) as file:
        chosen = select_columns(file.schema_arrow.names, columns, location.label)
        try:
            table = file.read(columns=chosen).select(chosen)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{location.label} is damaged: {error}") from None
    return to_frame(table, location.label)


READER = Reader("Parquet", (".parquet", ".pq"), _frame, _batches)
