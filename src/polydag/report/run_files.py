"""The files of a run folder, as texts by name, with small readers that accept what is missing."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polydag.errors import DataError

GRAPH, TRUTH, CONFIG, RESULT, LOG = "graph.json", "truth.json", "config.toml", "result.json", "run.log"
NAIVE = "naive.json"  # of linked rows: the graph that ignores the links
_READ = {".json", ".csv", ".toml", ".log"}

Row = dict[str, str]


@dataclass(frozen=True)
class RunFiles:
    """A run: the name that it is shown by, and its files.

    Attributes
    ----------
    name : str
        What the run is called in the report.
    texts : mapping of file name to text
        The files of the run folder, or of the part of it that exists.
    partial : str
        Why there is no complete result, where there is none; empty otherwise.
    """

    name: str
    texts: Mapping[str, str]
    partial: str = ""

    def document(self, name: str) -> Any:
        """The content of a JSON file; None if it is missing or damaged."""
        try:
            return json.loads(self.texts[name])
        except (KeyError, ValueError):
            return None

    def rows(self, name: str) -> list[Row]:
        """The rows of a CSV file, none if it is missing."""
        return list(csv.DictReader(io.StringIO(self.texts.get(name, ""), newline="")))

    @property
    def study(self) -> dict[str, Any]:
        """The configuration; empty if it is missing."""
        try:
            study = tomllib.loads(self.texts.get(CONFIG, "")).get("study", {})
        except tomllib.TOMLDecodeError:
            return {}
        return study if isinstance(study, dict) else {}


def read_folder(path: str | os.PathLike[str]) -> RunFiles:
    """Read a run folder; of a run that goes on or was interrupted, what there is in `<path>.partial`."""
    folder = Path(path)
    unfinished = folder if folder.suffix == ".partial" else folder.parent / f"{folder.name}.partial"
    if (folder / GRAPH).is_file():
        return RunFiles(str(folder), _texts(folder))
    if unfinished.is_dir():
        name = str(unfinished)[: -len(".partial")]
        why = "This run is in progress or was interrupted: there is no graph yet."
        return RunFiles(name, _texts(unfinished), partial=why)
    if not folder.exists():
        raise DataError(f"There is no run folder {folder}.")
    raise DataError(
        f"{folder} is not a run folder: there is no {GRAPH} in it. Name one that polydag fit has written."
    )


def _texts(folder: Path) -> dict[str, str]:
    found = {}
    for file in sorted(folder.iterdir()):
        if file.suffix in _READ and file.is_file():
            try:
                found[file.name] = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise DataError(f"{file} cannot be read: {error}.") from None
    return found


def number(text: object) -> float | None:
    """A finite number, or None for what is empty or is none."""
    try:
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None
