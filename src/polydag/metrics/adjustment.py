"""Adjustment identification distances: how many causal effects the estimate would get wrong.

For each ordered pair of nodes, the estimate implies an adjustment set (or that there is no effect, or that
the effect is not identified). The true graph decides whether that is correct.

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
from polydag.errors import DataError
from polydag.graph import Graph
from polydag.metrics.node_matching import aligned
from polydag.printing import rounded_repr


class AdjustmentDistance(NamedTuple):
    """The proportion of wrong effects among all `d (d - 1)` ordered pairs, and their number."""

    normalized: float
    mistakes: int

    def __repr__(self) -> str:
        return rounded_repr(self)


def parent_aid(*, true: Graph, estimate: Graph) -> AdjustmentDistance:
    """Mistakes when adjusting for the parents in the estimate; for two DAGs this is the SID.

    Both graphs must be DAGs or CPDAGs; others raise `DataError`.
    """
    from gadjid import parent_aid as distance

    return _aid(distance, true, estimate)


def ancestor_aid(*, true: Graph, estimate: Graph) -> AdjustmentDistance:
    """Mistakes when adjusting for the ancestors in the estimate.

    Both graphs must be DAGs or CPDAGs; others raise `DataError`.
    """
    from gadjid import ancestor_aid as distance

    return _aid(distance, true, estimate)


def _aid(distance: Callable[..., Any], true: Graph, estimate: Graph) -> AdjustmentDistance:
    codes = [_encode(true, "The true graph"), _encode(aligned(true, estimate), "The estimate")]
    if true.n_nodes < 2:  # no pairs; gadjid would panic
        return AdjustmentDistance(0.0, 0)
    normalized, mistakes = distance(*codes, edge_direction="from row to column")
    return AdjustmentDistance(float(normalized), int(mistakes))


def _encode(graph: Graph, what: str) -> NDArray[np.int8]:
    """Encode `row -> column` as 1 and undirected edges as 2; gadjid does not check that a CPDAG is valid."""
    if not graph.is_dag:
        extension = orientation.consistent_extension(graph.adjacency)
        if extension is None or not np.array_equal(orientation.cpdag(extension), graph.adjacency):
            raise DataError(
                f"{what} is neither a DAG nor a CPDAG, so it implies no adjustment sets. "
                "Use to_dag() or prune_cycles() first."
            )
    undirected = graph.adjacency & graph.adjacency.T
    code = graph.adjacency.astype(np.int8)
    code[undirected] = 2
    return code
