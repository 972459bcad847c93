"""Whether each of two tasks has a connection: the probability, and what it would be with other scores.

A task has an edge from v to i, one from i to v, or none. Restricted to such states, the sums over networks
have evidences that add up to that of all networks. So the log odds of "the first task has the connection and
the second has not" are exact; and from the probabilities of families given the states follows what the odds
would be with somewhat different scores, one variable at a time:

    Δ log evidence = Σ_i log Σ_π P(i, π | states) exp(Δs(i, π)).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.transfer.joint_edges import JointEdges
from polydag.posterior.transfer.relatedness import Relatedness, concentrations

FORWARD, BACKWARD, NONE, ANY = "forward", "backward", "none", "any"


@dataclass(frozen=True, eq=False)
class _Part:
    """Networks of both tasks that agree with some states, in one way of going together."""

    only_first: bool
    log_weight: float
    own: Array
    pooled: Array


class DifferenceOdds:
    """The log odds that the first of two tasks has a connection and the other has not.

    Parameters
    ----------
    learner : Relatedness
        Of two tasks.
    i, j : int
        The variables.
    first : int
        The task that has the connection, 0 or 1.
    """

    def __init__(self, learner: Relatedness, i: int, j: int, first: int) -> None:
        parts = list(_parts(learner, i, j, first))
        self._only = np.array([part.only_first for part in parts])
        self._weights = np.array([part.log_weight for part in parts])
        self._own = np.array([part.own for part in parts])
        self._pooled = np.array([part.pooled for part in parts])
        self.log_odds = self._between(self._weights)
        if not np.isfinite(self.log_odds):
            raise DataError("The difference is certain, or impossible, whatever the rows say.")

    def without(self, task: int, own: Array, pooled: Array) -> float:
        """The log odds after changes of the scores: of a task's own families, and of those of all rows."""
        sums = (self._own[:, task] * np.exp(own)).sum(axis=2) + (self._pooled * np.exp(pooled)).sum(axis=2)
        return self._between(self._weights + np.log(sums).sum(axis=1))

    def _between(self, weights: Array) -> float:
        totals = [
            float(np.logaddexp.reduce(weights[own])) if own.any() else -np.inf
            for own in (self._only, ~self._only)
        ]
        return totals[0] - totals[1] if np.isfinite(totals).all() else np.inf


def _parts(learner: Relatedness, i: int, j: int, first: int) -> Iterator[_Part]:
    odds = float(np.mean(1.0 / (1.0 + concentrations(2))))  # that tasks are of one group, in the prior
    other = 1 - first
    alone = {
        (k, state): _alone(learner, k, i, j, state) for k in (0, 1) for state in (FORWARD, BACKWARD, NONE)
    }
    for one in (FORWARD, BACKWARD, NONE):
        for two in (FORWARD, BACKWARD, NONE):
            found = (alone[first, one], alone[other, two])
            if None not in found:
                mine, its = found
                assert mine is not None
                assert its is not None
                both = (mine, its) if first == 0 else (its, mine)
                own = np.concatenate([part.families for part in both])
                only = one != NONE and two == NONE
                log_weight = math.log(1.0 - odds) + mine.log_evidence + its.log_evidence
                yield _Part(only, log_weight, own, np.zeros_like(own[0]))
    # Tasks of one group share an order, and so cannot have an edge in opposite directions.
    for states in ((FORWARD, NONE), (BACKWARD, NONE), (FORWARD, FORWARD), (BACKWARD, BACKWARD), (NONE, ANY)):
        by_task = states if first == 0 else states[::-1]
        for way, share in learner.ways.items():
            joint = _joint(_restricted(learner, i, j, by_task), (0, 1), way)
            if joint is not None:
                only = states[0] != NONE and states[1] == NONE
                log_weight = math.log(odds) + math.log(share) + joint.log_evidence
                yield _Part(only, log_weight, joint.families - joint.alike, joint.alike)


def _alone(learner: Relatedness, k: int, i: int, j: int, state: str) -> JointEdges | None:
    states = tuple(state if task == k else ANY for task in (0, 1))
    return _joint(_restricted(learner, i, j, states), (k,), "alone")


def _joint(learner: Relatedness, members: tuple[int, ...], way: str) -> JointEdges | None:
    """None where no networks agree with the states."""
    try:
        return learner.joint(members, way)
    except DataError:
        return None


def _restricted(learner: Relatedness, i: int, j: int, states: Sequence[str]) -> Relatedness:
    """The learner of the networks that agree with the tasks' states; its prior remains that of all."""
    tasks = [_with_state(table, i, j, state) for table, state in zip(learner.tasks, states, strict=True)]
    whole = learner.pooled

    def pooled(members: Sequence[int]) -> FamilyTable:
        assert whole is not None
        table = whole(members)
        for k in members:
            table = _with_state(table, i, j, states[k])
        return table

    return Relatedness(
        learner.prior, tasks, None if whole is None else pooled, normal=learner.normal,
        log_prior=learner.log_prior, n_jobs=learner.n_jobs, memory=learner.memory,
    )  # fmt: skip


def _with_state(table: FamilyTable, i: int, j: int, state: str) -> FamilyTable:
    """Only the families that agree with an edge from i to j, with the reverse, or with none of both."""
    if state == ANY:
        return table
    scores = table.scores.copy()
    for node, parent, wanted in ((j, i, state == FORWARD), (i, j, state == BACKWARD)):
        has = (table.members(node) == parent).any(axis=1)
        scores[node, has != wanted] = -np.inf
    return table.with_scores(scores)
