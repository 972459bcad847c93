"""What a run says about each pair of variables: one confidence per pair, whatever the method.

A complete table of pairs (`pairs.csv`) is used if there is one. Otherwise the pairs come from the posterior
or the bootstrap of the run, and without these from the edges of its graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from polydag.graph import Graph
from polydag.report.run_files import Row, RunFiles, number

LEAST = 0.05  # pairs less probable than this, and not in the graph, are left out
PROBABILITY, NONE = "probability", ""
_TWO_SIDED = 1.96  # standard errors either side of a coefficient, for 95 %
_ARROW, _BACK, _LINE, _NO_EDGE = 1, 2, 3, 0


class Pair(NamedTuple):
    """Two variables `a < b` by their positions, and what is known about them; None is not known.

    `edge` is how the learned graph joins them: 0 not at all, 1 `a -> b`, 2 `b -> a`, 3 undirected.
    """

    a: int
    b: int
    edge: int
    adjacent: float | None = None
    forward: float | None = None
    backward: float | None = None
    low: float | None = None
    high: float | None = None
    weight: float | None = None
    standardised: float | None = None
    weight_low: float | None = None
    weight_high: float | None = None
    r_hat: float | None = None
    ess: float | None = None
    strength: float | None = None


class Pairs(NamedTuple):
    """All pairs of a graph, and whether their confidence is a probability, a frequency or not known."""

    kind: str
    pairs: tuple[Pair, ...]


Found = dict[tuple[int, int], Pair]


def pairs_of(files: RunFiles, graph: Graph, suffix: str = "") -> Pairs:
    """The pairs of a run; `suffix` is "-TASK" for the graph of one task."""
    found = {key: Pair(*key, edge) for key, edge in _edges(graph).items()}
    where = {name: i for i, name in enumerate(graph.names)}
    kind = _add_confidence(files, where, suffix, found)
    if not suffix:
        _add_weights(files, where, found, kind)
    kept = (pair for pair in found.values() if pair.edge or (pair.adjacent or 0.0) >= LEAST)
    return Pairs(kind, tuple(sorted(kept)))


def _edges(graph: Graph) -> dict[tuple[int, int], int]:
    A = graph.adjacency
    return {
        (int(i), int(j)): int(A[i, j]) * _ARROW + int(A[j, i]) * _BACK
        for i, j in np.argwhere(np.triu(A | A.T))
    }


def _add_confidence(files: RunFiles, where: Mapping[str, int], suffix: str, found: Found) -> str:
    rows = files.rows(f"pairs{suffix}.csv")
    if rows and {"a", "b", "adjacent"} <= rows[0].keys():
        for row in rows:
            key, swapped = _key(where, row["a"], row["b"])
            if key is None:
                continue
            forward, backward = number(row.get("forward")), number(row.get("backward"))
            found[key] = found.get(key, Pair(*key, _NO_EDGE))._replace(
                adjacent=number(row["adjacent"]),
                forward=backward if swapped else forward,
                backward=forward if swapped else backward,
                low=number(row.get("low")),
                high=number(row.get("high")),
                r_hat=number(row.get("r_hat")),
                ess=number(row.get("ess")),
            )
        _add_diagnostics(files.rows("posterior.csv"), where, found)
        return rows[0].get("kind") or PROBABILITY
    if rows := files.rows(f"edges{suffix}.csv") if suffix else files.rows("posterior.csv"):
        _from_directions(where, rows, "probability", found)
        return PROBABILITY
    rows = files.rows("edges.csv")
    if any(number(row.get("probability")) is not None for row in rows):
        _from_directions(where, rows, "probability", found)
        return PROBABILITY
    return NONE


def _add_diagnostics(rows: list[Row], where: Mapping[str, int], found: Found) -> None:
    """How well chains know a pair: the worse of both directions."""
    for row in rows:
        key, _ = _key(where, row["source"], row["target"])
        if key in found:
            old = found[key]
            found[key] = old._replace(
                r_hat=_worst(max, old.r_hat, number(row.get("r_hat"))),
                ess=_worst(min, old.ess, number(row.get("ess"))),
            )


def _from_directions(where: Mapping[str, int], rows: list[Row], column: str, found: Found) -> None:
    """From one row for each direction; a connection has the sum of both, unless a row says more."""
    for row in rows:
        key, swapped = _key(where, row["source"], row["target"])
        share = number(row.get(column))
        if key is None or share is None:
            continue
        old = found.get(key, Pair(*key, _NO_EDGE))
        stated = number(row.get("adjacent"))
        total = stated if stated is not None else min(1.0, (old.adjacent or 0.0) + share)
        new = old._replace(
            adjacent=total,
            r_hat=_worst(max, old.r_hat, number(row.get("r_hat"))),
            ess=_worst(min, old.ess, number(row.get("ess"))),
        )
        if row.get("directed") != "false":
            new = new._replace(backward=share) if swapped else new._replace(forward=share)
        if stated is not None and old.low is None:
            new = new._replace(low=number(row.get("low")), high=number(row.get("high")))
        found[key] = new
    for key, pair in found.items():
        if pair.adjacent is not None and not (pair.forward is None and pair.backward is None):
            found[key] = pair._replace(forward=pair.forward or 0.0, backward=pair.backward or 0.0)


def _worst(choose: Callable[..., float], *values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _add_weights(files: RunFiles, where: Mapping[str, int], found: Found, kind: str) -> None:
    """The coefficients of edges; a posterior graph has its probabilities in their place."""
    for row in files.rows("edges.csv"):
        key, _ = _key(where, row["source"], row["target"])
        if key is None or key not in found:
            continue
        found[key] = found[key]._replace(strength=number(row.get("strength")))
        weight, probability = number(row.get("weight")), number(row.get("probability"))
        if weight is None or (kind == PROBABILITY and weight == probability):
            continue
        error = number(row.get("standard_error"))
        found[key] = found[key]._replace(
            weight=weight,
            standardised=number(row.get("standardized")),
            weight_low=None if error is None else weight - _TWO_SIDED * error,
            weight_high=None if error is None else weight + _TWO_SIDED * error,
        )


def _key(where: Mapping[str, int], a: str, b: str) -> tuple[tuple[int, int] | None, bool]:
    """The positions of two variables in node order, and whether that is the other way round."""
    i, j = where.get(a, -1), where.get(b, -1)
    if i < 0 or j < 0 or i == j:
        return None, False
    return ((i, j), False) if i < j else ((j, i), True)
