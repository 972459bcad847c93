"""The graph of linked rows beside the one that ignores the links, drawn with one layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from polydag.graph import Graph
from polydag.report.layout import layout_of
from polydag.report.pairs import Pair, Pairs

_NAMES = ("Links taken into account", "Rows taken as independent")


def naive_view(graph: Graph, naive: Graph | None) -> dict[str, Any] | None:
    """Both graphs over the pairs that either of them joins, and a sentence; None if there is only one."""
    if naive is None or set(naive.names) != set(graph.names):
        return None
    A, B = graph.adjacency, naive.reorder(graph.names).adjacency
    joined = np.argwhere(np.triu(A | A.T | B | B.T)).tolist()
    both = Graph(np.triu(A | A.T | B | B.T), graph.names)
    layout = layout_of(both, Pairs("", tuple(Pair(i, j, 1) for i, j in joined)))
    return {
        "text": _sentence(A, B),
        "graphs": [
            {
                "name": name,
                "kind": "",
                "pairs": [[i, j, int(own[i, j]) + 2 * int(own[j, i])] for i, j in joined],
                "layout": None if layout is None else layout._asdict(),
            }
            for name, own in zip(_NAMES, (A, B), strict=True)
        ],
    }


def _sentence(A: Any, B: Any) -> str:
    ours, other = np.triu(A | A.T), np.triu(B | B.T)
    turned = int((ours & other & ((A != B) | (A.T != B.T))).sum())
    return (
        f"{int((ours & other).sum())} connections are in both graphs, {turned} of them with other "
        f"arrowheads. {int((other & ~ours).sum())} are found only where rows are taken as independent, and "
        f"{int((ours & ~other).sum())} only where their links are taken into account."
    )
