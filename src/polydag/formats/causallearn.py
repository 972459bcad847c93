"""causal-learn's endpoint matrix: an entry is the edge mark at the row's node.

`M[j, i] = 1` (arrowhead at j) with `M[i, j] = -1` (tail at i) is `i -> j`; both -1 is undirected
(causal-learn's documentation of `pc`). The format preserves names, their order and undirected edges. Weights
are lost: all are 1 on reading.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from polydag.arrays import Index
from polydag.errors import DataError
from polydag.formats.parsing.matrix_csv import matrix_from_text, matrix_to_text, square
from polydag.graph import Graph


def to_causallearn(graph: Graph) -> Index:
    """The matrix of endpoint marks, as in `GeneralGraph.graph`.

    Examples
    --------
    >>> from polydag import Graph
    >>> to_causallearn(Graph.from_edges(["a", "b"], [("a", "b")])).tolist()
    [[0, -1], [1, 0]]
    """
    A = graph.adjacency
    return (A & ~A.T).T.astype(int) - A


def from_causallearn(matrix: ArrayLike, names: Iterable[object] | None = None) -> Graph:
    """The graph of a matrix of endpoint marks; bidirected edges raise `DataError`."""
    marks = square(matrix, (-1, 0, 1), "causal-learn")
    labels = Graph(np.zeros(marks.shape), names).names
    for wrong, why in (
        ((marks == 1) & (marks.T == 1), "is bidirected; polydag has no latent common causes"),
        ((marks != 0) & (marks.T == 0), "has a mark at only one end"),
    ):
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise DataError(f"The edge between {labels[i]} and {labels[j]} {why}.")
    return Graph(marks == -1, labels)


def from_text(text: str) -> Graph:
    """Parse a CSV of the matrix, with row and column names."""
    return from_causallearn(*matrix_from_text(text))


def to_text(graph: Graph) -> str:
    """The matrix as CSV, with row and column names."""
    return matrix_to_text(to_causallearn(graph), graph.names)
