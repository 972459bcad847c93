"""Turn weights into a DAG: threshold them, break the remaining cycles, and refit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from polydag.arrays import Array, Mask
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.orientation import weakest_cycle_edges
from polydag.regression import fit_graph

Threshold = float | Literal["ebic", "bic"]
_GAMMA = {"ebic": 1.0, "bic": 0.0}
_ROUNDING = 1e-6  # smaller differences in the criterion are rounding errors between equivalent graphs
_RELATIVE = 1e-8


class Pruned(NamedTuple):
    """Least-squares weights of an acyclic graph, its extended BIC, and the removed edges with reasons."""

    weights: Array
    criterion: float
    removed: list[tuple[int, int, str]]


def threshold_graph(
    strength: Array, required: Mask, threshold: float
) -> tuple[Mask, list[tuple[int, int, str]]]:
    """The effects of at least `threshold`, without the weakest edge of each cycle.

    Required edges stay. Returns the graph and the removed edges with reasons.
    """
    present = (strength > 0) | required
    kept = (strength >= threshold) & present | required
    removed = [(int(i), int(j), "threshold") for i, j in np.argwhere(present & ~kept)]
    for i, j in weakest_cycle_edges(kept, strength, required):
        kept[i, j] = False
        removed.append((i, j, "cycle"))
    return kept, removed


def prune(loss: LeastSquares, W: Array, masks: Masks, threshold: Threshold) -> Pruned:
    """Turn raw weights into a DAG that contains the required edges.

    If `threshold` is a number, smaller weights are removed. Then the weakest edge of each cycle is removed
    and, with a criterion, backward elimination removes edges while it decreases.
    """
    smallest, gamma = (0.0, _GAMMA[threshold]) if isinstance(threshold, str) else (threshold, None)
    kept, removed = threshold_graph(np.abs(W), masks.required, smallest)
    weights, criterion = fit_graph(loss, kept, masks.required, gamma)
    eliminated = kept & ~(weights != 0) & ~masks.required
    removed += [(int(i), int(j), str(threshold)) for i, j in np.argwhere(eliminated)]
    return Pruned(weights, criterion, removed)


def best_of(loss: LeastSquares, results: Sequence[Pruned], margin: float = _ROUNDING) -> int:
    """The index of the result with the lowest criterion.

    Criteria within `margin` of the lowest count as ties: those of equivalent graphs agree up to rounding.
    Among ties, the lowest least-squares loss wins; if a graph was found several times, the first.
    """
    criterion = np.array([each.criterion for each in results])
    lowest = np.flatnonzero(criterion <= criterion.min() + margin)
    return int(lowest[first_lowest([loss.value(results[k].weights) for k in lowest.tolist()])])


def first_lowest(values: Sequence[float] | Array) -> int:
    """The index of the first value that is lowest up to rounding, which must not decide between values."""
    found = np.asarray(values)
    least = found.min()
    return int(np.argmax(found <= least + _RELATIVE * abs(least)))
