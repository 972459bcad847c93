"""pcalg's `amat.cpdag`: entries are [to, from], the transpose of polydag's.

`amat[a, b] = 0` and `amat[b, a] = 1` is `a -> b`; both 1 is undirected (R documentation of `amatType`).
The format preserves names, their order and undirected edges. Weights are lost: all are 1 on reading.
"""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from polydag.arrays import Index
from polydag.formats.parsing.matrix_csv import matrix_from_text, matrix_to_text, square
from polydag.graph import Graph


def to_pcalg(graph: Graph) -> Index:
    """The matrix `amat[to, from]` of 0 and 1.

    Examples
    --------
    >>> from polydag import Graph
    >>> to_pcalg(Graph.from_edges(["a", "b"], [("a", "b")])).tolist()
    [[0, 0], [1, 0]]
    """
    return graph.adjacency.T.astype(int)


def from_pcalg(amat: ArrayLike, names: Iterable[object] | None = None) -> Graph:
    """The graph of a matrix `amat[to, from]`."""
    return Graph(square(amat, (0, 1), "pcalg").T, names)


def from_text(text: str) -> Graph:
    """Parse a CSV of the matrix, with row and column names."""
    return from_pcalg(*matrix_from_text(text))


def to_text(graph: Graph) -> str:
    """The matrix as CSV, with row and column names."""
    return matrix_to_text(to_pcalg(graph), graph.names)
