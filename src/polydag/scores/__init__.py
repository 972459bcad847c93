"""Decomposable scores, one file each: `local_score(node, parents)` is the oracle, larger is better."""

from polydag.scores.families import ParentSets, Score, gains_by_family, total_score
from polydag.scores.registry import AUTO, SCORES, ScoreName, kind_of, known_scores, make_score, resolve
from polydag.scores.spec import Kind, Option, ScoreSpec

__all__ = [
    "AUTO",
    "SCORES",
    "Kind",
    "Option",
    "ParentSets",
    "Score",
    "ScoreName",
    "ScoreSpec",
    "gains_by_family",
    "kind_of",
    "known_scores",
    "make_score",
    "resolve",
    "total_score",
]
