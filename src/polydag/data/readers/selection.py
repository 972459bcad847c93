"""Choose the reader of a file or database. A new format is a module with a `READER`, listed in `READERS`."""

from __future__ import annotations

import os

from polydag.data.readers import arrow, csv, parquet, sql
from polydag.data.readers.interface import Location, Reader
from polydag.errors import DataError, UsageError

READERS = (csv.READER, parquet.READER, arrow.READER)


def find_reader(source: str | os.PathLike[str], query: str | None) -> tuple[Location, Reader]:
    """The location and its reader: SQL for an address with `://`, otherwise by the file's suffix."""
    address = os.fspath(source)
    if "://" in address:
        return Location(address, query, sql.label(address)), sql.READER
    if query is not None:
        raise UsageError(f"A query needs a database address such as sqlite:///file.db; {address} is none.")
    for reader in READERS:
        if address.lower().endswith(reader.suffixes):
            return Location(address, None, address), reader
    known = ", ".join(suffix for reader in READERS for suffix in reader.suffixes)
    raise DataError(
        f"{address}: unknown file format. polydag reads {known}, and databases at addresses such as "
        "sqlite:///file.db or postgresql://host/database with a query."
    )
