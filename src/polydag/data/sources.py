"""Which format a source is in. A new format is one module with a `FORMAT`, and its name in `FORMATS`."""

from __future__ import annotations

import os

from polydag.data import arrow, csv, parquet, sql
from polydag.data.formats import Format, Source
from polydag.errors import DataError, UsageError

FORMATS = (csv.FORMAT, parquet.FORMAT, arrow.FORMAT)


def find(source: str | os.PathLike[str], query: str | None) -> tuple[Source, Format]:
    """The source with its name for messages, and its format: by suffix, or SQL for an address with ://."""
    address = os.fspath(source)
    if "://" in address:
        return Source(address, query, sql.label(address)), sql.FORMAT
    if query is not None:
        raise UsageError(
            f"A query goes with a database address such as sqlite:///file.db, not with {address}."
        )
    for candidate in FORMATS:
        if address.lower().endswith(candidate.suffixes):
            return Source(address, None, address), candidate
    known = ", ".join(suffix for candidate in FORMATS for suffix in candidate.suffixes)
    raise DataError(
        f"{address}: the format is not known by this file name. Known are {known}, and database addresses "
        "such as sqlite:///file.db or postgresql://host/database with a query."
    )
