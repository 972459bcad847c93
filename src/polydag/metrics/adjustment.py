"""Adjustment identification distances: how many causal effects the estimate would get wrong.

For each ordered pair of nodes the estimate names a set of variables to adjust for (or says that there is no
effect, or that it cannot be told), and the truth decides whether that is right.

References
----------
Henckel, L., Würtzen, T. and Weichwald, S. (2024). Adjustment identification distance: a gadjid for causal
structure learning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag import orientation
from polydag._reprs import rounded_repr
from polydag.errors import DataError
from polydag.graph import Graph
from polydag.metrics.matching import aligned


class AdjustmentDistance(NamedTuple):
    """The share of wrong effects among all `d (d - 1)` ordered pairs, and their number."""

    normalized: float
    mistakes: int

    def __repr__(self) -> str:
        return rounded_repr(self)


def parent_aid(*, true: Graph, estimate: Graph) -> AdjustmentDistance:
    """Mistakes when adjusting for the parents in the estimate; between DAGs, the SID.

    Each graph is a DAG or a CPDAG; anything else raises a DataError.
    """
    from gadjid import parent_aid as distance

    return _aid(distance, true, estimate)


def ancestor_aid(*, true: Graph, estimate: Graph) -> AdjustmentDistance:
    """Mistakes when adjusting for the ancestors in the estimate.

    Each graph is a DAG or a CPDAG; anything else raises a DataError.
    """
    from gadjid import ancestor_aid as distance

    return _aid(distance, true, estimate)


def _aid(distance: Callable[..., Any], true: Graph, estimate: Graph) -> AdjustmentDistance:
    codes = [_coded(true, "The true graph"), _coded(aligned(true, estimate), "The estimate")]
    if true.n_nodes < 2:  # no pairs; gadjid would panic
        return AdjustmentDistance(0.0, 0)
    normalized, mistakes = distance(*codes, edge_direction="from row to column")
    return AdjustmentDistance(float(normalized), int(mistakes))


def _coded(graph: Graph, what: str) -> NDArray[np.int8]:
    """1 for `row -> column`, 2 for undirected; gadjid itself does not check that a CPDAG is one."""
    if not graph.is_dag:
        extension = orientation.consistent_extension(graph.adjacency)
        if extension is None or not np.array_equal(orientation.cpdag(extension), graph.adjacency):
            raise DataError(
                f"{what} is neither a DAG nor the CPDAG of one, so it names no adjustment sets. "
                "Use to_dag() or prune_cycles() first."
            )
    undirected = graph.adjacency & graph.adjacency.T
    code = graph.adjacency.astype(np.int8)
    code[undirected] = 2
    return code
