"""What a study reads, with fingerprints (SHA-256) by which a repetition notices other data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydag.errors import DataError
from polydag.studies.data.addresses import is_database

if TYPE_CHECKING:
    import pandas as pd

    from polydag.data import Table
    from polydag.knowledge import Knowledge
    from polydag.stats import GaussianStats
    from polydag.studies.config.shapes import Config

LARGE_BYTES = 2**30  # files beyond this are not held in memory: only their statistics are


@dataclass(frozen=True, eq=False)
class Inputs:
    """All that a study has read.

    Attributes
    ----------
    tables : mapping of name to Table or GaussianStats
        One table, or one for each party or task; of large files, only the statistics.
    links : mapping of name to mapping
        For linked rows: how those of each table are linked, as arguments of `LinkedRows`.
    source : str
        What errors about "the data" should name; "" where tables are named one by one.
    knowledge : Knowledge, optional
        Background knowledge.
    sha256 : mapping of source to digest
        What was read.
    notes : tuple of str
        What a reader of the result should know about the data.
    """

    tables: Mapping[str, Table | GaussianStats]
    source: str
    knowledge: Knowledge | None
    sha256: Mapping[str, str]
    notes: tuple[str, ...] = ()
    links: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def n(self) -> float:
        """The number of rows in all."""
        return float(sum(table.n for table in self.tables.values()))


def require_same(found: Mapping[str, str], expected: Mapping[str, str], where: str) -> None:
    """Raise where something that was read before has other contents now; `where` recorded the old ones."""
    for name, before in expected.items():
        now = found.get(name, before)
        if now != before:
            rows = " (of the query's rows in their order: add ORDER BY)" if is_database(name) else ""
            raise DataError(
                f"{name} has changed: {where} records the SHA-256 {before[:12]}…, "
                f"now it is {now[:12]}…{rows}. "
                "Restore the old data; or name the data on the command line to use it as it is now."
            )


def file_sha256(path: str) -> str:
    """The SHA-256 of a file."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def frame_sha256(frame: pd.DataFrame) -> str:
    """The SHA-256 of a table's column names and rows, in their order."""
    import pandas as pd

    digest = hashlib.sha256(repr(list(frame.columns)).encode())
    digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return digest.hexdigest()


def is_large(config: Config, sources: tuple[str, ...]) -> bool:
    """Whether files are too large to hold, and nothing asks for their rows."""
    if config.missing != "error" or config.na or config.transforms or config.discretize:
        return False
    if config.recode or config.rescale:
        return False
    files = [Path(source) for source in sources if not is_database(source)]
    return sum(file.stat().st_size for file in files if file.is_file()) > LARGE_BYTES


def read_knowledge(config: Config, sha256: dict[str, str]) -> Knowledge | None:
    """The background knowledge of a study; its fingerprint is added to `sha256`."""
    from polydag import data

    if config.knowledge is None:
        return None
    sha256[config.knowledge] = file_sha256(config.knowledge)
    return data.read_knowledge(config.knowledge)


def require_known(knowledge: Knowledge | None, names: tuple[str, ...], path: str | None) -> None:
    """Raise, naming the file, where knowledge is about a variable that the data does not have."""
    if knowledge is None:
        return
    try:
        knowledge.masks(names)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
