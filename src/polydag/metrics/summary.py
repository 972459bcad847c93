"""All graph metrics at once."""

from __future__ import annotations

import math
from collections.abc import Callable

from polydag.errors import DataError
from polydag.graph import Graph
from polydag.metrics.adjustment import AdjustmentDistance, ancestor_aid, parent_aid
from polydag.metrics.edges import arrowheads, confusion, shd_cpdag


def compare(*, true: Graph, estimate: Graph) -> dict[str, float]:
    """Compute every graph metric, by name.

    The normalised adjustment distances are NaN if either graph is neither a DAG nor a CPDAG.
    """
    counts = confusion(true=true, estimate=estimate)
    heads = arrowheads(true=true, estimate=estimate)
    return {
        "true_edges": counts.n_true,
        "estimated_edges": counts.n_estimated,
        **counts._asdict(),
        "shd": counts.shd,
        "shd_cpdag": shd_cpdag(true=true, estimate=estimate),
        "adjacency_precision": counts.adjacency_precision,
        "adjacency_recall": counts.adjacency_recall,
        "arrowhead_precision": heads.precision,
        "arrowhead_recall": heads.recall,
        "tpr": counts.recall,
        "fdr": counts.fdr,
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": counts.f1,
        "jaccard": counts.jaccard,
        "parent_aid": _or_nan(parent_aid, true, estimate),
        "ancestor_aid": _or_nan(ancestor_aid, true, estimate),
    }


def _or_nan(distance: Callable[..., AdjustmentDistance], true: Graph, estimate: Graph) -> float:
    try:
        return distance(true=true, estimate=estimate).normalized
    except DataError:
        return math.nan
