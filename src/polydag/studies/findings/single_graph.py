"""What every learner has: measures of its result, the edges it removed, and a caution about scales."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from polydag.errors import ConvergenceWarning
from polydag.sources.adapt import as_source
from polydag.studies.findings.interface import Findings
from polydag.studies.result import Removed

SORTABLE = 0.9  # from here on the variances alone would give nearly all directions
_COMMON = ("converged_", "n_iter_", "n_features_in_")


def findings(model: Any, source: Any) -> Findings:
    """Of any fitted learner."""
    measures = measures_of(model)
    return Findings(
        notes=(*cautions(measures), *scale_caution(model, source)),
        measures=measures,
        coefficients=getattr(model, "coefficients_", None) if _is_linear(model) else None,
        n_iter=getattr(model, "n_rounds_", getattr(model, "n_iter_", None)),
        pruned=_removed(model),
    )


def _is_linear(model: Any) -> bool:
    """Whether the weights of a learner's graph are coefficients; those of a posterior are probabilities."""
    return not (hasattr(model, "posterior_") or hasattr(model, "posteriors_"))


def measures_of(model: Any) -> dict[str, float]:
    """The numbers that a fitted learner has about its result, such as the penalty it chose, where known."""
    return {
        name.rstrip("_"): float(value)
        for name, value in vars(model).items()
        if name.endswith("_") and isinstance(value, (int, float)) and name not in _COMMON and value == value
    }


def cautions(measures: dict[str, float]) -> tuple[str, ...]:
    """What the measures say against trusting the directions."""
    sortable = measures.get("varsortability", 0.0)
    if sortable < SORTABLE:
        return ()
    return (
        f"The graph follows the order of the columns' variances (varsortability {sortable:.2f}): directions "
        "may say more about units than about causes. Where the units are arbitrary, compare with a "
        "scale-free method.",
    )


def scale_caution(model: Any, source: Any) -> tuple[str, ...]:
    """In how many edges a graph of least squares differs from that of the same columns standardised."""
    from sklearn.base import clone

    from polydag.learners import Notears
    from polydag.stats.regimes import standardized

    if type(model) is not Notears or model.lambda_ == "stability" or not model.graph_.n_edges:
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        again = clone(model).fit(standardized(as_source(source).moments())).graph_
    first, second = model.graph_.adjacency, again.adjacency
    pairs = np.triu((first != second) | (first.T != second.T))
    if not pairs.any():
        return ()
    return (
        f"With every column standardised, {int(pairs.sum())} edges would differ (the graph has "
        f"{model.graph_.n_edges}): least squares depends on units. Where these are arbitrary, use a "
        "scale-free method: --method boss.",
    )


def _removed(model: Any) -> tuple[Removed, ...]:
    table = model.pruned_
    columns = (table["source"], table["target"], table["weight"], table["reason"])
    return tuple(Removed(str(s), str(t), float(w), str(r)) for s, t, w, r in zip(*columns, strict=True))
