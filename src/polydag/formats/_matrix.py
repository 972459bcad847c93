"""Integer matrices with named rows and columns as CSV, for the formats that are matrices."""

from __future__ import annotations

import csv
import io

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydag.errors import DataError

IntMatrix = NDArray[np.int64]


def matrix_from_text(text: str) -> tuple[IntMatrix, list[str]]:
    """The matrix and its names; the first line names the columns, the first cell of each line the row."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[int]] = []
    try:
        names = next(reader, [""])[1:]
        for row in reader:
            place = f"line {reader.line_num}"
            if len(row) != len(names) + 1:
                raise DataError(f"{place}: {len(row)} cells where {len(names) + 1} are expected.")
            if len(rows) == len(names) or row[0] != names[len(rows)]:
                raise DataError(
                    f"{place}: rows must be named like the columns, in their order; got {row[0]!r}."
                )
            try:
                rows.append([int(cell) for cell in row[1:]])
            except ValueError as error:
                raise DataError(f"{place}: entries must be whole numbers ({error}).") from error
    except csv.Error as error:
        raise DataError(f"line {reader.line_num}: not CSV ({error}).") from error
    if len(rows) != len(names):
        raise DataError(f"{len(rows)} rows for {len(names)} columns.")
    return np.array(rows, dtype=np.int64).reshape(len(names), len(names)), names


def matrix_to_text(matrix: IntMatrix, names: tuple[str, ...]) -> str:
    """The matrix as CSV: in R, `as.matrix(read.csv(file, row.names = 1, check.names = FALSE))`."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["", *names])
    writer.writerows([name, *row] for name, row in zip(names, matrix.tolist(), strict=True))
    return out.getvalue()


def square(matrix: ArrayLike, allowed: tuple[int, ...], what: str) -> IntMatrix:
    """A square matrix of some allowed whole numbers."""
    values = np.asarray(matrix)
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise DataError(f"A {what} matrix must be square; this one has the shape {values.shape}.")
    if not np.isin(values, allowed).all():
        i, j = np.argwhere(~np.isin(values, allowed))[0]
        raise DataError(f"Entry [{i}, {j}] of the {what} matrix is {values[i, j]}; allowed are {allowed}.")
    return values.astype(np.int64)
