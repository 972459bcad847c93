"""ROC and precision-recall of a matrix of edge scores, such as posterior probabilities.

Every ordered pair of different nodes is one case; it is positive where the true graph has that edge (an
undirected edge makes both its directions positive). Pairs of equal score are accepted together, so the
areas do not depend on how ties are broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydag.errors import DataError
from polydag.graph import Graph, node_names
from polydag.metrics.matching import require_same_names

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]


class RocCurve(NamedTuple):
    """Rates when all pairs of at least each threshold are accepted; begins with nothing accepted."""

    fpr: Array
    tpr: Array
    thresholds: Array


class PrCurve(NamedTuple):
    """Recall and precision when all pairs of at least each threshold are accepted."""

    recall: Array
    precision: Array
    thresholds: Array


def _score_matrix(true: Graph, scores: ArrayLike | pd.DataFrame) -> Array:
    """The scores in the order of the true graph's nodes."""
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
        raise DataError(f"Scores of the shape {values.shape} do not fit {true.n_nodes} nodes.")
    if (bad := np.isnan(values) & ~np.eye(len(values), dtype=bool)).any():
        i, j = np.argwhere(bad)[0]
        raise DataError(f"The score of {true.names[i]} -> {true.names[j]} is missing.")
    return values


def _accepted(true: Graph, scores: ArrayLike | pd.DataFrame) -> tuple[Array, Array, Array]:
    """Distinct scores, highest first, with how many true and false pairs reach each."""
    off = ~np.eye(true.n_nodes, dtype=bool)
    values, positive = _score_matrix(true, scores)[off], true.adjacency[off]
    thresholds, group = np.unique(-values, return_inverse=True)
    hits = np.bincount(group, weights=positive, minlength=len(thresholds)).cumsum()
    misses = np.bincount(group, weights=~positive, minlength=len(thresholds)).cumsum()
    if not positive.any():
        raise DataError("The true graph has no edges, so no ranking of edges can be judged.")
    return -thresholds, hits, misses


def roc_curve(*, true: Graph, scores: ArrayLike | pd.DataFrame) -> RocCurve:
    """True and false positive rates over all thresholds.

    Parameters
    ----------
    true : Graph
        The true graph.
    scores : array or DataFrame of shape (d, d)
        `[i, j]` is high where `i -> j` is believed (give absolute values of weights). An array follows the
        order of `true.names`, a DataFrame is matched by the names of its rows and columns.
    """
    thresholds, hits, misses = _accepted(true, scores)
    if misses[-1] == 0:
        raise DataError(
            "The true graph joins every pair both ways, so there are no false positives to count."
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
    """The chance that a true edge outscores a pair that is none, ties counted half."""
    curve = roc_curve(true=true, scores=scores)
    return float(np.trapezoid(curve.tpr, curve.fpr))


def average_precision(*, true: Graph, scores: ArrayLike | pd.DataFrame) -> float:
    """Precision averaged over the steps of recall: the area under the precision-recall steps."""
    curve = pr_curve(true=true, scores=scores)
    return float(np.diff(curve.recall, prepend=0.0) @ curve.precision)
