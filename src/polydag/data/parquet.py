"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from polydag.data.arrow import to_frame
from polydag.data.formats import BATCH_ROWS, Format, Source, choose, existing_file
from polydag.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def _open(source: Source) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = existing_file(source)
    try:
        # A buffered, unprefetched read keeps memory bounded even when the file is one large row group.
        return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{source.label} is not a readable Parquet file: {error}") from None


def _batches(source: Source, columns: Sequence[str] | None) -> Iterator[Any]:
    import pyarrow as pa

    with _open(source) as file:
        chosen = choose(file.schema_arrow.names, columns, source.label)
        try:
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=chosen):
                yield batch.select(chosen)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{source.label} is damaged: {error}") from None


def _frame(source: Source, columns: Sequence[str] | None) -> pd.DataFrame:
    import pyarrow as pa

    with _open(source) as file:
        chosen = choose(file.schema_arrow.names, columns, source.label)
        try:
            table = file.read(columns=chosen).select(chosen)
        except (pa.ArrowException, OSError) as error:
            raise DataError(f"{source.label} is damaged: {error}") from None
    return to_frame(table, source.label)


FORMAT = Format("Parquet", (".parquet", ".pq"), _frame, _batches)
