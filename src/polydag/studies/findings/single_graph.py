"""What every learner has: measures of its result, the edges it removed, and a caution about scales."""

from __future__ import annotations

from typing import Any

from polydag.learners.imputations import pooling_note
from polydag.studies.findings.interface import Findings
from polydag.studies.result import Removed

SORTABLE = 0.9  # from here on the variances alone would give nearly all directions
_COMMON = ("converged_", "n_iter_", "n_features_in_")


def findings(model: Any, source: Any) -> Findings:
    """Of any fitted learner."""
    measures = measures_of(model)
    return Findings(
        first_notes=pooling_note(getattr(model, "completed_", [])),
        notes=(*cautions(measures), *scale_caution(model)),
        measures=measures,
        coefficients=getattr(model, "coefficients_", None) if _is_linear(model) else None,
        confidence=getattr(model, "confidence_", None),
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
        "scale-free method (--method boss).",
    )


def scale_caution(model: Any) -> tuple[str, ...]:
    """In how many edges a graph of least squares differs from that of the same columns standardised."""
    from polydag.learners import Notears

    if not isinstance(model, Notears) or model.lambda_ == "stability" or not model.graph_.n_edges:
        return ()
    differ = model.standardized_difference()
    if not differ:
        return ()
    instead = "--method boss" if not model.time_series else "in Python, BOSS on the time slices"
    return (
        f"With every column standardised, {differ} edges would differ (the graph has "
        f"{model.graph_.n_edges}): least squares depends on units. Where these are arbitrary, use a "
        f"scale-free method: {instead}.",
    )


def _removed(model: Any) -> tuple[Removed, ...]:
    table = model.pruned_
    columns = (table["source"], table["target"], table["weight"], table["reason"])
    return tuple(Removed(str(s), str(t), float(w), str(r)) for s, t, w, r in zip(*columns, strict=True))
