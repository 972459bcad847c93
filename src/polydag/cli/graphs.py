"""Graphs named on the command line: a file in any format, or a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polydag.graph import Graph


def read_graph(path: Path) -> Graph:
    """The graph in a file, or that of a run folder."""
    from polydag import formats, runs
    from polydag.errors import DataError

    if path.is_dir():
        for name in (runs.GRAPH, "truth.json"):
            if (path / name).is_file():
                return formats.read(path / name)
        raise DataError(f"{path} is not a run folder: there is no {runs.GRAPH} in it.")
    return formats.read(path)
