"""Match the nodes of the estimate with those of the true graph, by name."""

from __future__ import annotations

from collections.abc import Sequence

from polydag.errors import DataError, UsageError
from polydag.graph import Graph

_LISTED = 12  # names in a message


def require_same_names(true: Sequence[str], other: Sequence[str], what: str) -> None:
    """Raise `DataError` with the names that only one of the two has."""
    in_true, in_other = set(true), set(other)
    missing = [name for name in true if name not in in_other]
    extra = [name for name in other if name not in in_true]
    if missing or extra:
        differences = [f"{what} lacks {_listed(missing)}"] if missing else []
        differences += [f"the true graph lacks {_listed(extra)}"] if extra else []
        raise DataError(
            f"{what.capitalize()} and the true graph must have the same nodes: {'; '.join(differences)}."
        )


def _listed(names: Sequence[str]) -> str:
    more = f", and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"


def aligned(true: Graph, estimate: Graph) -> Graph:
    """The estimate with its nodes in the order of the true graph."""
    for role, graph in (("true", true), ("estimate", estimate)):
        if not isinstance(graph, Graph):
            raise UsageError(
                f"{role} must be a Graph, not {type(graph).__name__}. "
                "Create one with Graph.from_weights(matrix, names)."
            )
    if true.names == estimate.names:
        return estimate
    require_same_names(true.names, estimate.names, "the estimate")
    return estimate.reorder(true.names)
