"""From parsed edges to a Graph, with the checks that every text format shares."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from polydag.errors import DataError
from polydag.graph import Graph


class ParsedEdge(NamedTuple):
    """One edge as it stood in a file; `place` says where, for errors: `line 3`."""

    source: str
    target: str
    weight: float
    directed: bool
    place: str


def assemble(nodes: Iterable[str], edges: Sequence[ParsedEdge], *, closed: bool = False) -> Graph:
    """The graph of some edges: listed nodes first, then others as they appear (an error where `closed`)."""
    names = dict.fromkeys(nodes)
    seen: dict[frozenset[str], ParsedEdge] = {}
    for edge in edges:
        for end in (edge.source, edge.target):
            if closed and end not in names:
                raise DataError(f"{edge.place}: {end!r} is not among the nodes.")
            names.setdefault(end)
        if edge.source == edge.target:
            raise DataError(f"{edge.place}: {edge.source!r} has an edge to itself.")
        pair = frozenset(edge[:2])
        if pair in seen:
            raise DataError(
                f"{edge.place}: {edge.source!r} and {edge.target!r} are joined already ({seen[pair].place}). "
                "Keep one edge; where the direction is open, make it undirected."
            )
        seen[pair] = edge
    return Graph.from_edges(
        list(names),
        (edge[:3] for edge in edges if edge.directed),
        undirected=(edge[:3] for edge in edges if not edge.directed),
    )


def number(text: str, place: str) -> float:
    """A finite weight."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{place}: the weight {text!r} is not a finite number.")
    return value


def truth(text: str, place: str) -> bool:
    """`true` or `false`, in any case, or 1 and 0."""
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
    except KeyError:
        raise DataError(f"{place}: {text!r} is neither true nor false.") from None
