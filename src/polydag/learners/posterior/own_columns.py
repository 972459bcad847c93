"""Tasks that lack some of the columns: networks over all columns, of which each task shows its own.

The network of a task is over the columns of all tasks. Its rows are scored by what is left of it among the
task's own columns, so that they say nothing about the columns that the task lacks: these are neither parents
that were dropped nor parents that were kept. What is reported of a task is about its own columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index, Mask
from polydag.errors import UsageError
from polydag.posterior import family_table
from polydag.posterior.dags.samples import DagSamples
from polydag.posterior.families import subsets
from polydag.posterior.families.candidates import how_many
from polydag.posterior.families.table import FamilyTable, all_others
from polydag.posterior.probabilities import Posterior
from polydag.posterior.transfer.differences import Differences
from polydag.scores import Score

Sets = NDArray[np.int16]


def columns_of_all(names: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The columns of all tasks, those of the first one first."""
    return tuple(dict.fromkeys(name for own in names for name in own))


def lacking_notes(
    tasks: Sequence[str], own: Sequence[Sequence[str]], names: Sequence[str]
) -> tuple[str, ...]:
    """Which tasks lack which columns."""
    lacks = {task: [name for name in names if name not in has] for task, has in zip(tasks, own, strict=True)}
    return tuple(
        f"{task} lacks {', '.join(missing)}: its network is over its other columns."
        for task, missing in lacks.items()
        if missing
    )


def require_all_candidates(n: int, max_parents: int, max_candidates: int | Literal["auto"] | None) -> None:
    """Raise where there would be too many families without a choice of candidate parents."""
    count = how_many(n, min(max_parents, n - 1)) if max_candidates == "auto" else max_candidates
    if count is not None and count < n - 1:
        raise UsageError(
            f"Tasks that lack columns need all {n} variables as candidate parents. Use fewer variables, a "
            "smaller max_parents or max_candidates=None, or leave such columns out everywhere."
        )


def table_over(names: tuple[str, ...], score: Score, max_parents: int, n_jobs: int) -> FamilyTable:
    """The families over the columns of all tasks, by the score of a task that has some of them."""
    n, own = len(names), [names.index(name) for name in score.names]
    place = {v: k for k, v in enumerate(own)}
    scored = family_table(score, min(max_parents, len(own) - 1), n_jobs=n_jobs)
    top = min(max_parents, n - 1)
    table = FamilyTable(names, all_others(n), top, np.zeros((n, subsets.n_subsets(n - 1, top))))
    for node, k in place.items():
        for s, members in enumerate(table.members(node).tolist()):
            parents = [place[v] for v in members if v in place]
            table.scores[node, s] = scored.scores[k, scored.index(k, parents)]
    return table


@dataclass(frozen=True, eq=False, repr=False)
class OwnPosterior(Posterior):
    """The posterior of a task's own columns.

    Attributes
    ----------
    whole : Posterior
        That of the columns of all tasks.
    """

    whole: Posterior | None = None

    @classmethod
    def of(cls, whole: Posterior, names: tuple[str, ...]) -> OwnPosterior:
        """Of some columns."""
        own = [whole.index(name) for name in names]
        found = cls(names, whole.probabilities[np.ix_(own, own)], whole.method, whole=whole)
        if whole.diagnostics is not None:
            ends = whole.diagnostics[["source", "target"]].isin(names).all(axis=1)
            found = replace(found, diagnostics=whole.diagnostics[ends].reset_index(drop=True))
        if whole.family_probabilities is None or whole.sets is None or whole.candidates is None:
            return found
        sets, families = _families(whole.family_probabilities, whole.sets, whole.candidates, own)
        return replace(found, candidates=all_others(len(own)), sets=sets, family_probabilities=families)

    def sample_dags(self, count: int = 1000, random_state: int | None = None) -> DagSamples:
        """Independent DAGs of this task."""
        assert self.whole is not None  # optional only because fields of the base class are
        return among(self.whole.sample_dags(count, random_state), self.names)  # type: ignore[attr-defined]


def among(drawn: DagSamples, names: tuple[str, ...]) -> DagSamples:
    """What is left of drawn DAGs among some of their variables."""
    own = [drawn.names.index(name) for name in names]
    dags = drawn.adjacency[:, own][:, :, own]
    return replace(DagSamples.pack(names, dags, drawn.over), log_weights=drawn.log_weights)


def known_pairs(names: tuple[str, ...], own: Sequence[Sequence[str]]) -> Mask:
    """Whether each task has both columns of a pair, of shape (tasks, n, n)."""
    has = np.array([[name in columns for name in names] for columns in own])
    return np.asarray(has[:, :, None] & has[:, None, :])


def known_differences(found: Differences, known: Mask) -> Differences:
    """The differences, NaN where tasks lack a column that they would be about."""
    everywhere = np.asarray(known.all(axis=0))
    both = known[:, None] & known[None]

    def where(values: Array | None, told: Mask) -> Array | None:
        return None if values is None else np.where(told, values, np.nan)

    return replace(
        found,
        edges=np.where(known, found.edges, np.nan),
        unique=np.where(everywhere, found.unique, np.nan),
        shared=np.where(everywhere, found.shared, np.nan),
        together=where(found.together, both),
        altered=where(found.altered, everywhere),
        either=None if found.either is None else known_differences(found.either, known),
    )


def mean_of_known(edges: Array, known: Mask) -> Array:
    """The mean over the tasks that have both columns of a pair; 0 where there are none."""
    count = known.sum(axis=0)
    return np.asarray(np.where(known, edges, 0.0).sum(axis=0) / np.maximum(count, 1))


def _families(whole: Array, sets: Sets, candidates: Index, own: list[int]) -> tuple[Sets, Array]:
    """Parent sets among some columns, and their probabilities: sums over those of all columns."""
    n, top = len(own), min(sets.shape[1], len(own) - 1)
    place = {v: k for k, v in enumerate(own)}
    found = np.zeros((n, subsets.n_subsets(n - 1, top)))
    for k, node in enumerate(own):
        variables = np.append(candidates[node], -1)[sets].tolist()
        for s, members in enumerate(variables):
            among_own = [place[v] for v in members if v in place]
            found[k, subsets.number([v - (v > k) for v in among_own], n - 1)] += whole[node, s]
    return subsets.numbered(n - 1, top), found
