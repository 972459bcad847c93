"""The score that a search uses where it is given statistics."""

from __future__ import annotations

from typing import Any

from polydag.errors import UsageError
from polydag.scores import Score, make_score
from polydag.scores.penalty import Penalty
from polydag.stats import ByNode, CountTables, GaussianStats, Regimes


def as_score(source: Any, penalty: Penalty) -> Score:
    """The score itself, or the usual one of the statistics: BIC of numbers, BDeu of labels."""
    inner = next(iter(source.parts.values())) if isinstance(source, Regimes | ByNode) else source
    if isinstance(inner, GaussianStats):
        return make_score("bic", source, penalty=penalty)
    if isinstance(inner, CountTables):
        return make_score("bdeu", source)
    if not hasattr(source, "local_score") or not hasattr(source, "names"):
        raise UsageError(
            "The search needs GaussianStats, CountTables, Regimes of these, or a score with names and "
            f"local_score; got {type(source).__name__}."
        )
    score: Score = source
    return score
