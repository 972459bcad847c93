"""Family tables for one or several scores over the same variables, with candidate parents where needed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import pandas as pd

from polydag.errors import DataWarning
from polydag.knowledge import Masks
from polydag.posterior import family_table
from polydag.posterior.families.candidates import Candidates, common_candidates, how_many
from polydag.posterior.families.table import FamilyTable, require_in_degree
from polydag.scores import Score


def tables_of(
    scores: Sequence[Score],
    max_parents: int,
    max_candidates: int | Literal["auto"] | None,
    masks: Masks,
    n_jobs: int,
) -> tuple[list[FamilyTable], Candidates | None]:
    """A table for each score, and the candidate parents, the same for all; None where all variables are.

    "auto" chooses candidates where there would be too many families, and warns. A `max_parents` beyond what
    the number of variables allows is no bound at all.
    """
    n = len(scores[0].names)
    require_in_degree(max_parents)
    max_parents = min(max_parents, n - 1)
    count = how_many(n, max_parents) if max_candidates == "auto" else max_candidates
    pruned = None
    if count is not None and count < n - 1:
        pruned = common_candidates(scores, count, masks, n_jobs=n_jobs)
        if max_candidates == "auto":
            warnings.warn(
                f"{n} variables have too many families: each keeps its {count} best candidate parents. "
                "Set max_candidates to choose how many.",
                DataWarning,
                stacklevel=5,
            )
    kept = pruned.kept if pruned else None
    return [family_table(score, max_parents, candidates=kept, n_jobs=n_jobs) for score in scores], pruned


def candidate_table(candidates: Candidates | None, names: tuple[str, ...]) -> pd.DataFrame:
    """variable, candidates, best_left_out; empty where all variables are candidates."""
    rows = [] if candidates is None else [
        (name, tuple(names[v] for v in candidates.kept[node]), candidates.best_left_out(node))
        for node, name in enumerate(names)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["variable", "candidates", "best_left_out"])
