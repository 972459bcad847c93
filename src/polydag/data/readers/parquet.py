"""Parquet files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from polydag.data.readers.arrow import to_frame
from polydag.data.readers.interface import (
    BATCH_ROWS,
    Location,
    Reader,
    existing_file,
    reporting_damage,
    select_columns,
)

if TYPE_CHECKING:
    import pandas as pd


def _open(location: Location) -> Any:
    import pyarrow.parquet as pq

    # A buffered read without prefetching bounds memory even if the file is one large row group.
    return pq.ParquetFile(existing_file(location), buffer_size=1 << 20, pre_buffer=False)


def _batches(location: Location, columns: Sequence[str] | None, labels: Collection[str]) -> Iterator[Any]:
    with reporting_damage(location.label), _open(location) as file:
        chosen = select_columns(file.schema_arrow.names, columns, location.label)
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=chosen):
            batch.validate(full=True)
            yield batch.select(chosen)


def _frame(location: Location, columns: Sequence[str] | None) -> pd.DataFrame:
    with reporting_damage(location.label), _open(location) as file:
        chosen = select_columns(file.schema_arrow.names, columns, location.label)
        table = file.read(columns=chosen).select(chosen)
        table.validate(full=True)
    return to_frame(table, location.label)


READER = Reader("Parquet", (".parquet", ".pq"), _frame, _batches)
