"""Putting the estimate's nodes into the order of the truth's, by name."""

from __future__ import annotations

from collections.abc import Sequence

from polydag.errors import DataError, UsageError
from polydag.graph import Graph


def require_same_names(true: Sequence[str], other: Sequence[str], what: str) -> None:
    """Raise with the names that only one of the two has."""
    ours, theirs = set(true), set(other)
    lost = [name for name in true if name not in theirs]
    extra = [name for name in other if name not in ours]
    if lost or extra:
        told = [f"{what} lacks {', '.join(lost)}"] if lost else []
        told += [f"the true graph lacks {', '.join(extra)}"] if extra else []
        raise DataError(
            f"{what.capitalize()} and the true graph must have the same nodes: {'; '.join(told)}."
        )


def aligned(true: Graph, estimate: Graph) -> Graph:
    """The estimate with its nodes in the order of the truth's."""
    for role, graph in (("true", true), ("estimate", estimate)):
        if not isinstance(graph, Graph):
            raise UsageError(
                f"{role} must be a Graph, not {type(graph).__name__}; "
                "Graph.from_weights(matrix, names) makes one."
            )
    if true.names == estimate.names:
        return estimate
    require_same_names(true.names, estimate.names, "the estimate")
    return estimate.reorder(true.names)
