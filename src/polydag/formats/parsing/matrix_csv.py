"""Integer matrices with named rows and columns as CSV, for the matrix formats."""

from __future__ import annotations

import csv
import io

import numpy as np
from numpy.typing import ArrayLike

from polydag.arrays import Index
from polydag.errors import DataError
from polydag.formats.parsing.csv_text import csv_text
from polydag.formats.parsing.graph_from_edges import shortened


def matrix_from_text(text: str) -> tuple[Index, list[str]]:
    """Parse a matrix and its names; the first line names the columns, the first cell of a line its row."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[int]] = []
    try:
        names = next(reader, [""])[1:]
        for row in reader:
            place = f"line {reader.line_num}"
            if len(row) != len(names) + 1:
                raise DataError(f"{place}: expected {len(names) + 1} cells, found {len(row)}.")
            if len(rows) == len(names) or row[0] != names[len(rows)]:
                raise DataError(
                    f"{place}: rows must have the names of the columns, in the same order; got {row[0]!r}."
                )
            rows.append([_entry(cell, place) for cell in row[1:]])
    except csv.Error as error:
        raise DataError(f"line {reader.line_num}: not valid CSV ({error}).") from error
    if len(rows) != len(names):
        raise DataError(f"The matrix must be square; it has {len(rows)} rows and {len(names)} columns.")
    return np.array(rows, dtype=np.int64).reshape(len(names), len(names)), names


def _entry(cell: str, place: str) -> int:
    try:
        if len(cell) < 19:  # longer numbers need not fit into 64 bits
            return int(cell)
    except ValueError:
        pass
    raise DataError(f"{place}: entries must be small whole numbers; got {shortened(cell)}.")


def matrix_to_text(matrix: Index, names: tuple[str, ...]) -> str:
    """The matrix as CSV; in R, `as.matrix(read.csv(file, row.names = 1, check.names = FALSE))` reads it."""
    return csv_text([["", *names], *([name, *row] for name, row in zip(names, matrix.tolist(), strict=True))])


def square(matrix: ArrayLike, allowed: tuple[int, ...], what: str) -> Index:
    """Check that a matrix is square and has only allowed entries."""
    values = np.asarray(matrix)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise DataError(f"A {what} matrix must be square; this one has shape {values.shape}.")
    if not np.isin(values, allowed).all():
        i, j = np.argwhere(~np.isin(values, allowed))[0]
        raise DataError(
            f"Entry [{i}, {j}] of the {what} matrix is {values[i, j]}; allowed values are {allowed}."
        )
    return values.astype(np.int64)
