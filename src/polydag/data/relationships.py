"""Matrices of relationships between individuals, in the text formats of genetics.

GCTA writes `NAME.grm.gz`: a line for each pair on or below the diagonal, with two numbers of individuals, the
number of markers and the relationship. PLINK writes `NAME.rel` (or `.rel.gz`): the matrix, square or its
lower triangle. Both name the individuals in `NAME.grm.id` or `NAME.rel.id`. Any other file is a table of
three columns: two individuals and their relationship; pairs that are absent have none, and individuals have
1 with themselves unless the table says otherwise.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polydag.arrays import Array, Index
from polydag.data.readers.selection import find_reader
from polydag.errors import DataError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Relationships(NamedTuple):
    """The individuals' names, and the symmetric matrix between them, dense or sparse."""

    names: tuple[str, ...]
    matrix: Any

    def of(self, rows: list[str], source: str) -> Any:
        """The matrix of the given individuals, in their order."""
        place = {name: number for number, name in enumerate(self.names)}
        if missing := [row for row in rows if row not in place]:
            known, named = ", ".join(self.names[:3]), ", ".join(missing[:5])
            raise DataError(
                f"{source} has no relationships of {named}{', …' if len(missing) > 5 else ''}. "
                f"Its individuals are called {known}, …"
            )
        chosen = np.array([place[row] for row in rows])
        return self.matrix[np.ix_(chosen, chosen)]


def read_relationships(path: str | Path) -> Relationships:
    """Read a matrix of relationships.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "family.csv")
    ...     _ = file.write_text("a,b,relationship\\nmother,child,0.5\\n")
    ...     found = read_relationships(file)
    >>> found.names, found.matrix.toarray().tolist()
    (('child', 'mother'), [[1.0, 0.5], [0.5, 1.0]])
    """
    name = str(path)
    stem = name.removesuffix(".gz")
    if stem.endswith(".grm"):
        return _gcta(name, _identifiers(f"{stem}.id"))
    if stem.endswith(".rel"):
        return _plink(name, _identifiers(f"{stem}.id"))
    return _pairs(name)


def _open(name: str) -> IO[str]:
    try:
        return gzip.open(name, "rt") if name.endswith(".gz") else Path(name).open(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{name}: no such file. Check the name and the folder.") from None
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}.") from None


def _identifiers(name: str) -> tuple[str, ...]:
    """The individuals of a `.id` file: the last of one or two columns; a header begins with #."""
    with _open(name) as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    names = tuple(line[min(1, len(line) - 1)] for line in lines)
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise DataError(f"{name}: the individual {twice} occurs twice.")
    return names


def _numbers(name: str) -> list[list[float]]:
    found = []
    try:
        with _open(name) as file:
            for number, line in enumerate(file, start=1):
                try:
                    values = [float(value) for value in line.split()]
                except ValueError:
                    raise DataError(
                        f"{name}, line {number}: {line.strip()[:40]!r} are not numbers."
                    ) from None
                if values:
                    found.append(values)
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError):
        raise DataError(f"{name} is not text, or damaged. Write relationships as text.") from None
    return found


def _gcta(name: str, names: tuple[str, ...]) -> Relationships:
    lines = _numbers(name)
    n = len(names)
    matrix = np.full((n, n), np.nan)
    for number, values in enumerate(lines, start=1):
        if len(values) != 4 or not (1 <= values[0] <= n and 1 <= values[1] <= n):
            raise DataError(
                f"{name}, line {number}: expected two individuals from 1 to {n}, a number of markers and a "
                "relationship."
            )
        i, j = int(values[0]) - 1, int(values[1]) - 1
        matrix[i, j] = matrix[j, i] = values[3]
    if np.isnan(matrix).any():
        i, j = np.argwhere(np.isnan(matrix))[0]
        raise DataError(f"{name} lacks the relationship of {names[i]} and {names[j]}.")
    return Relationships(names, matrix)


def _plink(name: str, names: tuple[str, ...]) -> Relationships:
    lines = _numbers(name)
    n = len(names)
    lengths = [len(values) for values in lines]
    if lengths not in ([n] * n, list(range(1, n + 1))):
        raise DataError(
            f"{name} is neither a square matrix of {n} individuals, as in its .id file, nor its lower "
            f"triangle."
        )
    matrix = np.zeros((n, n))
    for i, values in enumerate(lines):
        matrix[i, : len(values)] = values
    if not np.triu(matrix, 1).any():
        matrix = matrix + np.tril(matrix, -1).T
    return Relationships(names, matrix)


def _pairs(name: str) -> Relationships:
    origin, reader = find_reader(name, None)
    frame = reader.frame(origin, None)
    if frame.shape[1] < 3:
        raise DataError(f"{name}: expected three columns, two individuals and their relationship.")
    values = frame.iloc[:, 2]
    if values.dtype.kind not in "fiu" or values.isna().any():
        raise DataError(f"{name}, column {frame.columns[2]}: relationships must be numbers, without gaps.")
    ends = [[_text(value) for value in frame.iloc[:, side]] for side in (0, 1)]
    names = tuple(sorted({*ends[0], *ends[1]}))
    place = {each: number for number, each in enumerate(names)}
    i, j = (np.array([place[each] for each in side], dtype=np.int64) for side in ends)
    return Relationships(names, _symmetric(i, j, values.to_numpy(dtype=float), names, name))


def _symmetric(i: Index, j: Index, values: Array, names: tuple[str, ...], file: str) -> csr_array:
    from scipy.sparse import csr_array

    known: dict[tuple[int, int], float] = {(k, k): 1.0 for k in range(len(names))}
    seen: set[tuple[int, int]] = set()
    for a, b, value in zip(
        np.minimum(i, j).tolist(), np.maximum(i, j).tolist(), values.tolist(), strict=True
    ):
        if (a, b) in seen and known[a, b] != value:
            raise DataError(f"{file}: {names[a]} and {names[b]} have two different relationships.")
        seen.add((a, b))
        known[a, b] = value
    ends = np.array(list(known), dtype=np.int64)
    entries = np.array(list(known.values()))
    off = ends[:, 0] != ends[:, 1]
    both = np.concatenate([ends, ends[off][:, ::-1]])
    return csr_array((np.concatenate([entries, entries[off]]), both.T), shape=(len(names), len(names)))


def _text(value: Any) -> str:
    """A name, the same whether a file held it as a text or as a number."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
