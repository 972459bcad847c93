"""Decomposable scores, one file each: `local_score(node, parents)` is the oracle, larger is better."""

from __future__ import annotations

import importlib
from typing import Any

from polydag.errors import UsageError
from polydag.scores.families import ParentSets, Score, gains_by_callback, total_score

# name -> (module, class); imported on use, since the discrete ones compile
_SCORES = {
    "bic": ("polydag.scores.bic", "BIC"),
    "bge": ("polydag.scores.bge", "BGe"),
    "bdeu": ("polydag.scores.bdeu", "BDeu"),
    "bds": ("polydag.scores.bds", "BDs"),
    "k2": ("polydag.scores.k2", "K2"),
}
SCORES = tuple(_SCORES)


def make_score(name: str, stats: Any, **options: Any) -> Score:
    """A score by its name.

    Parameters
    ----------
    name : {"bic", "bge", "bdeu", "bds", "k2"}
        Which score.
    stats : GaussianStats, DiscreteCounts, or Regimes of either
        The data.
    **options
        What the score's class takes: `penalty` (bic), `alpha_mu`, `alpha_w` (bge), `equivalent_sample_size`
        (bdeu, bds).
    """
    if name not in _SCORES:
        raise UsageError(f"There is no score {name!r}; known are {', '.join(SCORES)}.")
    module, kind = _SCORES[name]
    try:
        score: Score = getattr(importlib.import_module(module), kind)(stats, **options)
    except TypeError as error:
        raise UsageError(f"The score {name!r} does not take these options: {error}.") from None
    return score


__all__ = ["SCORES", "ParentSets", "Score", "gains_by_callback", "make_score", "total_score"]
