"""Build a graph from parsed edges, with the checks that all text formats share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from polydag.errors import DataError
from polydag.graph import Graph

MOST_NODES = 20_000  # a graph is kept as matrices of this many rows and columns


class ParsedEdge(NamedTuple):
    """An edge as read from a file; `place` is its position for error messages: `line 3`."""

    source: str
    target: str
    weight: float
    directed: bool
    place: str


def assemble(nodes: Iterable[str], edges: Sequence[ParsedEdge], *, closed: bool = False) -> Graph:
    """The graph of parsed edges, with the given nodes first and others in order of appearance.

    If `closed`, a node that is not listed is an error.
    """
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
                f"{edge.place}: {edge.source!r} and {edge.target!r} already have an edge "
                f"({seen[pair].place}). Keep one; if its direction is unknown, make it undirected."
            )
        seen[pair] = edge
    if len(names) > MOST_NODES:
        raise DataError(f"the file has {len(names)} nodes, more than the {MOST_NODES} that a graph can have.")
    return Graph.from_edges(
        list(names),
        (edge[:3] for edge in edges if edge.directed),
        undirected=(edge[:3] for edge in edges if not edge.directed),
    )


def shortened(text: str) -> str:
    """A value in an error message, in quotes and of readable length."""
    return repr(text) if len(text) <= 60 else f"{text[:50]!r} … ({len(text)} characters)"


def number(text: str, place: str) -> float:
    """Parse a finite weight."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{place}: the weight {shortened(text)} is not a finite number.")
    return value


def truth(text: str, place: str) -> bool:
    """Parse `true` or `false` (in any case), or `1` or `0`."""
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
    except KeyError:
        raise DataError(f"{place}: {shortened(text)} is neither true nor false.") from None
