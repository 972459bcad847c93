"""The scores by name. A new score is a file of its own and a line in `SCORES`.

Learners, searches and the command line all look here: a score that is registered works in each of them.
"""

from __future__ import annotations

from typing import Any

from polydag.errors import UsageError
from polydag.scores.discrete.bdeu import BDeu
from polydag.scores.discrete.bds import BDs
from polydag.scores.discrete.k2 import K2
from polydag.scores.families import Score
from polydag.scores.gaussian.bge import BGe
from polydag.scores.gaussian.bic import BIC
from polydag.scores.mixed.conditional_gaussian import ConditionalGaussian
from polydag.scores.mixed.degenerate_gaussian import DegenerateGaussian
from polydag.scores.spec import Kind, ScoreSpec

SCORES: dict[str, type[Any]] = {
    "bic": BIC,
    "bge": BGe,
    "bdeu": BDeu,
    "bds": BDs,
    "k2": K2,
    "dg": DegenerateGaussian,
    "cg": ConditionalGaussian,
}
DEFAULTS: dict[Kind, str] = {"numbers": "bic", "labels": "bdeu", "mixed": "dg"}
_COLUMNS: dict[Kind, str] = {
    "numbers": "numbers",
    "labels": "labels",
    "mixed": "columns of numbers and labels",
}
AUTO = "auto"


class ScoreName:
    """The name of a registered score, or another word; registered later counts as well."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def accepts(self, value: Any) -> bool:
        """Whether the value is one of the names."""
        return isinstance(value, str) and (value in SCORES or value in self.words)

    @property
    def expected(self) -> str:
        """The names."""
        return f"one of {', '.join((*self.words, *SCORES))}"


def known_scores(kind: Kind) -> list[str]:
    """The names of the scores for one kind of data."""
    return [name for name in SCORES if ScoreSpec(name, SCORES[name]).kind == kind]


def kind_of(name: str) -> Kind | None:
    """The kind of data that a score is for; None for "auto", where the data decide."""
    return None if name == AUTO else _spec(name).kind


def resolve(name: str, kind: Kind) -> ScoreSpec:
    """The score of a name for one kind of data; "auto" is BIC for numbers, BDeu for labels, dg for both.

    A score for mixed columns is for numbers alone and for labels alone as well.
    """
    spec = _spec(DEFAULTS[kind] if name == AUTO else name)
    if spec.kind not in (kind, "mixed"):
        known = _listed(known_scores(kind))
        what = _COLUMNS[spec.kind]
        raise UsageError(f"The score {name} is for {what}, but the data are {_COLUMNS[kind]}: use {known}.")
    return spec


def usual(kind: Kind) -> str:
    """In words: the score that "auto" stands for, and its penalty if it has one."""
    spec = _spec(DEFAULTS[kind])
    penalty = " and the penalty of the extended BIC" if "penalty" in spec.options else ""
    return f"the score {spec.name} for {_COLUMNS[kind]}{penalty}"


def make_score(name: str, statistics: Any, **options: Any) -> Score:
    """A score by its name.

    Parameters
    ----------
    name : str
        A name in `SCORES`.
    statistics : GaussianStats, CountTables, MixedStats, or Regimes of one of them; CellStats (cg)
        The data.
    **options
        Options of the score: `penalty` (bic, dg, cg), `alpha_mu`, `alpha_w`, `prior_matrix` (bge),
        `equivalent_sample_size` (bdeu, bds).
    """
    return _spec(name).make(statistics, **options)


def _spec(name: str) -> ScoreSpec:
    if name not in SCORES:
        raise UsageError(f"There is no score {name!r}; known are {', '.join(SCORES)}.")
    return ScoreSpec(name, SCORES[name])


def _listed(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
