"""Graphs in and out of files: one module per format, found by the file's ending.

A format is a module with `from_text(text) -> Graph` and `to_text(graph) -> str`, and one line in `FORMATS`.
Errors name the file and the line. A file that ends in `.gz` as well is unpacked on reading. Writing is
atomic: the old file stays until the new one is complete. `polydag.formats.nx` converts to and from networkx;
`read_network` and `write` carry whole discrete networks.

========================  ==============  ======================  =============  ==========
ending                    format          undirected edges        weights        node order
========================  ==============  ======================  =============  ==========
`.json`                   JSON            yes                     exact          kept
`.csv`                    edge list       yes                     exact          kept
`.dot`, `.gv`             Graphviz        yes (`dir=none`)        exact          kept
`.graphml`                GraphML         yes                     exact          kept
`.dagitty`                DAGitty         yes (`pdag`)            exact (beta)   kept
`.bif`                    BIF             no (DAGs with tables)   no             kept
`.pcalg.csv`              pcalg matrix    yes                     no             kept
`.causallearn.csv`        causal-learn    yes                     no             kept
========================  ==============  ======================  =============  ==========
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from polydag.discrete_network import DiscreteNetwork
from polydag.errors import DataError, UsageError
from polydag.formats._files import read_text, write_text
from polydag.graph import Graph

__all__ = ["FORMATS", "read", "read_network", "write"]

T = TypeVar("T")

# Ending to module; the first that fits is taken, so longer endings come first.
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


def _module(name: str, path: Path) -> ModuleType:
    for ending, module in FORMATS.items():
        if name.lower().endswith(ending):
            return importlib.import_module(f"polydag.formats.{module}")
    raise UsageError(f"{path}: no graph format is known by this ending. Use one of {', '.join(FORMATS)}.")


def read(path: str | Path) -> Graph:
    """Read a graph; the file's ending says the format.

    Parameters
    ----------
    path : str or Path
        A file with one of the endings in `FORMATS`, possibly followed by `.gz`.

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
    module = _module(path.name.removesuffix(".gz"), path)
    graph: Graph = _parsed(path, module.from_text)
    return graph


def read_network(path: str | Path) -> DiscreteNetwork:
    """Read a discrete network with its tables from a BIF file (`.bif`, `.bif.gz`)."""
    from polydag.formats import bif

    return _parsed(Path(path), bif.network_from_text)


def _parsed(path: Path, parse: Callable[[str], T]) -> T:
    text = read_text(path)
    try:
        return parse(text)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def write(graph: Graph | DiscreteNetwork, path: str | Path) -> None:
    """Write a graph; the file's ending says the format. An existing file is replaced.

    A `DiscreteNetwork` is written with its tables to `.bif`, and as its graph to any other format.
    """
    path = Path(path)
    module = _module(path.name, path)
    if isinstance(graph, DiscreteNetwork) and module.__name__ != "polydag.formats.bif":
        graph = graph.graph
    write_text(path, module.to_text(graph))
