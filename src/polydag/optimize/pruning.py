"""From weights to a DAG: drop what is too small, break what cycles are left, refit the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.orientation import weakest_cycle_edges
from polydag.regression import fit_graph

Array = NDArray[np.float64]

_ROUNDING = 1e-6  # criteria that differ by less are those of equivalent graphs
_RELATIVE = 1e-8


class Pruned(NamedTuple):
    """Least-squares weights of an acyclic graph, its extended BIC, and the removed edges with the reason."""

    weights: Array
    criterion: float
    removed: list[tuple[int, int, str]]


def prune(loss: LeastSquares, W: Array, masks: Masks, threshold: float | Literal["ebic"]) -> Pruned:
    """Turn raw weights into a DAG that honours what is required.

    With a number, weights below it go first; then the weakest edge of each cycle; with "ebic", at last, edges
    without which the extended BIC is lower. Required edges stay.
    """
    by_criterion = threshold == "ebic"
    present = (W != 0) | masks.required
    kept = present if by_criterion else (np.abs(W) >= threshold) & (W != 0) | masks.required
    removed = [(int(i), int(j), "threshold") for i, j in np.argwhere(present & ~kept)]
    for i, j in weakest_cycle_edges(kept, np.abs(W), masks.required):
        kept[i, j] = False
        removed.append((i, j, "cycle"))
    weights, criterion = fit_graph(loss, kept, masks.required, 1.0 if by_criterion else None)
    left = kept & ~(weights != 0) & ~masks.required
    removed += [(int(i), int(j), "ebic") for i, j in np.argwhere(left)]
    return Pruned(weights, criterion, removed)


def best_of(loss: LeastSquares, results: Sequence[Pruned], margin: float = _ROUNDING) -> int:
    """Which has the lowest criterion.

    Criteria within `margin` of the lowest do not tell (those of equivalent graphs are the same, up to
    rounding); least squares, the method's own loss, does. Of one graph found several times, the first.
    """
    criterion = np.array([each.criterion for each in results])
    lowest = np.flatnonzero(criterion <= criterion.min() + margin)
    return int(lowest[first_lowest([loss.value(results[k].weights) for k in lowest.tolist()])])


def first_lowest(values: Sequence[float] | Array) -> int:
    """The first that is the lowest up to rounding, so that how a sum was formed does not decide."""
    found = np.asarray(values)
    least = found.min()
    return int(np.argmax(found <= least + _RELATIVE * abs(least)))
