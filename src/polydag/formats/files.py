"""Read and write graph files; the suffix determines the format."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from polydag.discrete_network import DiscreteNetwork
from polydag.errors import DataError, UsageError
from polydag.formats.parsing.text_files import read_text, write_text
from polydag.graph import Graph

T = TypeVar("T")

# Suffix to module. The first match is used, so longer suffixes come first.
FORMATS = {
    ".causallearn.csv": "causallearn",
    ".pcalg.csv": "pcalg",
    ".bif": "bif",
    ".csv": "edgelist",
    ".dagitty": "dagitty",
    ".dot": "dot",
    ".graphml": "graphml",
    ".gv": "dot",
    ".json": "graphjson",
}


def _format_module(name: str, path: Path) -> ModuleType:
    for suffix, module in FORMATS.items():
        if name.lower().endswith(suffix):
            return importlib.import_module(f"polydag.formats.{module}")
    raise UsageError(f"{path}: unknown graph format. Use one of the suffixes {', '.join(FORMATS)}.")


def read(path: str | Path) -> Graph:
    """Read a graph; the file's suffix determines the format.

    Parameters
    ----------
    path : str or Path
        A file with one of the suffixes in `FORMATS`, optionally followed by `.gz`.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> write(Graph.from_edges(["a", "b"], [("a", "b", 0.5)]), folder.name + "/graph.csv")
    >>> read(folder.name + "/graph.csv").edges()
    [Edge(source='a', target='b', weight=0.5, directed=True)]
    >>> folder.cleanup()
    """
    path = Path(path)
    module = _format_module(path.name.removesuffix(".gz"), path)
    graph: Graph = _parse(path, module.from_text)
    return graph


def read_network(path: str | Path) -> DiscreteNetwork:
    """Read a discrete network with its tables from a BIF file (`.bif`, `.bif.gz`)."""
    from polydag.formats import bif

    return _parse(Path(path), bif.network_from_text)


def _parse(path: Path, parse: Callable[[str], T]) -> T:
    text = read_text(path)
    try:
        return parse(text)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def write(graph: Graph | DiscreteNetwork, path: str | Path) -> None:
    """Write a graph; the file's suffix determines the format. An existing file is replaced.

    A `DiscreteNetwork` is written with its tables to `.bif`; other formats hold only its graph.
    """
    path = Path(path)
    module = _format_module(path.name, path)
    if isinstance(graph, DiscreteNetwork) and module.__name__ != "polydag.formats.bif":
        graph = graph.graph
    write_text(path, module.to_text(graph))
