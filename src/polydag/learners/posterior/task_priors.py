"""What is known of tasks' networks before their rows are seen: of all tasks alike, or of each its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polydag.arrays import Array
from polydag.errors import UsageError
from polydag.knowledge import Masks, knowledge_masks
from polydag.posterior import edge_probabilities, with_prior
from polydag.posterior.families.priors import certain_edges
from polydag.posterior.families.table import FamilyTable


@dataclass(frozen=True, eq=False)
class TaskPriors:
    """The structure priors of tasks.

    Attributes
    ----------
    structure : {"fair", "uniform"}
        The prior by the number of parents, of all tasks.
    edges : tuple of array or None
        The prior probabilities of edges in each task.
    masks : tuple of Masks
        The required and forbidden edges of each task.
    own_edges, own_masks : bool
        Whether tasks have edge priors, or knowledge, of their own.
    """

    structure: str
    edges: tuple[Array | None, ...]
    masks: tuple[Masks, ...]
    own_edges: bool
    own_masks: bool

    @classmethod
    def of(
        cls, structure: str, edge_prior: Any, knowledge: Any, tasks: Sequence[str], names: tuple[str, ...]
    ) -> TaskPriors:
        """Of what a learner was given: for all tasks, or by the tasks' names."""
        given = _by_task(edge_prior, tasks, "edge_prior")
        edges = tuple(None if own is None else edge_probabilities(own, names) for own in given)
        known = [knowledge_masks(own, names) for own in _by_task(knowledge, tasks, "knowledge")]
        masks = tuple(certain_edges(own, prior, names) for own, prior in zip(known, edges, strict=True))
        return cls(structure, edges, masks, isinstance(edge_prior, Mapping), isinstance(knowledge, Mapping))

    @property
    def differ(self) -> bool:
        """Whether tasks have priors of their own."""
        return self.own_edges or self.own_masks

    @property
    def common(self) -> Masks:
        """The edges that all tasks require, and those that all forbid."""
        return Masks(
            np.all([own.required for own in self.masks], axis=0),
            np.all([own.forbidden for own in self.masks], axis=0),
        )

    @property
    def candidates(self) -> Masks:
        """The edges that some task requires, and those that all forbid."""
        required = np.any([own.required for own in self.masks], axis=0)
        return Masks(required, self.common.forbidden & ~required)

    def with_prior(self, table: FamilyTable, task: int) -> FamilyTable:
        """A task's scores with its prior."""
        return with_prior(table, self.structure, edge_prior=self.edges[task], masks=self.masks[task])

    def allowed(self, table: FamilyTable, task: int) -> FamilyTable:
        """A task's scores, `-inf` where families are ruled out."""
        return with_prior(table, "uniform", masks=self.masks[task])

    def of_common(self, none: FamilyTable) -> FamilyTable:
        """The log prior of the network that tasks have in common; `none` has a score of 0 everywhere."""
        edges = None if self.own_edges else self.edges[0]
        return with_prior(none, self.structure, edge_prior=edges, masks=self.common)

    def weights(self, none: FamilyTable) -> list[FamilyTable]:
        """The log prior weight of each task's families, beyond that of the common network."""
        edges = self.edges if self.own_edges else [None] * len(self.masks)
        return [
            with_prior(none, "uniform", edge_prior=prior, masks=own)
            for prior, own in zip(edges, self.masks, strict=True)
        ]


def _by_task(given: Any, tasks: Sequence[str], what: str) -> list[Any]:
    if not isinstance(given, Mapping):
        return [given] * len(tasks)
    own = {str(task): value for task, value in given.items()}
    if unknown := [task for task in own if task not in tasks]:
        raise UsageError(f"{what} names the task {unknown[0]}. The tasks are {', '.join(tasks)}.")
    return [own.get(task) for task in tasks]
