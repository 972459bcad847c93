"""The score of learners of posteriors: what "auto" stands for, and the score of some statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polydag.scores import AUTO, Score, kind_of, resolve
from polydag.sources.interface import Contents, Source
from polydag.sources.tasks import Tasks
from polydag.stats.regimes import standardized

_USUAL: Mapping[Contents, str] = {"numbers": "bge", "labels": "bdeu", "mixed": "dg"}
_NOTES = {
    "bge": ("All columns are numbers: the score is bge.",),
    "dg": (
        "There are numbers and labels: the score is dg, the degenerate Gaussian. For a score of labels, cut "
        "the numbers into levels (discretize=; on the command line --discretize).",
    ),
}


def chosen_criterion(settings: Any, source: Source | Tasks) -> str:
    """The score of a learner of posteriors; "auto" is decided by what the columns hold."""
    if settings.criterion != AUTO:
        return str(settings.criterion)
    return _USUAL["labels" if settings.discretize is not None else source.contents]


def criterion_notes(settings: Any) -> tuple[str, ...]:
    """What "auto" chose, where that is not the usual score of labels."""
    return _NOTES.get(settings.criterion_, ()) if settings.criterion == AUTO else ()


def posterior_score(settings: Any, stats: Any, *, as_given: bool = False) -> Score:
    """The score of some statistics, by a fitted learner's settings.

    Numbers are standardised where the score's prior has a scale, unless they are taken as given.
    """
    spec = resolve(settings.criterion_, kind_of(settings.criterion_) or "numbers")
    sizes = spec.taken(equivalent_sample_size=settings.equivalent_sample_size)
    own = standardized(stats) if spec.standardised and not as_given else stats
    return spec.make(own, **{**sizes, **(settings.criterion_options or {})})
