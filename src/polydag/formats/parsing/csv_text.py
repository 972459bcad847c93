"""Rows as CSV that reads back as written, whatever the cells hold."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from polydag.errors import DataError


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV, with exact numbers and empty cells for None; `DataError` for a cell that no reader takes.

    Examples
    --------
    >>> csv_text([["a", 0.1], ["two\\rlines", None]])
    'a,0.1\\n"two\\rlines",""\\n'
    """
    out = io.StringIO(newline="")
    plain = csv.writer(out, lineterminator="\n")
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in map(list, rows):
        texts = [cell for cell in row if isinstance(cell, str)]
        if any(len(text) > csv.field_size_limit() for text in texts):
            raise DataError(
                f"A name has more than {csv.field_size_limit()} characters: it does not fit in CSV."
            )
        # Python 3.11 leaves a carriage return unquoted, and then reads it as the end of the line.
        (quoted if any("\r" in text for text in texts) else plain).writerow(row)
    return out.getvalue()
