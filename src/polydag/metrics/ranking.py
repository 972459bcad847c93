"""ROC and precision-recall curves of a matrix of edge scores, such as posterior probabilities.

Every ordered pair of distinct nodes is one case. It is positive if the true graph has that edge; an
undirected edge makes both directions positive. Pairs with equal scores are accepted together, so the areas do
not depend on how ties are broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.graph import Graph, node_names
from polydag.metrics.node_matching import require_same_names

if TYPE_CHECKING:
    import pandas as pd


class RocCurve(NamedTuple):
    """Rates when all pairs that score at least the threshold are accepted; starts with none accepted."""

    fpr: Array
    tpr: Array
    thresholds: Array


class PrCurve(NamedTuple):
    """Recall and precision when all pairs that score at least the threshold are accepted."""

    recall: Array
    precision: Array
    thresholds: Array


def _score_matrix(true: Graph, scores: ArrayLike | pd.DataFrame) -> Array:
    """The scores, in the node order of the true graph."""
    table: Any = scores
    if hasattr(table, "columns") and hasattr(table, "index"):
        for side, labels in (("rows", table.index), ("columns", table.columns)):
            require_same_names(true.names, node_names(labels, len(labels)), f"the score matrix (its {side})")
        rows, columns = (
            {str(name): i for i, name in enumerate(axis)} for axis in (table.index, table.columns)
        )
        values = np.asarray(table.to_numpy(), dtype=float)
        values = values[np.ix_([rows[n] for n in true.names], [columns[n] for n in true.names])]
    else:
        values = np.asarray(scores, dtype=float)
    if values.shape != (true.n_nodes, true.n_nodes):
        raise DataError(f"Scores of shape {values.shape} do not match {true.n_nodes} nodes.")
    if (bad := np.isnan(values) & ~np.eye(len(values), dtype=bool)).any():
        i, j = np.argwhere(bad)[0]
        raise DataError(f"The score of {true.names[i]} -> {true.names[j]} is missing.")
    return values


def _accepted(true: Graph, scores: ArrayLike | pd.DataFrame) -> tuple[Array, Array, Array]:
    """Distinct scores, highest first, with the numbers of true and false pairs that reach each."""
    off = ~np.eye(true.n_nodes, dtype=bool)
    values, positive = _score_matrix(true, scores)[off], true.adjacency[off]
    thresholds, group = np.unique(-values, return_inverse=True)
    hits = np.bincount(group, weights=positive, minlength=len(thresholds)).cumsum()
    misses = np.bincount(group, weights=~positive, minlength=len(thresholds)).cumsum()
    if not positive.any():
        raise DataError("The true graph has no edges, so a ranking of edges cannot be evaluated.")
    return -thresholds, hits, misses


def roc_curve(*, true: Graph, scores: ArrayLike | pd.DataFrame) -> RocCurve:
    """True and false positive rates over all thresholds.

    Parameters
    ----------
    true : Graph
        The true graph.
    scores : array or DataFrame of shape (d, d)
        A high score at `[i, j]` is evidence for `i -> j`; take absolute values of weights. An array follows
        the order of `true.names`. A DataFrame is matched by its row and column names.
    """
    thresholds, hits, misses = _accepted(true, scores)
    if misses[-1] == 0:
        raise DataError(
            "The true graph joins every pair in both directions, so there can be no false positives."
        )
    return RocCurve(
        np.concatenate([[0.0], misses / misses[-1]]),
        np.concatenate([[0.0], hits / hits[-1]]),
        np.concatenate([[np.inf], thresholds]),
    )


def pr_curve(*, true: Graph, scores: ArrayLike | pd.DataFrame) -> PrCurve:
    """Recall and precision over all thresholds; `scores` as in `roc_curve`."""
    thresholds, hits, misses = _accepted(true, scores)
    return PrCurve(hits / hits[-1], hits / (hits + misses), thresholds)


def roc_auc(*, true: Graph, scores: ArrayLike | pd.DataFrame) -> float:
    """Area under the ROC curve: the probability that a true edge outscores a non-edge, ties counting half."""
    curve = roc_curve(true=true, scores=scores)
    return float(np.trapezoid(curve.tpr, curve.fpr))


def average_precision(*, true: Graph, scores: ArrayLike | pd.DataFrame) -> float:
    """Average precision: the area under the precision-recall curve, as a step function."""
    curve = pr_curve(true=true, scores=scores)
    return float(np.diff(curve.recall, prepend=0.0) @ curve.precision)
