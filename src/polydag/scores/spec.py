"""What a score declares: the kind of data that it is for, and its options.

A score is a class. `kind` says whether it is for numbers, for labels, or for a mixture of both;
`standardised` whether learners should standardise columns first, since its prior has a scale. Its constructor
takes the statistics and then its options, which are dataclass fields made by `polydag.parameters.setting`; a
plain class has none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from polydag.errors import UsageError
from polydag.parameters import Constraint, check
from polydag.scores.families import Score
from polydag.stats import ByNode, CountTables, GaussianStats, MixedStats, Regimes
from polydag.stats.cells import CellStats

Kind = Literal["numbers", "labels", "mixed"]
Needs = Literal["numbers", "labels", "mixed", "cells"]
_STATISTICS: dict[str, tuple[type, str]] = {
    "numbers": (GaussianStats, "GaussianStats"),
    "labels": (CountTables, "DiscreteCounts"),
    "mixed": (MixedStats, "MixedStats"),
    "cells": (CellStats, "CellStats"),
}


@dataclass(frozen=True)
class Option:
    """An option of a score: its name and default, what it may be, and a line of help."""

    name: str
    default: Any
    constraint: Constraint
    help: str


@dataclass(frozen=True)
class ScoreSpec:
    """A score by its name, and how it is made."""

    name: str
    score: type[Any]

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise UsageError(
                f"The score {self.name!r} must declare kind = 'numbers', 'labels' or 'mixed'; got "
                f"{self.kind!r}."
            )

    @property
    def kind(self) -> Kind:
        """Whether the score is for numbers, for labels or for both."""
        kind: Kind = getattr(self.score, "kind", None)  # type: ignore[assignment]
        return kind

    @property
    def needs(self) -> Needs:
        """The statistics that it is made of: those of its kind, unless it declares others (`needs`)."""
        needs: Needs = getattr(self.score, "needs", self.kind)
        return needs

    @property
    def standardised(self) -> bool:
        """Whether learners give it standardised columns, as a prior that has a scale needs."""
        return bool(getattr(self.score, "standardised", False))

    @property
    def options(self) -> dict[str, Option]:
        """The options by name."""
        return options_of(self.score)

    def taken(self, **given: Any) -> dict[str, Any]:
        """Those of the given options that the score has."""
        known = self.options
        return {name: value for name, value in given.items() if name in known}

    def make(self, statistics: Any, **options: Any) -> Score:
        """The score of some data; raises for statistics of the other kind and for wrong options."""
        required, words = _STATISTICS[self.needs]
        parts = statistics.parts.values() if isinstance(statistics, Regimes | ByNode) else [statistics]
        if not all(isinstance(part, required) for part in parts):
            raise UsageError(
                f"The score {self.name} is for {self.kind} and needs {words}; "
                f"got {type(next(iter(parts))).__name__}."
            )
        known = self.options
        if unknown := [name for name in options if name not in known]:
            takes = f"its options are {', '.join(known)}" if known else "it has no options"
            raise UsageError(f"The score {self.name} has no option {unknown[0]}; {takes}.")
        check_options(self.score, options)
        score: Score = self.score(statistics, **options)
        return score


def options_of(score: type[Any]) -> dict[str, Option]:
    """The options that a score declares, by name."""
    if not dataclasses.is_dataclass(score):
        return {}
    return {
        field.name: Option(
            field.name, field.default, field.metadata["constraint"], field.metadata.get("help", "")
        )
        for field in dataclasses.fields(score)
        if "constraint" in field.metadata
    }


def check_options(score: type[Any], values: Mapping[str, Any]) -> None:
    """Raise a `UsageError` for the first value that its option may not have."""
    for name, option in options_of(score).items():
        if name in values:
            check(name, values[name], option.constraint)
