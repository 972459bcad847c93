"""Metrics that compare an estimated graph, or a matrix of edge scores, with the true graph.

All arguments are keyword-only, and nodes are matched by name.
"""

from polydag.metrics.adjustment import AdjustmentDistance, ancestor_aid, parent_aid
from polydag.metrics.edges import (
    Arrowheads,
    Confusion,
    arrowheads,
    confusion,
    f1,
    fdr,
    jaccard,
    precision,
    recall,
    reversed_edges,
    shd,
    shd_cpdag,
    tpr,
)
from polydag.metrics.ranking import PrCurve, RocCurve, average_precision, pr_curve, roc_auc, roc_curve
from polydag.metrics.sortability import varsortability
from polydag.metrics.summary import compare

__all__ = [
    "AdjustmentDistance",
    "Arrowheads",
    "Confusion",
    "PrCurve",
    "RocCurve",
    "ancestor_aid",
    "arrowheads",
    "average_precision",
    "compare",
    "confusion",
    "f1",
    "fdr",
    "jaccard",
    "parent_aid",
    "pr_curve",
    "precision",
    "recall",
    "reversed_edges",
    "roc_auc",
    "roc_curve",
    "shd",
    "shd_cpdag",
    "tpr",
    "varsortability",
]
